"""Laws of a search: fused scores, budget, shares, copies, neighbours, refusal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.knowledge.base import KnowledgeBase
from app.knowledge.bases import KnowledgeBases
from app.knowledge.candidates import BM25_LIMIT, Score, candidates, is_latin, meaning_for, ranked
from app.knowledge.embedder import EmbedderFailed
from app.knowledge.gate import Thresholds, found_share, thresholds
from app.knowledge.passage import Retrieved
from app.knowledge.retrieval import UNUSED
from app.knowledge.selection import CRUMB, SHARE, Selection, select, shared_out
from app.knowledge.words import terms
from app.paths import Paths
from tests.app.knowledge.hash_embedder import HashEmbedder

Make = Callable[..., KnowledgeBase]

HANDBOOK = "\n\n".join(
    f"Rule {number}. The {thing} of the office is {state} on weekdays and nobody may move it. "
    + f"Whoever needs the {thing} asks the {person} first, in writing, a day before. " * 6
    for number, (thing, state, person) in enumerate(
        [
            ("printer", "noisy", "librarian"),
            ("projector", "dusty", "gardener"),
            ("bicycle", "rusty", "caretaker"),
            ("telescope", "fragile", "astronomer"),
            ("kettle", "boiling", "cook"),
            ("piano", "untuned", "organist"),
        ]
    )
)
TEXTS = {
    "handbook.md": HANDBOOK,
    "rivers.md": "The Danube flows through ten countries. The Rhine rises in the Alps.",
    "城市.txt": "北京是中国的首都。长城在北京的北面，每年有很多游客参观。上海是最大的港口城市。",
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    folder = tmp_path_factory.mktemp("shared") / "base"
    with KnowledgeBase.temporary(folder, TEXTS) as base:
        base.sync()
        yield base


@pytest.fixture
def make(tmp_path: Path, shared: KnowledgeBase) -> Iterator[Make]:
    opened: list[KnowledgeBase] = []

    def made(texts: Mapping[str, str] = TEXTS, embedder: Any = None) -> KnowledgeBase:
        if texts is TEXTS and embedder is None:
            return shared
        base = KnowledgeBase.temporary(tmp_path / f"base-{len(opened)}", texts, embedder)
        opened.append(base)
        base.sync()
        return base

    yield made
    for base in opened:
        base.close()


class Latin(HashEmbedder):
    """Trained on Latin letters only."""

    speaks_cjk = False


class Failing(HashEmbedder):
    is_broken = False

    def embed_query(self, text: str) -> Any:
        if self.is_broken:
            raise EmbedderFailed("broken")
        return super().embed_query(text)


def chosen(base: KnowledgeBase, question: str, budget: int) -> Selection:
    """What goes in, whether or not it would be refused."""
    scores = candidates(base.index, None, question)
    return select(question, base.index.chunk(ranked(scores)), scores, budget)


def whole(retrieved: Retrieved | Selection) -> list[str]:
    if isinstance(retrieved, Selection):
        return [passage.name for passage in retrieved.taken]
    return [passage.name for passage in retrieved.passages]


def test_scores_are_the_sum_that_brute_force_finds(make: Make) -> None:
    embedder = HashEmbedder()
    base = make(embedder=embedder)
    query = "Who lends the telescope of the office?"
    meaning = meaning_for(base.index, base.vectors(), embedder, query)
    scores = candidates(base.index, meaning, query)
    chunks = base.index.chunk(list(base.index.vector_slots()))
    assert set(scores) == {chunk.id for chunk in chunks}
    bm25 = {hit.chunk_id: hit.bm25 for hit in base.index.search_words(query, 1000)}
    idf_sum = sum(base.index.idf(term) for term in terms(query))
    for chunk in chunks:
        cosine = float(embedder.embed_query(chunk.embed_text) @ embedder.embed_query(query))
        words = bm25.get(chunk.id, 0.0) / (BM25_LIMIT * idf_sum)
        assert scores[chunk.id].fused == pytest.approx(cosine + 0.75 * words, abs=1e-5)


@pytest.mark.parametrize("query", ["长城在哪里", "GPT4模型 的参数", "Что такое Дунай?", "날씨"])
def test_a_model_of_english_has_no_say_in_other_scripts(make: Make, query: str) -> None:
    embedder = Latin()
    base = make(embedder=embedder)
    assert not is_latin(query)
    assert meaning_for(base.index, base.vectors(), embedder, query) is None
    assert meaning_for(base.index, base.vectors(), HashEmbedder(), query) is not None


def test_meaning_has_no_say_before_nearly_all_chunks_have_a_vector(make: Make) -> None:
    embedder = HashEmbedder()
    base = make(embedder=embedder)
    set_id = base.index.vector_set.id  # type: ignore[union-attr]  # there is one
    with base.index._writes.write() as connection:
        connection.execute("DELETE FROM vectors WHERE set_id = ? AND row < 3", (set_id,))
    assert meaning_for(base.index, base.vectors(), embedder, "the piano") is None
    known = len(base.index.vector_slots())
    reason = base.query("Who moves the piano?").reason
    assert reason.endswith(f"by their words; the meaning of {known} is known so far.")


def test_a_failing_embedder_costs_the_meaning_only(make: Make) -> None:
    embedder = Failing()
    base = make(embedder=embedder)
    embedder.is_broken = True
    found = base.query("Where does the Rhine rise?")
    assert whole(found)[0] == "rivers.md"
    assert found.reason.endswith("by their words.")


@pytest.mark.parametrize("budget", [1, 700, 2_000, 5_000, 100_000])
def test_passages_keep_to_the_budget_but_for_the_first_chunk(make: Make, budget: int) -> None:
    base = make()
    found = chosen(base, "office printer projector bicycle telescope kettle piano", budget)
    used = sum(len(passage.text) for passage in found.taken)
    assert found.taken
    longest = max(len(chunk.text) for chunk in chunks_of(base))
    assert used <= max(budget, longest) + 4 * len(found.taken)
    if budget == 100_000:
        assert not found.unused


def test_what_is_far_behind_the_best_is_not_given_to_the_model(make: Make) -> None:
    notes = {f"{number}.md": f"note number{number} on small things" for number in range(30)}
    base = make({**notes, "fee.md": "note on the annual fee of the club"})
    found = base.query("Which note says something on the annual fee of the club?")
    assert whole(found) == ["fee.md"]
    assert len(found.unused) == UNUSED
    everything = base.query("Summarise all notes on the annual fee")
    assert everything.needs_all
    assert len(everything.passages) == 31


def chunks_of(base: KnowledgeBase) -> list[Any]:
    return [c for content in base.index.content_ids() for c in base.index.document_chunks(content)]


def test_neighbours_are_one_passage_with_exact_offsets(make: Make) -> None:
    base = make()
    found = chosen(base, "the office printer projector bicycle telescope kettle piano", 100_000)
    (handbook,) = [p for p in found.taken if p.name == "handbook.md"]
    assert (handbook.start, handbook.end) == (0, len(HANDBOOK.rstrip()))
    assert len(handbook.text) == handbook.end - handbook.start
    assert handbook.text.split() == HANDBOOK.split()
    assert (handbook.first_line, handbook.last_line) == (1, HANDBOOK.count("\n") + 1)


NUMBERED = "\n\n".join(f"Part {number}.\n" + "A line of words.\n" * 45 for number in range(5))


@pytest.mark.parametrize("budget", [900, 1_500, 2_000, 2_700])
def test_the_budget_is_filled_with_the_beginning_of_a_chunk(make: Make, budget: int) -> None:
    chunks = chunks_of(make({"numbered.md": NUMBERED}))
    scores = {chunk.id: Score(1 - chunk.order / 100) for chunk in chunks}
    (passage,) = select("line", chunks, scores, budget).taken
    assert budget - CRUMB <= len(passage.text) <= budget + 2 * len(chunks)
    assert passage.text.split() == NUMBERED[: passage.end].split()
    assert passage.last_line == NUMBERED[: passage.end].count("\n") + 1
    assert passage.text.endswith("words.")


def test_a_cut_chunk_and_the_one_after_it_are_two_passages(make: Make) -> None:
    first, second, third, *_ = chunks_of(make({"numbered.md": NUMBERED}))
    scores = {third.id: Score(1.0), first.id: Score(0.9), second.id: Score(0.2)}
    budget = len(first.text) + len(third.text) + len(second.text) // 2
    passages = select("line", [third, first, second], scores, budget).taken
    assert [passage.start for passage in passages] == [first.start, third.start]
    assert second.start < passages[0].end < second.end
    for passage in passages:
        assert passage.text.split() == NUMBERED[passage.start : passage.end].split()


def test_the_best_chunk_goes_in_first_and_then_what_stands_beside_good_ones(make: Make) -> None:
    """Alone, the far chunk scores more than the one between the two best."""
    texts = {"numbered.md": NUMBERED, "far.md": "Far. " + "Another line of words. " * 30}
    chunks = chunks_of(make(texts))
    (far,) = [chunk for chunk in chunks if chunk.name == "far.md"]
    first, second, third, *_ = [chunk for chunk in chunks if chunk.name != "far.md"]
    scores = {each.id: Score(words) for each, words in ((far, 0.8), (first, 0.9), (third, 0.9))}
    scores |= {second.id: Score(0.79)}
    order = shared_out("line", [first, third, far, second], scores)
    assert order.index(second) < order.index(far)
    scores = {second.id: Score(1.0), far.id: Score(0.9), first.id: Score(0.2), third.id: Score(0.2)}
    assert shared_out("line", [second, far, first, third], scores)[0] == second


def test_the_best_document_comes_first_and_its_passages_in_order(make: Make) -> None:
    found = make().query("Where does the Rhine rise, and who lends the piano?", 4_000)
    assert [p.start for p in found.passages if p.name == "handbook.md"] == sorted(
        p.start for p in found.passages if p.name == "handbook.md"
    )
    best = max(found.passages, key=lambda passage: passage.score)
    assert found.passages[0].name == best.name


def long_texts() -> dict[str, str]:
    sentence = "The heron of the lake eats small fish at dawn. "
    big = "\n\n".join(f"Part {number}. " + sentence * 15 for number in range(12))
    small = "The heron of the lake eats small fish at dusk, said the keeper. " + "More of it. " * 9
    return {"everything.md": big, "keeper.md": small}


@pytest.mark.parametrize(
    ("question", "place"), [("Which heron eats fish?", SHARE), ("What says everything.md?", 8)]
)
def test_one_document_leaves_room_for_others_unless_it_is_named(
    make: Make, question: str, place: int
) -> None:
    """Eight chunks of one document score a little more than the one of another."""
    chunks = chunks_of(make(long_texts()))
    big = [chunk for chunk in chunks if chunk.name == "everything.md"][:8]
    (small,) = [chunk for chunk in chunks if chunk.name == "keeper.md"]
    scores = {chunk.id: Score(1.0) for chunk in big} | {small.id: Score(0.9)}
    assert shared_out(question, [*big, small], scores).index(small) == place


def test_equal_texts_are_given_once_with_all_names(make: Make) -> None:
    text = TEXTS["rivers.md"]
    base = make({"a.md": text, "b.md": text, "c.md": "\n\n" + text, "d.md": "Nothing of it."})
    (passage,) = base.query("Where does the Rhine rise?").passages
    assert {passage.name, *passage.other_names} == {"a.md", "b.md", "c.md"}


def test_of_two_versions_the_newer_one_is_cited(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    bases = KnowledgeBases(Paths.under(tmp_path / "home"))
    for name, changed in (("first.md", 1e9), ("third.md", 1.2e9), ("second.md", 1.1e9)):
        (docs / name).write_text(f"{TEXTS['rivers.md']}\n\n# End of the {name} version\n\nSo.")
        os.utime(docs / name, (changed, changed))
    with bases.create("rivers", [docs]) as base:
        base.sync()
        passage = base.query("Where does the Rhine rise?").passages[0]
    assert (passage.name, *passage.other_names) == ("third.md", "second.md", "first.md")


def test_off_topic_is_refused_with_the_nearest_passages(make: Make) -> None:
    found = make().query("How long should a turkey be roasted in an oven with ten plates?")
    assert found.is_refused
    scores = [passage.score for passage in found.best_first]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == len(found.passages) + len(found.unused) > 0
    assert "passages were searched" in found.reason


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Where does the Rhine rise?", "rivers.md"),
        ("长城在哪里？", "城市.txt"),
        ("哪個港口城市最大？", "城市.txt"),
        ("Who is asked for the telescope?", "handbook.md"),
        ("telescope", "handbook.md"),
    ],
)
def test_what_the_documents_hold_is_not_refused(make: Make, question: str, name: str) -> None:
    assert whole(make().query(question))[0] == name


class Leaning(HashEmbedder):
    """Vectors of the texts that `leans` chooses have a large part in common."""

    def __init__(self, leans: Callable[[str], bool]) -> None:
        super().__init__()
        self._leans = leans

    def embed_query(self, text: str) -> Any:
        vector = super().embed_query(text)
        if self._leans(text):
            vector[0] += 3.0
        return vector / np.linalg.norm(vector)


@pytest.mark.parametrize(
    ("leans", "least", "most"),
    [(lambda text: True, 0.6, 1.0), (lambda text: "harvest" in text, -0.1, 0.1)],
)
def test_a_high_background_is_the_models_and_not_that_of_alike_documents(
    make: Make, leans: Callable[[str], bool], least: float, most: float
) -> None:
    diary = "\n\n".join(
        f"# Day {day}\n\nThe harvest of day {day} was brought into barn {day} by cart." * 9
        for day in range(40)
    )
    base = make({"diary.md": diary}, Leaning(leans))
    assert least < thresholds(base.index.calibration).background < most
    nothing = base.query("Who painted the ceiling?").best_first
    assert nothing
    assert all(passage.score < 0.75 for passage in nothing)


def test_the_other_wording_is_searched_together_with_the_question(make: Make) -> None:
    base = make()
    assert base.query("And what about the other one?").is_refused
    found = base.query(
        "And what about the other one?", history_terms=("Where does the Rhine rise?",)
    )
    assert whole(found)[0] == "rivers.md"


def test_a_question_about_the_whole_is_not_refused(make: Make) -> None:
    found = make().query("Summarize all documents")
    assert found.needs_all
    assert not found.is_refused


@pytest.mark.parametrize(
    "question",
    ["", " \n", '"', "NEAR(a b)", "-x* col:y", "the of and", "🦆", "a" * 10_000, "\udc80"],
)
def test_any_question_is_searched_without_an_error(make: Make, question: str) -> None:
    make().query(question)


def test_an_empty_base_refuses(make: Make) -> None:
    found = make({}).query("anything")
    assert found.is_refused
    assert "0 passages were searched" in found.reason


def test_one_passage_is_told_as_one(make: Make) -> None:
    assert "1 passage was searched" in make({"a.md": "Otters swim."}).query("otters").reason


def test_thresholds_that_cannot_be_read_are_the_defaults() -> None:
    assert thresholds(None) == thresholds({"latin_words": "x"}) == Thresholds()
    assert thresholds({"latin_words": 0.5, "more": 1}).latin_words == 0.5


def test_the_found_share_is_one_for_a_chunk_that_holds_every_word(make: Make) -> None:
    index = make().index
    (chunk,) = [each for each in index.chunk(range(1, 50)) if each.name == "rivers.md"]
    assert found_share(index, "Danube countries flowing", [chunk.id]) == pytest.approx(1.0)
    assert found_share(index, "penguin", [chunk.id]) == 0.0


def test_a_score_says_what_it_is_made_of() -> None:
    assert Score(0.812, None).reason == "words 0.81"
    assert Score(0.812, 0.4).reason == "words 0.81 + meaning 0.40"


def test_a_name_in_another_script_counts_as_much_as_a_chinese_word(make: Make) -> None:
    """One word beside a Chinese one, which is three terms: it outweighs two of them."""
    texts = {f"{number}.txt": f"第{number}号文件，没有别的内容" for number in range(8)}
    texts["right.txt"] = "NSFNET 是早期的骨干网络。"
    texts["wrong.txt"] = "主色与棱角都很好看。"
    assert whole(chosen(make(texts), "NSFNET角色", 1_000))[0] == "right.txt"
