from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from app.knowledge import base as base_module
from app.knowledge import stored_chunks, word_table, words
from app.knowledge.base import KnowledgeBase
from app.knowledge.bases import KnowledgeBases
from app.knowledge.errors import EmbedderChanged
from app.knowledge.index import Index
from app.knowledge.root_reading import Stopped
from app.paths import Paths
from tests.app.knowledge.hash_embedder import HashEmbedder
from tests.app.knowledge.local_reading import LocalReading

TEXTS = {
    "lease.txt": "The lease of the flat ends in May. Rent is 900 euros a month.",
    "garden.txt": "Tomatoes need water. The garden of the flat has three beds.",
    "长城.txt": "万里长城是中国古代的军事工程。长城东起山海关。",
}


@pytest.fixture
def base(tmp_path: Path):
    with KnowledgeBase.temporary(tmp_path / "texts", TEXTS) as base:
        yield base


def names(base: KnowledgeBase, query: str) -> list[str]:
    hits = base.index.search_words(query, 10)
    return [chunk.name for chunk in base.index.chunk([hit.chunk_id for hit in hits])]


def test_texts_are_found_by_their_words_best_first(base: KnowledgeBase) -> None:
    assert names(base, "when does the lease end") == ["lease.txt"]
    assert names(base, "flat with tomatoes")[0] == "garden.txt"
    assert sorted(names(base, "flat")) == ["garden.txt", "lease.txt"]
    assert names(base, "长城在哪里")[0] == "长城.txt"
    assert names(base, "nothing here") == []
    assert names(base, "") == []


def test_a_text_is_found_by_the_name_of_its_file(base: KnowledgeBase) -> None:
    assert names(base, "garden") == ["garden.txt"]
    assert "garden" not in base.index.chunk([1])[0].text


