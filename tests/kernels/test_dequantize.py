"""Every block type against the gguf package, bit for bit."""

from __future__ import annotations

import sys

import gguf
import numpy as np
import pytest
import torch

from kernels import dequantize as module
from kernels import ggml_grid_blocks
from kernels.dequantize import BLOCK_TYPES, dequantize

TYPES = list(BLOCK_TYPES)
QUANTIZABLE = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "BF16"]


def reference(data: np.ndarray, type_name: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return gguf.quants.dequantize(data, gguf.GGMLQuantizationType[type_name])


def random_blocks(type_name: str, shape: tuple[int, ...]) -> np.ndarray:
    size = BLOCK_TYPES[type_name].size
    made = np.random.default_rng(1).integers(0, 256, (*shape[:-1], shape[-1] * size))
    return made.astype(np.uint8)


def assert_same_bits(found: torch.Tensor, wanted: np.ndarray) -> None:
    """NaN may be any NaN."""
    assert found.dtype == torch.float32
    assert tuple(found.shape) == wanted.shape
    same = found.numpy().view(np.uint32) == wanted.view(np.uint32)
    assert (same | (np.isnan(found.numpy()) & np.isnan(wanted))).all()


@pytest.mark.parametrize("type_name", TYPES)
def test_sizes_are_those_of_gguf(type_name: str) -> None:
    kind = gguf.GGMLQuantizationType[type_name]
    assert (BLOCK_TYPES[type_name].values, BLOCK_TYPES[type_name].size) == gguf.GGML_QUANT_SIZES[
        kind
    ]


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (40, 7), (2, 3, 2)])
def test_random_bytes_decode_as_in_gguf(type_name: str, shape: tuple[int, ...]) -> None:
    """Any byte may occur, so every code, scale, subnormal, infinity and NaN does."""
    data = random_blocks(type_name, shape)
    wanted = reference(data, type_name)
    assert shape != (40, 7) or np.isfinite(wanted).mean() > 0.8
    assert_same_bits(dequantize(torch.from_numpy(data), type_name), wanted)


@pytest.mark.parametrize("type_name", QUANTIZABLE)
def test_real_numbers_come_back(type_name: str) -> None:
    numbers = np.random.default_rng(2).standard_normal((5, 512), dtype=np.float32)
    data = gguf.quants.quantize(numbers, gguf.GGMLQuantizationType[type_name])
    found = dequantize(torch.from_numpy(data), type_name)
    assert_same_bits(found, reference(data, type_name))
    if not type_name.startswith("TQ"):
        assert np.linalg.norm(found.numpy() - numbers) < 0.12 * np.linalg.norm(numbers)


@pytest.mark.parametrize("type_name", TYPES)
def test_long_tensors_are_decoded_in_pieces(
    type_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_VALUES", 3 * 256)
    data = random_blocks(type_name, (11, 7))
    assert_same_bits(dequantize(torch.from_numpy(data), type_name), reference(data, type_name))


@pytest.mark.parametrize("type_name", TYPES)
def test_bytes_may_begin_anywhere(type_name: str) -> None:
    """Slices of a file: odd addresses, rows that are not neighbours."""
    data = random_blocks(type_name, (6, 2))
    held = torch.zeros(6, data.shape[1] + 1, dtype=torch.uint8)
    held[:, 1:] = torch.from_numpy(data)
    assert_same_bits(dequantize(held[:, 1:], type_name), reference(data, type_name))
    alone = held.flatten()[1 : 1 + data.shape[1]]
    assert_same_bits(dequantize(alone, type_name), reference(data[0], type_name))


@pytest.mark.parametrize("type_name", TYPES)
def test_all_is_computed_on_the_device_of_the_bytes(type_name: str) -> None:
    """The meta device refuses to mix with tensors of another."""
    kind = BLOCK_TYPES[type_name]
    data = torch.empty(3, 2 * kind.size, dtype=torch.uint8, device="meta")
    found = dequantize(data, type_name)
    assert found.device.type == "meta"
    assert found.shape == (3, 2 * kind.values)


@pytest.mark.parametrize("type_name", ["Q1_0", "Q8_K", "made up"])
def test_an_unknown_type_is_refused_by_name(type_name: str) -> None:
    with pytest.raises(ValueError, match=type_name):
        dequantize(torch.zeros(1, 18, dtype=torch.uint8), type_name)


def test_half_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="33 bytes are no whole number of Q8_0 blocks"):
        dequantize(torch.zeros(2, 33, dtype=torch.uint8), "Q8_0")


@pytest.mark.parametrize("type_name", [name for name in TYPES if name[:3] in ("IQ1", "IQ2", "IQ3")])
def test_grids_need_the_gguf_package(type_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    ggml_grid_blocks._grid.cache_clear()
    data = torch.from_numpy(random_blocks(type_name, (1, 1)))
    with pytest.raises(ValueError, match=f"{type_name} can only be decoded where .* gguf"):
        dequantize(data, type_name)
