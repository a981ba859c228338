"""Decode attention against the torch reference on the same pool, whose free bytes are NaN."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from kernels.attention import paged_attention
from kernels.tiles import Splitting
from kernels.triton.decode_attention import can_run, decode_attention
from kernels.triton.splits import partial_results
from tests.kernels.pools import Stored, poisoned_pool, relative, stored
from tests.kernels.triton.attention_checks import (
    ERROR,
    Compared,
    compared,
    queries,
    rows_of,
    turned,
)

FORMATS = ["f16", "bf16", "k8", "q8", "fp8", "k8v4", "q4"]
SMALL = Splitting(count=4, least=32, tile=32)
LENGTHS = [1, 33, 70, 100]
HOPPER = (9, 0)


def decoded(
    kept: Stored, q: Tensor, new: list[int], *options: object, splitting: Splitting = SMALL
) -> Compared:
    return compared(decode_attention, kept, q, new, *options, splitting=splitting)


@pytest.mark.parametrize(
    ("name", "size"), [*((name, 64) for name in FORMATS), ("q4", 80), ("q4", 96)]
)
def test_every_format_and_a_row_alone_is_bitwise_the_row_among_others(name: str, size: int) -> None:
    kept = stored(name, LENGTHS, size=size)
    q = queries(kept, 4, 4)
    together = decoded(kept, q, [1] * 4)
    assert together.error < ERROR[name]
    for b in (1, 3):
        one = replace(kept, k=kept.k[b : b + 1], tables=kept.tables[b : b + 1])
        assert torch.equal(decoded(one, q[b : b + 1], [1]).found[0], together.found[b])


def test_the_result_has_the_dtype_of_q() -> None:
    kept = stored("bf16", [20])
    q = queries(kept, 1, 4).to(torch.bfloat16)
    place = (kept.pool, kept.layer, rows_of([1]), kept.lengths, kept.tables)
    found = decode_attention(q, *place, 0.125, splitting=SMALL)
    assert found.dtype == torch.bfloat16
    assert relative(found, paged_attention(q, *place, 0.125)) < 4e-3


@pytest.mark.parametrize(
    ("name", "size"),
    [(name, size) for name in ("bf16", "q8") for size in (80, 96, 128, 256)]
    + [("k8", 256), ("fp8", 128), ("fp8", 256), ("k8v4", 80), ("k8v4", 128), ("k8v4", 256)]
    + [("q4", size) for size in (16, 32, 48, 80, 96, 128, 160, 256)],
)
def test_other_head_sizes(name: str, size: int) -> None:
    kept = stored(name, [70, 5], size=size)
    assert decoded(kept, queries(kept, 2, 4), [1, 1]).error < ERROR[name]


@pytest.mark.parametrize(
    ("name", "heads", "kv_heads"),
    [("bf16", 2, 2), ("q8", 6, 2), ("bf16", 9, 3), ("q8", 7, 1), ("q8", 32, 2)],
)
def test_groups_of_heads(name: str, heads: int, kv_heads: int) -> None:
    kept = stored(name, [50, 17], kv_heads=kv_heads)
    assert decoded(kept, queries(kept, 2, heads), [1, 1]).error < ERROR[name]


@pytest.mark.parametrize(
    ("name", "window", "size"),
    [
        ("bf16", 1, 64),
        ("bf16", 32, 64),
        ("bf16", 500, 64),
        ("q8", 7, 64),
        ("q8", 64, 64),
        ("fp8", 7, 64),
        ("k8", 40, 64),
        ("k8v4", 17, 64),
        ("q4", 7, 64),
        ("q4", 7, 80),
    ],
)
def test_windows_whose_blocks_may_be_gone(name: str, window: int, size: int) -> None:
    kept = stored(name, LENGTHS, kv_heads=1, size=size)
    tables = kept.tables.clone()
    for b, length in enumerate(LENGTHS):
        tables[b, : max(0, length - window) // 16] = 0
    kept = replace(kept, tables=tables)
    assert decoded(kept, queries(kept, 4, 2), [1] * 4, window).error < ERROR[name]


@pytest.mark.parametrize(("name", "size"), [("bf16", 64), ("q8", 64), ("q4", 96)])
def test_soft_cap(name: str, size: int) -> None:
    kept = stored(name, LENGTHS[:3], kv_heads=1, size=size)
    q = queries(kept, 3, 2) * 8
    found = decoded(kept, q, [1] * 3, None, 5.0)
    assert found.error < ERROR[name]
    place = (kept.pool, kept.layer, rows_of([1] * 3), kept.lengths, kept.tables)
    assert relative(paged_attention(q, *place, size**-0.5), found.wanted) > 0.1


@pytest.mark.parametrize(
    ("name", "window"),
    [("bf16", None), ("bf16", 3), ("q8", None), ("q8", 40), ("fp8", 3), ("k8v4", 7), ("q4", 7)],
)
def test_several_new_tokens(name: str, window: int | None) -> None:
    kept = stored(name, [5, 33, 70], kv_heads=1, size=80 if name == "q4" else 64)
    new = [5, 1, 4]
    assert decoded(kept, queries(kept, 10, 3), new, window).error < ERROR[name]


@pytest.mark.parametrize("name", ["bf16", "q8", "k8v4"])
def test_lengths_around_every_border(name: str) -> None:
    lengths = [15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 130]
    kept = stored(name, lengths, kv_heads=1)
    new = [1] * len(lengths)
    both = decoded(kept, queries(kept, len(lengths), 2), new)
    errors = [relative(*pair) for pair in zip(both.found, both.wanted, strict=True)]
    assert max(errors) < 1.5 * ERROR[name]


@pytest.mark.parametrize(("tile", "block"), [(16, 64), (64, 16), (128, 64), (32, 32)])
def test_tiles_smaller_and_larger_than_a_block(tile: int, block: int) -> None:
    kept = stored("q8", [150, 63], block, kv_heads=1)
    splitting = Splitting(count=2, least=tile, tile=tile)
    assert decoded(kept, queries(kept, 2, 2), [1, 1], splitting=splitting).error < ERROR["q8"]


def test_padding_rows_become_zeros_and_disturb_nobody() -> None:
    kept = stored("q8", LENGTHS, kv_heads=1)
    q = queries(kept, 4, 2)
    wanted = decoded(kept, q, [1] * 4).found
    tables = torch.cat([kept.tables, torch.zeros(2, kept.tables.shape[1], dtype=torch.int64)])
    lengths = torch.cat([kept.lengths, torch.zeros(2, dtype=torch.int64)])
    padded = torch.cat([turned(kept, q), torch.full((2, 2, 64), torch.nan, dtype=q.dtype)])
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
    assert "wider than 256" in refused("q8", size=512)
    assert "256 tokens" in refused("k8v4", block=256)
    assert "64 rows" in refused("q8", rows=17)
    assert "f32" in refused("f32")
    assert can_run(64, 4, poisoned_pool("q8", 2).layout, HOPPER, rows=16) is None


def refused(name: str, size: int = 64, block: int = 16, rows: int = 1) -> str:
    layout = poisoned_pool(name, 2, block, size=size).layout
    reason = can_run(size, 4, layout, HOPPER, rows)
    assert reason is not None
    return reason
