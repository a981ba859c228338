"""Repacking loses nothing: planes decode as the file's blocks do, and become those blocks again."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch

from kernels import weight_planes as module
from kernels.dequantize import BLOCK_TYPES, dequantize
from kernels.plane_format import ALIGNMENT, PLANE_FORMATS, places
from kernels.quantized_weight import QuantizedWeight
from kernels.weight_planes import can_repack, repack

TYPES = [name for name in PLANE_FORMATS if can_repack(name)]
SHAPES = [(1, 1), (5, 3), (7, 9), (3, 2, 2)]
"""Rows (or a stack of them), and blocks of a row."""


def random_weight(type_name: str, shape: tuple[int, ...]) -> QuantizedWeight:
    """Any byte may occur."""
    kind = BLOCK_TYPES[type_name]
    size = (*shape[:-1], shape[-1] * kind.size)
    data = np.random.default_rng(3).integers(0, 256, size).astype(np.uint8)
    return QuantizedWeight(
        torch.from_numpy(data), type_name, (*shape[:-1], shape[-1] * kind.values)
    )


def same_bits(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    """NaN may be any NaN."""
    same = found.view(torch.int32) == wanted.view(torch.int32)
    return bool((same | (found.isnan() & wanted.isnan())).all())


def test_the_types_of_files_have_planes() -> None:
    assert TYPES == [
        "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
        "IQ4_NL", "IQ4_XS", "MXFP4",
    ]  # fmt: skip


@pytest.mark.parametrize("type_name", TYPES)
def test_fields_fill_a_block_as_gguf_has_it(type_name: str) -> None:
    format = PLANE_FORMATS[type_name]
    values, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[type_name]]
    assert format.values_of_block == values
    assert sum(one.size for one in format.fields) == size


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_planes_decode_as_the_blocks_do(type_name: str, shape: tuple[int, ...]) -> None:
    weight = random_weight(type_name, shape)
    planes = repack(weight)
    assert planes.shape == weight.shape
    assert same_bits(planes.dequantize(), weight.dequantize())
    with np.errstate(all="ignore"):
        wanted = gguf.quants.dequantize(weight.data.numpy(), gguf.GGMLQuantizationType[type_name])
    assert same_bits(planes.dequantize(), torch.from_numpy(wanted))


@pytest.mark.parametrize("type_name", TYPES)
def test_planes_become_the_blocks_again(type_name: str) -> None:
    weight = random_weight(type_name, (7, 5))
    assert torch.equal(repack(weight).blocks(), weight.data)


@pytest.mark.parametrize("type_name", TYPES)
def test_long_matrices_are_repacked_in_pieces(
    type_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    weight = random_weight(type_name, (7, 3))
    whole = repack(weight)
    monkeypatch.setattr(module, "CHUNK_VALUES", 3 * weight.shape[1])
    assert torch.equal(repack(weight).data, whole.data)


@pytest.mark.parametrize("type_name", TYPES)
def test_named_rows_and_one_of_stacked_matrices(type_name: str) -> None:
    weight = random_weight(type_name, (3, 5, 2))
    planes = repack(weight)[2]
    wanted = weight.dequantize()[2]
    assert same_bits(planes.dequantize(), wanted)
    ids = torch.tensor([[4, 0], [2, 4]])
    assert same_bits(planes.rows(ids), wanted[ids])


@pytest.mark.parametrize("type_name", TYPES)
def test_planes_are_aligned_and_hardly_larger(type_name: str) -> None:
    rows, columns = 1024, 4096
    where, words = places(PLANE_FORMATS[type_name], rows, columns)
    assert all(one.start % ALIGNMENT == 0 for one in where.values())
    kind = BLOCK_TYPES[type_name]
    assert words * 4 <= 1.06 * rows * columns // kind.values * kind.size


@pytest.mark.parametrize("type_name", TYPES)
def test_repacking_stays_on_the_device(type_name: str) -> None:
    """The meta device refuses to mix with tensors of another."""
    weight = random_weight(type_name, (3, 2))
    there = QuantizedWeight(weight.data.to("meta"), type_name, weight.shape)
    assert repack(there).data.device.type == "meta"


def test_a_type_without_planes_is_refused_by_name() -> None:
    assert not can_repack("I8")
    with pytest.raises(ValueError, match="TQ1_0"):
        repack(random_weight("TQ1_0", (1, 1)))


def test_every_field_matters() -> None:
    """No byte of a block is left behind: a flipped one shows in the planes."""
    for type_name in TYPES:
        weight = random_weight(type_name, (2, 2))
        data = repack(weight).data
        for at in range(BLOCK_TYPES[type_name].size):
            flipped = weight.data.clone()
            flipped[1, at] ^= 0x5A
            other = repack(QuantizedWeight(flipped, type_name, weight.shape))
            assert not torch.equal(other.data, data)
            assert same_bits(other.dequantize(), dequantize(flipped, type_name))
