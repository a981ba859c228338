"""Laws of the process that embeds: it can die, leave, hang about and be replaced at any time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from app.knowledge.embedder import EmbedderFailed, installed_embedder
from app.knowledge.minilm_embedder import MiniLMEmbedder
from tests.patience import PATIENCE_S

STAND_IN = Path(__file__).with_name("embedding_stand_in.py")
Start = Callable[[str], MiniLMEmbedder]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    # The stand-in is no module of the installed program: it finds the repository by this.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    opened: list[MiniLMEmbedder] = []

    def started(mode: str) -> MiniLMEmbedder:
        opened.append(MiniLMEmbedder((sys.executable, str(STAND_IN), mode)))
        return opened[-1]

    yield started
    for embedder in opened:
        embedder.close()


def test_no_process_runs_before_the_first_text_and_none_after_close(start: Start) -> None:
    embedder = start("works")
    assert embedder.pid is None
    assert embedder.embed_query("four").tolist() == [4.0] * embedder.size
    pid = embedder.pid
    assert pid is not None
    embedder.close()
    assert not psutil.pid_exists(pid)
    with pytest.raises(EmbedderFailed):
        embedder.embed_query("more")


def test_vectors_come_in_the_order_of_the_texts(start: Start) -> None:
    vectors = start("works").embed_passages(["a", "", "ccc", "\udc80" * 2])
    assert vectors.dtype == np.float32
    assert vectors[:, 0].tolist() == [1.0, 0.0, 3.0, 2.0]


def test_other_work_waits_while_it_is_paused_and_ends_with_it(start: Start) -> None:
    embedder = start("works")
    assert embedder.wait()
    embedder.pause()
    asked = iter([True, True, False])
    assert not embedder.wait(lambda: next(asked))
    embedder.close()
    assert not embedder.wait()
    assert embedder.pid is None


def test_a_process_that_left_is_replaced(start: Start) -> None:
    embedder = start("leaves")
    embedder.embed_query("a")
    first = embedder.pid
    if first is not None:
        psutil.Process(first).wait(PATIENCE_S)
    assert embedder.embed_query("bb")[0] == 2.0
    assert embedder.pid != first


def test_a_killed_process_is_replaced(start: Start) -> None:
    embedder = start("works")
    embedder.embed_query("a")
    assert embedder.pid is not None
    psutil.Process(embedder.pid).kill()
    assert embedder.embed_query("bb")[0] == 2.0


def test_a_text_that_kills_it_twice_is_an_error_and_the_next_one_works(start: Start) -> None:
    embedder = start("works")
    with pytest.raises(EmbedderFailed, match="ended twice"):
        embedder.embed_query("die")
    assert embedder.embed_query("bb")[0] == 2.0


@pytest.mark.parametrize(("mode", "words"), [("refuses", "other weights"), ("ends", "not start")])
def test_a_process_that_cannot_work_says_why(start: Start, mode: str, words: str) -> None:
    with pytest.raises(EmbedderFailed, match=words) as caught:
        start(mode).embed_query("a")
    assert "\x1b" not in str(caught.value)


def test_a_command_that_is_not_there_is_an_error() -> None:
    with pytest.raises(EmbedderFailed):
        MiniLMEmbedder(("/nowhere/python",)).embed_query("a")


def test_passages_wait_while_an_answer_streams_and_questions_do_not(start: Start) -> None:
    embedder = start("works")
    embedder.pause()
    done: list[object] = []

    def embed() -> None:
        try:
            embedder.embed_passages(["a"])
        except EmbedderFailed as error:
            done.append(error)

    passages = threading.Thread(target=embed)
    passages.start()
    assert embedder.embed_query("a question")[0] == 10.0
    assert passages.is_alive()
    embedder.close()
    passages.join()
    assert len(done) == 1


def test_it_ends_with_its_parent(start: Start) -> None:
    embedder = start("works")
    embedder.embed_query("a")
    assert embedder._process is not None
    process = embedder._process._process
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(PATIENCE_S) == 0


@pytest.mark.model
def test_the_built_in_model_knows_what_means_the_same() -> None:
    """Cosines as sentence-transformers gives them for the unquantized model."""
    before = set(sys.modules)  # other tests of this run may have loaded them
    embedder = installed_embedder()
    assert embedder is not None
    try:
        vectors = embedder.embed_passages(
            ["A man is eating food.", "A man is eating a piece of bread.", "A cheetah chases prey."]
        )
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)
        assert float(vectors[0] @ vectors[1]) == pytest.approx(0.7553, abs=0.01)
        assert float(vectors[0] @ vectors[2]) < 0.3
        long = "The same words again and again. " * 200
        assert np.isfinite(embedder.embed_query(long)).all()
    finally:
        embedder.close()
    assert not {"onnxruntime", "tokenizers"} & (set(sys.modules) - before)
