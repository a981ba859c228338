"""Packed weights laid out for kernels: the same numbers, and as many bytes as predicted."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from gguf import GGMLQuantizationType

from kernels.mixed_planes import MixedPlanes
from kernels.plane_format import PLANE_FORMATS, places
from kernels.quantized_weight import QuantizedWeight
from kernels.weight_planes import PlaneWeight, can_repack, empty_planes
from models.decoder import Decoder
from models.gguf_config import config_from_gguf
from models.joined_weights import one_matrix
from models.loaders.gguf_weights import load_gguf
from models.loaders.split import read_model
from models.own_decoder import PLANE_BYTES, expanded_types, loaded_bytes, packed_types
from tests.models.gguf_models import write_gguf
from tests.models.hf_models import SIZES, hf_model, random_ids
from tests.models.paged import run_whole

CPU = torch.device("cpu")
WIDE = {**SIZES, "hidden_size": 64, "intermediate_size": 96}


def model(path: Path, kind: str) -> Path:
    import transformers

    made = hf_model(transformers.Qwen3Config(**WIDE))
    return write_gguf(made, path / "x.gguf", GGMLQuantizationType[kind])


def test_planes_take_what_is_predicted() -> None:
    types = [name for name in PLANE_FORMATS if can_repack(name)]
    assert set(types) == set(PLANE_BYTES)
    for name in types:
        _, words = places(PLANE_FORMATS[name], 4096, 4096)
        predicted = 4096 * 4096 * PLANE_BYTES[name] // 256
        assert words * 4 == pytest.approx(predicted, abs=2048)


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1"])
def test_repacked_weights_compute_the_same(kind: str, tmp_path: Path) -> None:
    path = model(tmp_path, kind)
    config = config_from_gguf(read_model(path))
    plain = Decoder(config, load_gguf(path, config, "cpu", torch.float32))
    weights = load_gguf(path, config, "cpu", torch.float32, repacks=True)
    assert isinstance(weights.layers[0].q, PlaneWeight)
    ids = random_ids(9)
    repacked = Decoder(config, weights)
    assert torch.equal(run_whole(repacked, ids), run_whole(plain, ids))


def test_what_no_kernel_reads_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = model(tmp_path, "Q8_0")
    description: Any = SimpleNamespace(format="gguf", path=path)
    config = config_from_gguf(read_model(path))
    assert packed_types(description, repacks=True) == {"Q8_0"}
    assert not expanded_types(description)
    monkeypatch.delitem(PLANE_BYTES, "Q8_0")
    monkeypatch.setattr("models.loaders.gguf_weights.can_repack", lambda name: False)
    assert expanded_types(description) == {"Q8_0"}
    weights = load_gguf(path, config, "cpu", torch.bfloat16, repacks=True)
    assert isinstance(weights.layers[0].q, torch.Tensor)
    every = [weights.embedding, weights.norm, weights.output]
    every += [getattr(one, name) for one in weights.layers for name in one.__slots__]
    held = {id(one): one for one in every if isinstance(one, torch.Tensor)}
    taken = sum(one.nbytes for one in held.values())
    assert loaded_bytes(description, config, "bfloat16", repacks=True) == taken


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1"])
def test_joined_matrices_hold_the_rows_of_each(kind: str, tmp_path: Path) -> None:
    path = model(tmp_path, kind)
    config = config_from_gguf(read_model(path))
    layer = load_gguf(path, config, "cpu", torch.float32, repacks=True).layers[0]
    parts = [layer.q, layer.k, layer.v]
    whole = one_matrix([one for one in parts if one is not None])
    assert isinstance(whole, PlaneWeight)
    expected = torch.cat([one.dequantize() for one in parts if isinstance(one, PlaneWeight)])
    assert torch.equal(whole.dequantize(), expected)
    assert math.prod(whole.shape) == expected.numel()


def test_two_types_are_joined_as_a_matrix_of_both() -> None:
    q, k, v = (empty_planes(name, (2, 64), CPU) for name in ("Q4_0", "Q4_0", "Q8_0"))
    v.data.fill_(7)
    whole = one_matrix([q, k, v])
    assert isinstance(whole, MixedPlanes)
    assert [one.type_name for one in whole.parts] == ["Q4_0", "Q8_0"]
    assert whole.shape == (6, 64)
    assert torch.equal(whole.dequantize(), torch.cat([one.dequantize() for one in (q, k, v)]))


def test_matrices_stored_differently_are_not_joined() -> None:
    packed = QuantizedWeight(torch.zeros(2, 34, dtype=torch.uint8), "Q8_0", (2, 32))
    assert one_matrix([torch.zeros(2, 32), packed]) is None
    three = [empty_planes(name, (2, 64), CPU) for name in ("Q4_0", "Q5_0", "Q8_0")]
    assert one_matrix([*three]) is None
