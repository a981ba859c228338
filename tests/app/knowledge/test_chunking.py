from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from app.knowledge.chunking import HEADER_LIMIT, TARGET, Chunk, chunks
from app.knowledge.document import Document, Section

PIECES = st.sampled_from(
    [
        "word ",
        "a.",
        " ",
        "\n",
        "\n\n",
        "# Heading\n",
        "long" * 40,
        "狗",
        "我爱北京。",
        "“end.” ",
        "é",
        "\t",
    ]
)
TEXTS = st.lists(PIECES, max_size=400).map("".join)
CUTS = st.lists(st.integers(0, 4000), max_size=6)


def document(text: str, cuts: list[int], headings: list[tuple[str, ...]] | None = None) -> Document:
    """Sections that begin at the cuts."""
    places = sorted({0, *(cut for cut in cuts if cut < len(text))})
    ends = [*places[1:], len(text)]
    above = headings or [()]
    sections = tuple(
        Section(start, end, above[number % len(above)])
        for number, (start, end) in enumerate(zip(places, ends, strict=True))
        if text[start:end].strip()
    )
    return Document("text", text, sections, has_lines=True)


def plain(text: str) -> tuple[Chunk, ...]:
    return chunks(document(text, []))


@settings(max_examples=60, deadline=None)
@given(TEXTS, CUTS, st.sampled_from([None, [("A",)], [("A", "B"), ("A", "C"), ("D",)]]))
def test_chunks_are_exact_ordered_and_hold_every_visible_character(
    text: str, cuts: list[int], headings: list[tuple[str, ...]] | None
) -> None:
    made = chunks(document(text, cuts, headings))
    place = 0
    for order, chunk in enumerate(made):
        assert chunk.order == order
        assert chunk.text == text[chunk.start : chunk.end] == chunk.text.strip()
        assert chunk.text
        assert not text[place : chunk.start].strip()
        place = chunk.end
    assert not text[place:].strip()


@settings(max_examples=40, deadline=None)
@given(TEXTS, CUTS)
def test_a_chunk_is_no_wider_than_the_target(text: str, cuts: list[int]) -> None:
    for chunk in chunks(document(text, cuts)):
        wide = sum(letter in "狗我爱北京。" for letter in chunk.text)
        assert len(chunk.text) + wide <= TARGET


@settings(max_examples=40, deadline=None)
@given(TEXTS, CUTS)
def test_lines_are_those_of_an_editor(text: str, cuts: list[int]) -> None:
    for chunk in chunks(document(text, cuts)):
        assert chunk.first_line == text[: chunk.start].count("\n") + 1
        assert chunk.last_line == text[: chunk.end].count("\n") + 1


def test_a_cut_comes_at_a_paragraph_before_a_sentence_and_at_a_sentence_before_a_word() -> None:
    sentence = "Seven words are in this one here. "
    text = sentence * 20 + "\n\n" + sentence * 20
    assert plain(text)[0].end == len((sentence * 20).rstrip())
    assert all(chunk.text.endswith("here.") for chunk in plain(sentence * 100))
    assert all(chunk.text.endswith("。") for chunk in plain("我们去北京看长城。" * 200))
    assert all(chunk.text.endswith("word") for chunk in plain("word " * 1000))


def test_the_last_chunk_is_no_crumb() -> None:
    for length in range(900, 2000, 7):
        made = plain("abcdefg " * (length // 8))
        assert min(len(chunk.text) for chunk in made) > TARGET // 4


def test_small_sections_share_a_chunk_under_one_heading_only() -> None:
    text = "# A\none\n## B\ntwo\n## C\nthree\n# D\nfour\n"
    places = [text.index(mark) for mark in ("# A", "## B", "## C", "# D")]
    made = chunks(document(text, places, [("A",), ("A", "B"), ("A", "C"), ("D",)]))
    assert [chunk.headings for chunk in made] == [("A",), ("D",)]
    assert made[0].text.endswith("three")


def test_a_chunk_stands_on_one_page() -> None:
    text = "first page\nsecond page\n"
    sections = (Section(0, 11, page=1), Section(11, len(text), page=2))
    made = chunks(Document("pdf", text, sections))
    assert [(chunk.page, chunk.last_page, chunk.first_line) for chunk in made] == [
        (1, 1, None),
        (2, 2, None),
    ]


def test_a_table_repeats_its_header_and_shares_no_chunk_with_other_text() -> None:
    rows = "".join(f"{number},value {number}\n" for number in range(200))
    text = f"before\nid,value\n{rows}after\n"
    table = (text.index("id,"), text.index("after"))
    header = "id,value" * 100
    sections = (
        Section(0, table[0]),
        Section(*table, header=header),
        Section(table[1], len(text)),
    )
    made = chunks(Document("csv", text, sections, has_lines=True))
    assert made[0].header == made[-1].header == ""
    assert len(made) > 4
    assert {chunk.header for chunk in made[1:-1]} == {header[:HEADER_LIMIT]}
    assert all(row.partition(",")[0].isdigit() for row in made[2].text.splitlines())


def test_one_line_of_a_million_characters_is_cut() -> None:
    made = plain("x" * 1_000_000)
    assert "".join(chunk.text for chunk in made) == "x" * 1_000_000
    assert {chunk.first_line for chunk in made} == {1}
