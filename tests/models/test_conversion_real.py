"""A real model as a safetensors folder, converted: the figures that a conversion has to reach."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import transformers

from engine.divergence import TEXT
from models.conversion.convert import convert_folder
from models.conversion.proof_texts import PROOF_TEXTS
from models.tokenizers.gguf_vocab import GGUFTokenizer
from models.tokenizers.hf_tokenizer import HFTokenizer
from tests.models.agreement import agreement
from tests.models.gemma_tokenizer import write_gemma_tokenizer
from tests.models.hf_models import hf_logits
from tests.models.llama_logits import LlamaModel

pytestmark = pytest.mark.model
TOKENS = 512


@pytest.fixture(scope="module")
def folder(starter_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weights, and the tokenizer with the cut that a GGUF's name stands for."""
    target = tmp_path_factory.mktemp("models") / "SmolLM2-135M"
    target.mkdir()
    for path in starter_folder.iterdir():
        if path.suffix == ".safetensors":
            (target / path.name).symlink_to(path)
        else:
            shutil.copy(path, target)
    spec = json.loads((target / "tokenizer.json").read_text())
    digits = {"type": "Digits", "individual_digits": True}
    steps = [digits, spec["pre_tokenizer"]]
    spec["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    (target / "tokenizer.json").write_text(json.dumps(spec))
    return target


@pytest.fixture(scope="module")
def ids(folder: Path) -> list[int]:
    found = HFTokenizer(folder).encode(TEXT * 2)
    assert len(found) >= TOKENS
    return list(found[:TOKENS])


@pytest.fixture(scope="module")
def expected(folder: Path, ids: list[int]) -> torch.Tensor:
    return hf_logits(
        transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), ids
    )


@pytest.fixture(scope="module")
def half(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return convert_folder(folder, tmp_path_factory.mktemp("converted"), "F16")


def logits(path: Path, ids: list[int]) -> torch.Tensor:
    with LlamaModel(path) as model:
        return torch.from_numpy(model.logits(ids, range(len(ids))))


def test_f16_agrees_with_transformers(half: Path, ids: list[int], expected: torch.Tensor) -> None:
    result = agreement(logits(half, ids), expected)
    print(f"F16 against transformers: {result}")
    assert result.top1 >= 0.995
    assert result.kld < 1e-4


def test_q8_0_stays_close(
    folder: Path, ids: list[int], expected: torch.Tensor, tmp_path: Path
) -> None:
    result = agreement(logits(convert_folder(folder, tmp_path, "Q8_0"), ids), expected)
    print(f"Q8_0 against transformers: {result}")
    assert result.kld <= 0.005


@pytest.fixture(scope="module")
def tokenizers(half: Path, starter_model: Path) -> Iterator[list[GGUFTokenizer]]:
    opened = [GGUFTokenizer(half), GGUFTokenizer(starter_model)]
    yield opened
    for one in opened:
        one.close()


def test_the_ids_are_those_of_the_folder_and_of_the_models_own_file(
    folder: Path, tokenizers: list[GGUFTokenizer]
) -> None:
    converted, published = tokenizers
    reference = HFTokenizer(folder)
    for text in (*PROOF_TEXTS, TEXT):
        assert converted.encode(text) == reference.encode(text) == published.encode(text), text
    assert converted.control_tokens == published.control_tokens
    assert converted.bos_id == published.bos_id


@pytest.fixture(scope="module")
def gemma(
    window_folder: Path, window_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    target = tmp_path_factory.mktemp("models") / "gemma"
    target.mkdir()
    for path in window_folder.iterdir():
        if "tokenizer" not in path.name:
            (target / path.name).symlink_to(path)
    write_gemma_tokenizer(target, window_model)
    return target


def test_a_large_vocabulary_of_pieces_is_exact_and_gemma_agrees(
    gemma: Path, tmp_path: Path
) -> None:
    """The conversion proves all 262,144 tokens' merges on the built-in texts, long runs of spaces
    among them, where llama.cpp's usual kind for this family differs from the folder.
    """
    path = convert_folder(gemma, tmp_path, "F16")
    tokenizer = GGUFTokenizer(path)
    ids = [2, *tokenizer.encode(TEXT)[:150]]
    spaces = tokenizer.encode("a" + 5 * " " + "b")
    assert b"".join(map(tokenizer.piece, spaces)) == b"a     b"
    tokenizer.close()
    model = transformers.AutoModelForCausalLM.from_pretrained(gemma, dtype=torch.float32)
    result = agreement(logits(path, ids), hf_logits(model, ids))
    print(f"Gemma F16 against transformers: {result}")
    assert result.top1 >= 0.995
    assert result.kld < 1e-4
