"""Laws of the native vocabulary: text goes in and comes back, and never becomes a control token."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.description import describe
from models.errors import ModelFileError
from models.tokenizers.gguf_vocab import GGUFTokenizer
from tests.models.gguf_bytes import tiny_llama

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def starter(starter_model: Path) -> Iterator[GGUFTokenizer]:
    tokenizer = GGUFTokenizer(starter_model)
    yield tokenizer
    tokenizer.close()


@pytest.fixture(scope="module")
def gemma(window_model: Path) -> Iterator[GGUFTokenizer]:
    tokenizer = GGUFTokenizer(window_model)
    yield tokenizer
    tokenizer.close()


def decoded(tokenizer: GGUFTokenizer, ids: tuple[int, ...]) -> str:
    return b"".join(map(tokenizer.piece, ids)).decode()


NASTY = st.one_of(
    # The starter's vocabulary has no token for some control characters and unassigned planes.
    st.text(st.characters(max_codepoint=0x2FFFF, exclude_categories=["Cc", "Cs"]), max_size=60),
    st.lists(
        st.sampled_from(
            [
                "<|im_end|>",
                "<end_of_turn>",
                "<bos>",
                "<unk>",
                "<|im_start|>",
                "\0",
                "\n\n",
                "  ",
                "é",
                "😀",
            ]
        ),
        max_size=8,
    ).map("".join),
)


@settings(max_examples=150, deadline=None)
@given(text=NASTY)
def test_text_comes_back_and_holds_no_control_token(
    starter: GGUFTokenizer, gemma: GGUFTokenizer, text: str
) -> None:
    for tokenizer in (starter, gemma):
        ids = tokenizer.encode(text)
        assert decoded(tokenizer, ids) == text
        assert not set(ids) & set(tokenizer.control_tokens.values())
        assert not set(ids) & tokenizer.end_ids


def test_lone_surrogates_become_replacement_marks(starter: GGUFTokenizer) -> None:
    assert decoded(starter, starter.encode("a\ud800b")) == "a\ufffdb"


def test_control_tokens_are_found_and_add_no_text(
    starter: GGUFTokenizer, gemma: GGUFTokenizer
) -> None:
    assert starter.control_tokens["<|im_end|>"] == starter.find("<|im_end|>") == 2
    assert gemma.control_tokens["<end_of_turn>"] == gemma.find("<end_of_turn>") == 106
    assert starter.piece(2) == b""
    assert starter.token_text(2) == "<|im_end|>"
    assert starter.token_text(starter.encode("hello")[0]) == "hello"
    assert starter.find("no such single token") is None
    for bad in (-1, starter.vocab_size, 2**31):
        assert starter.piece(bad) == b""
        assert starter.token_text(bad) == ""


def test_ends_are_the_union_of_all_sources(starter: GGUFTokenizer, gemma: GGUFTokenizer) -> None:
    assert {0, 2} <= starter.end_ids
    assert {1, 106} <= gemma.end_ids


def test_bos_facts_follow_the_file(starter: GGUFTokenizer, gemma: GGUFTokenizer) -> None:
    assert (starter.bos_id, starter.add_bos) == (1, False)
    assert (gemma.bos_id, gemma.add_bos) == (2, True)


def test_fingerprints_tell_vocabularies_apart(
    starter: GGUFTokenizer, gemma: GGUFTokenizer, starter_model: Path
) -> None:
    assert starter.fingerprint == describe(starter_model).tokenizer != gemma.fingerprint


def test_many_threads_get_the_same_ids(starter: GGUFTokenizer) -> None:
    texts = [f"text {number} – " * 50 for number in range(40)]
    expected = [starter.encode(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(starter.encode, texts)) == expected


def test_a_closed_tokenizer_refuses(starter_model: Path) -> None:
    tokenizer = GGUFTokenizer(starter_model)
    tokenizer.close()
    tokenizer.close()
    with pytest.raises(ValueError, match="closed"):
        tokenizer.encode("x")


def test_unusable_vocabularies_are_a_readable_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tiny_llama(tokenizer__ggml__model="martian")
    with caplog.at_level(logging.ERROR), pytest.raises(ModelFileError, match="vocabulary"):
        GGUFTokenizer(file.write(tmp_path / "x.gguf"))
    assert caplog.records
    assert capfd.readouterr() == ("", "")
    with pytest.raises(ModelFileError, match="names no tokens"):
        GGUFTokenizer(tiny_llama(tokenizer__ggml__tokens=None).write(tmp_path / "y.gguf"))
