"""Decode attention against the torch reference on the same pool, whose free bytes are NaN."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from kernels.attention import paged_attention
from kernels.hadamard import hadamard
from kernels.triton.decode_attention import can_decode, decode_attention
from kernels.triton.splits import Splitting, partial_results
from tests.kernels.pools import Stored, poisoned_pool, relative, stored

FORMATS = ["f16", "bf16", "k8", "q8", "fp8"]
ERROR = {"f16": 2e-3, "bf16": 2e-3, "k8": 5e-3, "q8": 5e-3, "fp8": 5e-3}
"""Against the reference, which reads the same codes and computes in float32."""
SMALL = Splitting(count=4, least=32, tile=32)
LENGTHS = [1, 33, 70, 100]


def rows_of(new: list[int]) -> Tensor:
    return torch.tensor([0, *new]).cumsum(0)


def queries(kept: Stored, rows: int, heads: int, seed: int = 1) -> Tensor:
    made = torch.Generator().manual_seed(seed)
    size = kept.pool.layout.head_size
    return torch.randn(rows, heads, size, generator=made)


def turned(kept: Stored, q: Tensor) -> Tensor:
    """As attention is given it: rotated like K, numbers of bf16."""
    kind = kept.pool.layout.format
    q = hadamard(q) if kind.rotates_k else q
    return q.to(torch.bfloat16).float()


def both(
    kept: Stored,
    q: Tensor,
    new: list[int],
    window: int | None = None,
    cap: float | None = None,
    splitting: Splitting = SMALL,
) -> tuple[Tensor, Tensor]:
    """The kernel's result, then the reference's. Both float32: rounding the result is left out."""
    place = (kept.pool, kept.layer, rows_of(new), kept.lengths, kept.tables)
    scale = q.shape[-1] ** -0.5
    given = turned(kept, q)
    # The reference rotates q itself, and the rotation is its own inverse.
    plain = hadamard(given) if kept.pool.layout.format.rotates_k else given
    wanted = paged_attention(plain, *place, scale, window, cap)
    found = decode_attention(given, *place, scale, window, cap, max(new), splitting)
    return found, wanted


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("size", [64, 128])
def test_every_format(name: str, size: int) -> None:
    kept = stored(name, LENGTHS, size=size)
    found, wanted = both(kept, queries(kept, 4, 8), [1] * 4)
    assert relative(found, wanted) < ERROR[name]


def test_the_result_has_the_dtype_of_q() -> None:
    kept = stored("bf16", [20])
    q = queries(kept, 1, 4).to(torch.bfloat16)
    place = (kept.pool, kept.layer, rows_of([1]), kept.lengths, kept.tables)
    found = decode_attention(q, *place, 0.125, splitting=SMALL)
    assert found.dtype == torch.bfloat16
    assert relative(found, paged_attention(q, *place, 0.125)) < 4e-3


@pytest.mark.parametrize("name", ["bf16", "q8"])
@pytest.mark.parametrize("size", [80, 96, 256])
def test_other_head_sizes(name: str, size: int) -> None:
    kept = stored(name, [70, 5], size=size)
    found, wanted = both(kept, queries(kept, 2, 4), [1, 1])
    assert relative(found, wanted) < ERROR[name]


@pytest.mark.parametrize(
    ("name", "heads", "kv_heads"),
    [("bf16", 2, 2), ("q8", 6, 2), ("bf16", 9, 3), ("q8", 7, 1), ("q8", 32, 2)],
)
def test_groups_of_heads(name: str, heads: int, kv_heads: int) -> None:
    kept = stored(name, [50, 17], kv_heads=kv_heads)
    found, wanted = both(kept, queries(kept, 2, heads), [1, 1])
    assert relative(found, wanted) < ERROR[name]


@pytest.mark.parametrize(
    ("name", "window"),
    [("bf16", 1), ("bf16", 32), ("bf16", 500), ("q8", 7), ("q8", 64), ("fp8", 7), ("k8", 40)],
)
def test_windows_whose_blocks_may_be_gone(name: str, window: int) -> None:
    kept = stored(name, LENGTHS)
    tables = kept.tables.clone()
    for b, length in enumerate(LENGTHS):
        tables[b, : max(0, length - window) // 16] = 0
    found, wanted = both(replace(kept, tables=tables), queries(kept, 4, 4), [1] * 4, window)
    assert relative(found, wanted) < ERROR[name]


@pytest.mark.parametrize("name", ["bf16", "q8"])
def test_soft_cap(name: str) -> None:
    kept = stored(name, LENGTHS)
    q = queries(kept, 4, 4) * 8
    found, wanted = both(kept, q, [1] * 4, cap=5.0)
    assert relative(found, wanted) < ERROR[name]
    assert relative(both(kept, q, [1] * 4)[1], wanted) > 0.1


@pytest.mark.parametrize(
    ("name", "window"), [("bf16", None), ("bf16", 3), ("q8", None), ("q8", 40), ("fp8", 3)]
)
def test_several_new_tokens(name: str, window: int | None) -> None:
    kept = stored(name, [5, 33, 70])
    new = [5, 1, 4]
    found, wanted = both(kept, queries(kept, 10, 6), new, window)
    assert relative(found, wanted) < ERROR[name]


@pytest.mark.parametrize("name", ["bf16", "q8"])
def test_lengths_around_every_border(name: str) -> None:
    lengths = [15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 130]
    kept = stored(name, lengths)
    new = [1] * len(lengths)
    found, wanted = both(kept, queries(kept, len(lengths), 4), new)
    errors = [relative(*pair) for pair in zip(found, wanted, strict=True)]
    assert max(errors) < 1.5 * ERROR[name]


@pytest.mark.parametrize(("tile", "block"), [(16, 64), (64, 16), (128, 64), (32, 32)])
def test_tiles_smaller_and_larger_than_a_block(tile: int, block: int) -> None:
    kept = stored("q8", [150, 63], block=block)
    splitting = Splitting(count=2, least=tile, tile=tile)
    found, wanted = both(kept, queries(kept, 2, 4), [1, 1], splitting=splitting)
    assert relative(found, wanted) < ERROR["q8"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_row_alone_is_bitwise_the_row_among_others(name: str) -> None:
    kept = stored(name, LENGTHS)
    q = queries(kept, 4, 4)
    together, _ = both(kept, q, [1] * 4)
    for b in range(4):
        one = replace(kept, k=kept.k[b : b + 1], tables=kept.tables[b : b + 1])
        alone, _ = both(one, q[b : b + 1], [1])
        assert torch.equal(alone[0], together[b])


def test_padding_rows_become_zeros_and_disturb_nobody() -> None:
    kept = stored("q8", LENGTHS)
    q = queries(kept, 4, 4)
    wanted, _ = both(kept, q, [1] * 4)
    tables = torch.cat([kept.tables, torch.zeros(2, kept.tables.shape[1], dtype=torch.int64)])
    lengths = torch.cat([kept.lengths, torch.zeros(2, dtype=torch.int64)])
    padded = torch.cat([turned(kept, q), torch.full((2, 4, 64), torch.nan, dtype=q.dtype)])
    room = partial_results(padded, SMALL.count)
    room.out.fill_(torch.nan)
    room.weight.fill_(torch.nan)
    found = decode_attention(
        padded,
        kept.pool,
        kept.layer,
        rows_of([1] * 6),
        lengths,
        tables,
        64**-0.5,
        splitting=SMALL,
        partial=room,
    )
    assert torch.equal(found[:4], wanted)
    assert not found[4:].any()


def test_a_shape_without_a_kernel_is_named() -> None:
    assert can_decode(poisoned_pool("q8", 2), heads=8, rows=16)
    assert not can_decode(poisoned_pool("q8", 2), heads=8, rows=17)
    assert not can_decode(poisoned_pool("f32", 2), heads=8, rows=1)
