"""Laws of descriptions: they say what the header says, and refuse by name what cannot run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.description import describe
from models.errors import ModelFileError, UnsupportedModel
from tests.models.gguf_bytes import Tensor, tiny_llama
from tests.models.refusal import refusal


@pytest.mark.model
def test_the_starter_is_described(starter_model: Path) -> None:
    found = describe(starter_model)
    assert (found.architecture, found.quantization, found.layers) == ("llama", "Q4_1", 30)
    assert (found.heads, found.kv_heads, found.key_length) == (9, (3,) * 30, 64)
    assert (found.ctx_train, found.vocab_size, found.parameters) == (8192, 49152, 134_515_008)
    assert found.weights_bytes < found.file_bytes == starter_model.stat().st_size
    assert found.template is not None
    assert not found.recurrent


@pytest.mark.model
def test_window_layers_are_five_of_six(window_model: Path) -> None:
    found = describe(window_model)
    assert found.window == 512
    assert [i for i, window in enumerate(found.window_layers) if not window] == [5, 11, 17]
    assert found.template is None
    assert found.template_hash == ""


def test_an_explicit_head_size_wins(tmp_path: Path) -> None:
    found = describe(tiny_llama().write(tmp_path / "x.gguf"))
    assert (found.key_length, found.value_length) == (32, 32)
    assert found.embedding // found.heads == 16


def test_key_and_value_sizes_may_differ(tmp_path: Path) -> None:
    file = tiny_llama(llama__attention__value_length=16)
    for tensor in file.tensors:
        if "attn_v" in str(tensor.name):
            tensor.shape = (64, 32)
        if "attn_output" in str(tensor.name):
            tensor.shape = (64, 64)
    found = describe(file.write(tmp_path / "x.gguf"))
    assert (found.key_length, found.value_length) == (32, 16)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"general__architecture": "warp9"}, "'warp9' is not known"),
        ({"general__architecture": None}, "names no architecture"),
        ({"general__architecture": "bert"}, "embedding model"),
        ({"general__architecture": "x\x1b[31m"}, r"x\x1b[31m"),
        ({"general__type": "adapter"}, "adapter"),
        ({"llama__rope__scaling__type": "spiral"}, "'spiral' is not known"),
        ({"tokenizer__ggml__tokens": None}, "no vocabulary"),
    ],
)
def test_what_cannot_run_is_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(UnsupportedModel) as caught:
        describe(tiny_llama(**changes).write(tmp_path / "x.gguf"))
    assert words in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"llama__block_count": None}, "llama.block_count is missing"),
        ({"llama__block_count": 10**9}, "llama.block_count is 1,000,000,000"),
        ({"llama__block_count": 3}, "layer 2 has no tensors"),
        ({"llama__embedding_length": "wide"}, "llama.embedding_length is no whole number"),
        ({"llama__embedding_length": 128}, "token_embd.weight is 64 x 40"),
        ({"llama__attention__head_count": 0}, "head_count is missing or absurd"),
        ({"llama__attention__head_count": [4, 4, 4]}, "3 entries for 2 layers"),
        ({"llama__attention__head_count_kv": 5}, "head_count_kv is not between"),
        ({"llama__attention__head_count_kv": 4}, "attn_k.weight is 64 x 64"),
        ({"llama__attention__key_length": 10**6}, "key_length is 1,000,000"),
        ({"llama__attention__key_length": 16}, "the header asks for"),
        ({"llama__feed_forward_length": 100}, "ffn_gate.weight is 64 x 96"),
        ({"tokenizer__ggml__bos_token_id": 40}, "bos_token_id is 40, outside the 40"),
        ({"tokenizer__ggml__eos_token_id": 10**6}, "eos_token_id is 1,000,000"),
        ({"tokenizer__ggml__padding_token_id": 41}, "padding_token_id"),
        ({"tokenizer__ggml__token_type": [1] * 39}, "39 entries for 40 tokens"),
        ({"tokenizer__ggml__tokens": ["a"] * 41, "tokenizer__ggml__token_type": None}, "41 tokens"),
    ],
)
def test_headers_that_contradict_their_tensors_are_refused(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ModelFileError) as caught:
        describe(tiny_llama(**changes).write(tmp_path / "x.gguf"))
    assert words in str(caught.value)


def test_more_embedding_rows_than_tokens_are_fine(tmp_path: Path) -> None:
    file = tiny_llama()
    file.tensors[0].shape = (64, 64)
    assert describe(file.write(tmp_path / "x.gguf")).vocab_size == 40


def test_vocabularies_without_weights_are_refused(tmp_path: Path) -> None:
    file = tiny_llama()
    file.tensors = []
    with pytest.raises(ModelFileError, match="vocabulary only"):
        describe(file.write(tmp_path / "x.gguf"))


@pytest.mark.parametrize(("kind", "name"), [(39, "MXFP4"), (16, "IQ2_XXS")])
def test_rare_storage_types_are_described_by_name(tmp_path: Path, kind: int, name: str) -> None:
    file = tiny_llama()
    file.tensors.append(Tensor("big", (256, 9000), kind, size=9000 * 256))
    assert describe(file.write(tmp_path / "x.gguf")).quantization == name


def test_the_trained_context_may_be_absent(tmp_path: Path) -> None:
    for value in (None, 0):
        file = tiny_llama(llama__context_length=value)
        assert describe(file.write(tmp_path / "x.gguf")).ctx_train is None


def test_fingerprints_follow_content_and_not_the_name(tmp_path: Path) -> None:
    first = describe(tiny_llama().write(tmp_path / "a.gguf"))
    second = describe(tiny_llama().write(tmp_path / "b.gguf"))
    assert first.fingerprint == second.fingerprint
    raw = bytearray(tiny_llama().build())
    raw[-1] ^= 1
    (tmp_path / "c.gguf").write_bytes(raw)
    changed = describe(tmp_path / "c.gguf")
    assert changed.fingerprint != first.fingerprint
    assert changed.tokenizer == first.tokenizer
    other = describe(tiny_llama(tokenizer__ggml__eos_token_id=3).write(tmp_path / "d.gguf"))
    assert other.tokenizer != first.tokenizer


def test_templates_do_not_change_the_tokenizer(tmp_path: Path) -> None:
    plain = describe(tiny_llama().write(tmp_path / "a.gguf"))
    other = describe(tiny_llama(tokenizer__chat_template="{{ 1 }}").write(tmp_path / "b.gguf"))
    assert plain.tokenizer == other.tokenizer
    assert plain.template_hash != other.template_hash


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 2**32 - 1),
    st.integers(-(2**63), -1),
    st.floats(width=32),
    st.text(max_size=8),
    st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4),
    st.lists(st.booleans(), min_size=1, max_size=4),
    st.lists(st.text(max_size=4), min_size=1, max_size=4),
)
KEYS = [
    *sorted(str(key) for key in tiny_llama().keys),
    "llama.attention.sliding_window",
    "llama.attention.sliding_window_pattern",
    "general.file_type",
    "general.type",
    "llama.rope.scaling.type",
    "tokenizer.ggml.add_bos_token",
    "tokenizer.chat_template",
]


@settings(max_examples=300)
@given(
    st.sampled_from(["llama", "gemma3", "mamba", "lfm2", "llama4", "qwen3"]),
    st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=3),
)
def test_any_value_at_any_key_is_described_or_refused_readably(
    tmp_path: Path, architecture: str, changes: dict[str, Any]
) -> None:
    renamed = {
        key.replace("llama.", f"{architecture}.").replace(".", "__"): value
        for key, value in changes.items()
    }
    path = tiny_llama(1, architecture, **renamed).write(tmp_path / "x.gguf")
    assert refusal(describe, path).isprintable()