def test_scores_are_sqlites_bm25_with_their_sign_turned(
    base: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.knowledge.index.FEW", 0)
    hits = base.index.search_words("flat water", 10)
    with base.index.read() as connection:
        rows = connection.execute(
            "SELECT rowid, bm25(words) FROM words WHERE words MATCH 'flat OR water'"
        ).fetchall()
    assert {hit.chunk_id: hit.bm25 for hit in hits} == {row: max(-score, 0) for row, score in rows}
    assert [hit.bm25 for hit in hits] == sorted((hit.bm25 for hit in hits), reverse=True)


def test_the_sum_of_idf_counts_chunks_with_each_word(
    base: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.knowledge.index.FEW", 0)

    def by_hand(word: str) -> float:
        held = sum(re.search(rf"\b{word}\b", text) is not None for text in TEXTS.values())
        return max(math.log((3 - held + 0.5) / (held + 0.5)), 1e-6)

    assert base.index.idf_sum("flat rent?") == pytest.approx(by_hand("flat") + by_hand("Rent"))
    assert base.index.idf_sum("absent") == pytest.approx(math.log(3.5 / 0.5))


def test_a_document_can_be_read_whole_with_its_offsets(tmp_path: Path) -> None:
    text = "First paragraph here. " * 60 + "\n\n\n  " + "Second one. " * 100
    with KnowledgeBase.temporary(tmp_path / "t", {"long.txt": text}) as base:
        (document,) = base.index.content_ids()
        chunks = base.index.document_chunks(document)
        joined = stored_chunks.joined(chunks)
        assert len(chunks) > 2
        assert "".join(joined.split()) == "".join(text.split())
        assert all(joined[each.start : each.end] == each.text for each in chunks)


def test_chunks_come_in_the_order_asked_and_unknown_ones_are_left_out(base: KnowledgeBase) -> None:
    assert [chunk.id for chunk in base.index.chunk([3, 99, 1])] == [3, 1]


def test_documents_are_found_by_a_part_of_their_name(base: KnowledgeBase) -> None:
    assert len(base.index.content_ids()) == 3
    (document,) = base.index.content_ids("GARD")
    assert base.index.document_chunks(document)[0].name == "garden.txt"


def test_texts_with_the_same_bytes_are_one_document(tmp_path: Path) -> None:
    texts = {"a.txt": "the very same", "b.txt": "the very same", "c.txt": "another"}
    with KnowledgeBase.temporary(tmp_path / "t", texts) as base:
        assert base.index.chunk_count == 2
        (chunk,) = base.index.chunk([base.index.search_words("very", 5)[0].chunk_id])
        assert (chunk.name, chunk.other_names) == ("a.txt", ("b.txt",))
        assert names(base, "b.txt") == names(base, "a.txt")


def test_chosen_sentences_are_of_the_corpus_and_always_the_same(base: KnowledgeBase) -> None:
    chosen = base.index.random_sentences(10)
    assert chosen
    assert chosen == base.index.random_sentences(10)
    assert all(any(sentence in text for text in TEXTS.values()) for sentence in chosen)


def test_hostile_texts_are_cleaned_before_they_are_stored(tmp_path: Path) -> None:
    texts = {"a\x1b[31m\udce9.txt": "hid\u200bden \udc80 text", "empty": " \n"}
    with KnowledgeBase.temporary(tmp_path / "t", texts) as base:
        (chunk,) = base.index.chunk([1])
        assert chunk.text == "hidden  text"
        assert chunk.hidden_characters == 2
        assert "\x1b" not in chunk.name
        assert [file.state for file in base.files()] == ["indexed", "skipped: empty"]


def test_other_rules_of_words_make_the_word_index_again(
    base: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {query: base.index.search_words(query, 9) for query in ("flat", "长城", "garden")}
    monkeypatch.setattr(word_table.words, "rules", lambda: "other")
    with pytest.raises(Stopped):
        base.index.catalogue.refresh_words(stop)
    assert {query: base.index.search_words(query, 9) for query in before} == before
    assert base.index.catalogue.refresh_words()
    assert not base.index.catalogue.refresh_words(stop)
    assert {query: base.index.search_words(query, 9) for query in before} == before


def stop() -> None:
    raise Stopped


def test_an_index_of_a_program_that_told_two_scripts_apart_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "note.txt").write_text("圖書館的開放時間")
    monkeypatch.setattr(base_module, "ReadingChild", LocalReading)
    bases = KnowledgeBases(Paths.under(tmp_path / "home"))
    with monkeypatch.context() as older:
        older.setattr(words, "simplified", lambda text: text)
        older.setattr(words, "rules", lambda: "2/15.0.0")
        with bases.create("work", [docs]) as base:
            base.sync(lexical_only=True)
            assert base.index.search_words("图书馆", 9) == []
    monkeypatch.setattr(base_module, "RESCAN_SECONDS", 0.0)
    (docs / "more.txt").write_text("讀書")
    with bases.open("work") as base:
        assert not base.rescan(), "new documents are not waited for, the old ones' words are"
        (hit,) = base.index.search_words("图书馆", 9)
        assert base.index.chunk([hit.chunk_id])[0].text == "圖書館的開放時間"


def filled(index: Index, embedder: HashEmbedder, count: int, replace: bool = False) -> None:
    """Rows for the first `count` texts, as an embedding that was cut short leaves them."""
    bound = index.bind_embedder(embedder.fingerprint, embedder.size, replace)
    wanted = index.without_vector(count)
    rows = index.free_rows(len(wanted))
    if wanted:
        made = embedder.embed_passages([each.text for each in wanted])
        index.vectors(bound).write(rows, made)
    index.set_vectors([each.chunk_id for each in wanted], rows)


def test_each_text_gets_a_row_of_its_own_once(base: KnowledgeBase) -> None:
    index = base.index
    filled(index, HashEmbedder(), 2)
    assert sorted(index.vector_slots().values()) == [0, 1]
    assert index.count_without_vector() == 1
    filled(index, HashEmbedder(), 5)
    assert sorted(index.vector_slots().values()) == [0, 1, 2]
    assert index.without_vector(5) == []
    assert (index.embedder, index.vector_set.size) == ("hash-1", 16)


def test_another_embedder_is_refused_until_it_is_asked_for(base: KnowledgeBase) -> None:
    index = base.index
    filled(index, HashEmbedder(), 3)
    slots = index.vector_slots()
    for other in (HashEmbedder("hash-2"), HashEmbedder("hash-1", size=32)):
        with pytest.raises(EmbedderChanged, match="hash-1"):
            index.bind_embedder(other.fingerprint, other.size)
    assert (index.embedder, index.vector_slots()) == ("hash-1", slots)


def test_the_old_vectors_stay_in_use_until_the_new_ones_are_complete(base: KnowledgeBase) -> None:
    index = base.index
    filled(index, HashEmbedder(), 3)
    slots = index.vector_slots()
    filled(index, HashEmbedder("hash-2", 8), 2, replace=True)
    assert (index.embedder, index.vector_slots()) == ("hash-1", slots)
    # Going on needs no second consent.
    filled(index, HashEmbedder("hash-2", 8), 2)
    assert index.without_vector(5) == []
    old = index.vector_path(index.vector_set)
    old.touch()
    index.finish_vectors()
    assert (index.embedder, index.vector_set.size, len(index.vector_slots())) == ("hash-2", 8, 3)
    assert not old.exists()


def test_the_first_embedder_can_come_back_while_it_is_being_replaced(base: KnowledgeBase) -> None:
    index = base.index
    filled(index, HashEmbedder(), 3)
    filled(index, HashEmbedder("hash-2"), 1, replace=True)
    filled(index, HashEmbedder(), 3)
    assert index.without_vector(5) == []
    assert index.embedder == "hash-1"
    with pytest.raises(EmbedderChanged):
        index.bind_embedder("hash-2", 16)


def test_a_calibration_is_outdated_by_another_corpus_or_embedder(base: KnowledgeBase) -> None:
    index = base.index
    assert index.calibration is None
    index.set_calibration({"words": 0.5}, None)
    assert index.calibration == {"words": 0.5}
    assert not index.needs_calibration(None)
    assert index.needs_calibration("hash-1")
    index.catalogue.remove(1, [b"lease.txt"])
    index.catalogue.collect(index.catalogue.orphans())
    assert index.chunk_count == 2
    assert index.needs_calibration(None)
