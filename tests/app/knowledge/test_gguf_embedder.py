"""Laws of an embedder of the person's choice: passages make way, questions do not, idle it leaves.

The engine's process is scripted; its own laws are checked where the engine is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from app.knowledge import gguf_embedder
from app.knowledge.embedder import EmbedderFailed, EmbeddingEnded
from app.knowledge.gguf_embedder import GGUFEmbedder
from engine.error_values import EngineStopped
from engine.errors import LocalchatError
from engine.messages import EmbedderReady
from tests.patience import PATIENCE_S


class ScriptedClient:
    """A vector is the text's length; `before` runs while a text is being embedded."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []
        self.stops = 0
        self.closed = threading.Event()
        self.before: Callable[[], None] = lambda: None

    def ready(self) -> EmbedderReady:
        return EmbedderReady("any.gguf", "any", 2, True)

    def embed(self, text: str, is_query: bool = False) -> bytes:
        self.asked.append((text, is_query))
        self.before()
        return np.full(2, len(text), "<f4").tobytes()

    def stop_passages(self) -> None:
        self.stops += 1

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> ScriptedClient:
    client = ScriptedClient()
    monkeypatch.setattr(gguf_embedder, "EmbeddingClient", lambda *arguments: client)
    return client


@pytest.fixture
def embedder(client: ScriptedClient, tmp_path: Path) -> Iterator[GGUFEmbedder]:
    embedder = GGUFEmbedder(tmp_path / "any.gguf", tmp_path / "log")
    yield embedder
    embedder.close()


def test_vectors_come_in_the_order_of_the_texts(
    embedder: GGUFEmbedder, client: ScriptedClient
) -> None:
    vectors = embedder.embed_passages(["a", "ccc"])
    assert (vectors.dtype, vectors[:, 0].tolist()) == (np.float32, [1.0, 3.0])
    assert embedder.embed_query("four").tolist() == [4.0, 4.0]
    assert client.asked == [("a", False), ("ccc", False), ("four", True)]
    assert (embedder.fingerprint, embedder.size, embedder.speaks_cjk) == ("any", 2, True)


def test_a_passage_that_made_way_is_embedded_afterwards(
    embedder: GGUFEmbedder, client: ScriptedClient
) -> None:
    ways = iter([True, False])

    def makes_way() -> None:
        if next(ways):
            raise EngineStopped("It made way.")

    client.before = makes_way
    assert embedder.embed_passages(["bb"])[0, 0] == 2.0
    assert client.asked == [("bb", False)] * 2


def test_an_answer_stops_passages_and_questions_go_on(
    embedder: GGUFEmbedder, client: ScriptedClient
) -> None:
    embedder.pause()
    assert client.stops == 1
    with pytest.raises(EmbeddingEnded):
        embedder.embed_passages(["a"], lambda: False)
    assert embedder.embed_query("a")[0] == 1.0
    assert client.asked == [("a", True)]


def test_an_engine_that_fails_says_why(embedder: GGUFEmbedder, client: ScriptedClient) -> None:
    def fails() -> None:
        raise LocalchatError("The model is damaged.", "It ends early.", "Fetch it again.")

    client.before = fails
    with pytest.raises(EmbedderFailed, match="damaged") as failed:
        embedder.embed_query("a")
    assert (failed.value.text, failed.value.next_step) == ("It ends early.", "Fetch it again.")


def test_it_leaves_when_it_has_been_idle(client: ScriptedClient, tmp_path: Path) -> None:
    embedder = GGUFEmbedder(tmp_path / "any.gguf", tmp_path / "log", idle_s=0.01)
    embedder.embed_passages(["a", "b"])
    assert client.closed.wait(PATIENCE_S)
