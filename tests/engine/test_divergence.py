"""How far two files are apart, by llama.cpp: nothing from itself, much from another model."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.divergence import TOKENS, divergence
from models.conversion.convert import convert_folder
from models.conversion.tensors import Kind
from tests.models.conversion_folders import tiny_llama


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models") / "m"
    tiny_llama(place, hidden_size=64, intermediate_size=96)
    return place


def test_the_same_file_is_not_apart(folder: Path, tmp_path: Path) -> None:
    path = convert_folder(folder, tmp_path, "F16")
    found = divergence(path, path, tmp_path)
    assert (found.divergence, found.same_best, found.tokens) == (0, 1, TOKENS)


def test_fewer_bits_are_further_apart(folder: Path, tmp_path: Path) -> None:
    paths: dict[Kind, Path] = {
        kind: convert_folder(folder, tmp_path, kind) for kind in ("F32", "F16", "Q8_0")
    }
    half = divergence(paths["F32"], paths["F16"], tmp_path)
    eight = divergence(paths["F32"], paths["Q8_0"], tmp_path)
    assert 0 < half.divergence < eight.divergence < 0.1
    assert half.same_best >= eight.same_best > 0.8


def test_another_model_is_far_away(folder: Path, tmp_path: Path) -> None:
    tiny_llama(tmp_path / "other", intermediate_size=64)
    other = convert_folder(tmp_path / "other", tmp_path, "F16")
    found = divergence(convert_folder(folder, tmp_path, "F16"), other, tmp_path)
    assert found.divergence > 0.5
    assert found.same_best < 0.5
