"""Prefill attention against the torch reference on the same pool, whose free bytes are NaN."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from kernels.tiles import PrefillTile
from kernels.triton.prefill_attention import can_run, prefill_attention
from tests.kernels.pools import Stored, poisoned_pool, relative, stored
from tests.kernels.triton.attention_checks import ERROR, Compared, compared, queries

SMALL = PrefillTile(rows=32, keys=32, warps=4)
LENGTHS, NEW = [20, 33, 70], [20, 13, 6]
"""A prompt of its own, one behind a prefix that ends inside a block, and one that is mostly hit."""


def prefilled(
    kept: Stored, q: Tensor, new: list[int], *options: object, tile: PrefillTile = SMALL
) -> Compared:
    return compared(prefill_attention, kept, q, new, *options, tile=tile)


@pytest.mark.parametrize(
    ("name", "size"),
    [(name, 64) for name in ("f16", "bf16", "k8", "q8", "fp8", "k8v4", "q4")]
    + [("q4", 80), ("q4", 96)],
)
def test_every_format_and_a_prompt_alone_is_bitwise_the_prompt_among_others(
    name: str, size: int
) -> None:
    kept = stored(name, LENGTHS, size=size)
    q = queries(kept, sum(NEW), 4)
    together = prefilled(kept, q, NEW)
    assert together.error < ERROR[name]
    one = replace(kept, k=kept.k[1:2], tables=kept.tables[1:2])
    alone = prefilled(one, q.split(NEW)[1], NEW[1:2]).found
    assert torch.equal(alone, together.found.split(NEW)[1])


@pytest.mark.parametrize(
    ("name", "size"),
    [(name, size) for name in ("bf16", "q8") for size in (80, 96, 128, 256)]
    + [("fp8", 256), ("k8", 256), ("k8v4", 80), ("k8v4", 256)]
    + [("q4", size) for size in (16, 48, 80, 96, 256)],
)
def test_other_head_sizes(name: str, size: int) -> None:
    kept = stored(name, [40, 9], size=size)
    assert prefilled(kept, queries(kept, 22, 4), [17, 5]).error < ERROR[name]


@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (6, 2), (9, 3), (7, 1), (32, 2)])
def test_groups_of_heads(heads: int, kv_heads: int) -> None:
    kept = stored("bf16", [33], kv_heads=kv_heads)
    assert prefilled(kept, queries(kept, 9, heads), [9]).error < ERROR["bf16"]


@pytest.mark.parametrize(
    ("name", "window", "size"),
    [(name, 7, 64) for name in ("bf16", "fp8", "k8v4")]
    + [("bf16", 1, 64), ("bf16", 40, 64), ("q8", 17, 64), ("q4", 17, 64), ("q4", 17, 80)],
)
def test_windows_whose_blocks_may_be_gone(name: str, window: int, size: int) -> None:
    kept = stored(name, LENGTHS, kv_heads=1, size=size)
    tables = kept.tables.clone()
    for b, (length, new) in enumerate(zip(LENGTHS, NEW, strict=True)):
        tables[b, : max(0, length - new + 1 - window) // 16] = 0
    kept = replace(kept, tables=tables)
    assert prefilled(kept, queries(kept, sum(NEW), 2), NEW, window).error < ERROR[name]


@pytest.mark.parametrize(("name", "size"), [("bf16", 64), ("k8v4", 64), ("q4", 96)])
def test_soft_cap(name: str, size: int) -> None:
    kept = stored(name, LENGTHS, kv_heads=1, size=size)
    assert prefilled(kept, queries(kept, sum(NEW), 2) * 8, NEW, None, 5.0).error < ERROR[name]


@pytest.mark.parametrize(("rows", "keys", "block"), [(16, 16, 64), (64, 64, 16), (128, 64, 64)])
def test_tiles_smaller_and_larger_than_a_block(rows: int, keys: int, block: int) -> None:
    kept = stored("bf16", [100], block, kv_heads=1)
    tile = PrefillTile(rows, keys, warps=4)
    assert prefilled(kept, queries(kept, 37, 2), [37], tile=tile).error < ERROR["bf16"]


def test_prompts_that_end_around_every_border() -> None:
    """Of tiles of 16 tokens and 32 keys."""
    lengths = [31, 32, 33, 49, 64, 65]
    kept = stored("bf16", lengths, kv_heads=1)
    both = prefilled(kept, queries(kept, 16 * len(lengths), 2), [16] * len(lengths))
    rows = zip(both.found, both.wanted, strict=True)
    assert max(relative(*row) for row in rows) < 2 * ERROR["bf16"]


def test_a_shape_without_a_kernel_is_named() -> None:
    assert can_run(64, 16, poisoned_pool("q8", 2).layout, (8, 0)) is None
    assert "f32" in str(can_run(64, 16, poisoned_pool("f32", 2).layout, (8, 0)))
    assert can_run(64, 16, poisoned_pool("q4", 2).layout, (8, 0)) is None
    assert can_run(80, 16, poisoned_pool("q4", 2, size=80).layout, (8, 0)) is None
    assert "72" in str(can_run(72, 16, poisoned_pool("q8", 2, size=72).layout, (8, 0)))
    assert "256 heads" in str(can_run(64, 256, poisoned_pool("q8", 2).layout, (8, 0)))
    wide = poisoned_pool("q4", 2, size=256).layout
    assert can_run(256, 64, wide, (9, 0)) is None
    assert "than 32" in str(can_run(256, 64, wide, (8, 0)))
