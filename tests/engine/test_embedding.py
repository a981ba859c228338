"""A GGUF embedding model gives the vectors that transformers gives, and makes way at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from engine.embedding.header import read_header
from engine.embedding.prefixes import Prefixes, prefixes_for
from engine.embedding_client import EmbeddingClient
from engine.error_values import EngineStopped
from engine.errors import LocalchatError, ModelNotFound, UnsupportedModel
from tests.engine.made_embedders import CLS, MEAN, NONE, WORDS, random_bert, write_bert
from tests.patience import becomes

TEXTS = ("abc", "a b c", "xyz zyx", "the cat sat", "q" * 300)
Floats = Any


@pytest.fixture(scope="module")
def bert() -> Any:
    return random_bert()


@pytest.fixture(scope="module", params=[MEAN, CLS], ids=["mean", "cls"])
def pooling(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def client(
    bert: Any, pooling: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddingClient]:
    folder = tmp_path_factory.mktemp("embedding")
    path = write_bert(folder / "tiny.gguf", bert, pooling=pooling)
    client = EmbeddingClient(str(path), folder / "state/log", threads=1)
    yield client
    client.close()


def expected(bert: Any, text: str, pooling: int) -> Floats:
    """transformers on the same pieces, cut to 64 tokens with the end mark kept."""
    import torch

    pieces = ["[CLS]"]
    for word in text.split():
        pieces += [word[0], *(f"##{letter}" for letter in word[1:])]
    ids = [WORDS.index(piece) for piece in [*pieces[:63], "[SEP]"]]
    if any(len(word) > 200 for word in text.split()):
        ids = [WORDS.index(piece) for piece in ("[CLS]", "[UNK]", "[SEP]")]
    with torch.inference_mode():
        states = bert(torch.tensor([ids])).last_hidden_state[0]
    vector = (states.mean(0) if pooling == MEAN else states[0]).numpy()
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize("text", ["abc", "a b c", "xyz zyx", "the cat sat", "ab " * 60])
def test_vectors_are_those_of_transformers(
    client: EmbeddingClient, bert: Any, pooling: int, text: str
) -> None:
    vector = np.frombuffer(client.embed(text), "<f4")
    assert len(vector) == client.ready().size == 64
    assert float(vector @ expected(bert, text, pooling)) == pytest.approx(1.0, abs=1e-3)
    assert float(np.linalg.norm(vector)) == pytest.approx(1.0, abs=1e-5)


def test_texts_do_not_mix(client: EmbeddingClient) -> None:
    """A text's vector is the same whatever came before it."""
    first = client.embed("abc")
    client.embed("another one altogether")
    assert client.embed("abc") == first != client.embed("abd")


def test_a_process_that_died_is_replaced(client: EmbeddingClient) -> None:
    first = client.embed("abc")
    pid = client.pid
    assert pid is not None
    psutil.Process(pid).kill()
    assert becomes(lambda: client.pid != pid)
    assert client.embed("abc") == first
    assert client.pid != pid


def test_stopped_passages_end_and_questions_go_on(client: EmbeddingClient) -> None:
    client.embed("abc")
    ended: list[Exception] = []

    def embed() -> None:
        try:
            while True:
                client.embed("the cat sat on it " * 20)
        except EngineStopped as error:
            ended.append(error)

    passages = threading.Thread(target=embed)
    passages.start()
    while not ended:
        client.stop_passages()
        assert client.embed("a question", is_query=True)
    passages.join()
    assert len(ended) == 1


def test_a_model_of_english_letters_does_not_speak_chinese(client: EmbeddingClient) -> None:
    assert not client.ready().speaks_cjk


def test_a_model_without_pooling_is_refused(bert: Any, tmp_path: Path) -> None:
    path = write_bert(tmp_path / "none.gguf", bert, pooling=NONE)
    with pytest.raises(UnsupportedModel, match="no embedding model"):
        read_header(path)


def test_a_damaged_file_is_refused_by_the_client(bert: Any, tmp_path: Path) -> None:
    whole = write_bert(tmp_path / "whole.gguf", bert).read_bytes()
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(whole[: len(whole) // 2])
    client = EmbeddingClient(str(damaged), tmp_path / "log")
    with pytest.raises(LocalchatError):
        client.ready()
    assert client.pid is None


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        read_header(tmp_path / "nowhere.gguf")


@pytest.mark.parametrize(
    ("architecture", "name", "prefixes"),
    [
        ("bert", "all-MiniLM-L6-v2", Prefixes()),
        ("bert", "multilingual-e5-small", Prefixes("query: ", "passage: ")),
        ("bert", "BGE M3", Prefixes()),
        ("nomic-bert", "nomic embed text v1.5", Prefixes("search_query: ", "search_document: ")),
    ],
)
def test_known_models_get_their_own_words_in_front(
    architecture: str, name: str, prefixes: Prefixes
) -> None:
    assert prefixes_for(architecture, name) == prefixes
