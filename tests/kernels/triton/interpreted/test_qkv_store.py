"""The fused store against its torch reference: every format, partial RoPE, odd heads and slots."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from kernels import qkv_store
from kernels.kv_layout import KV_FORMATS
from kernels.kv_pool import KVPool
from kernels.kv_store import load_kv
from kernels.kv_views import kv_views
from kernels.qkv_store import Biases, HeadNorms
from kernels.triton.qkv_store import can_run, store_qkv
from tests.kernels.pools import POISON, poisoned_pool, relative

FORMATS = list(KV_FORMATS)
SLOTS = torch.tensor([16, -1, 17, 24, 40])
"""Neighbours, two tokens of one byte in 4-bit blocks of 16, another block, and a padding row."""
OTHERS = [("q8", 96), ("k8v4", 80), *(("q4", size) for size in (16, 32, 48, 80, 96, 128, 160))]
BF16_ERROR = 2e-3


@dataclass(frozen=True)
class Case:
    q: Tensor
    k: Tensor
    v: Tensor
    biases: Biases | None
    norms: HeadNorms | None
    angles: tuple[Tensor, Tensor] | None


def case(size: int, heads: int = 6, kv_heads: int = 2, rotary: int | None = None) -> Case:
    """Parts of one wider tensor, in bf16."""
    tokens = len(SLOTS)
    wide = torch.randn(tokens, (heads + 2 * kv_heads) * size + 16).to(torch.bfloat16)
    q, k, v, _ = wide.split([heads * size, kv_heads * size, kv_heads * size, 16], 1)
    pairs = (size if rotary is None else rotary) // 2
    turn = torch.rand(tokens, pairs) * 6
    return Case(
        q.unflatten(1, (heads, size)),
        k.unflatten(1, (kv_heads, size)),
        v.unflatten(1, (kv_heads, size)),
        Biases(*(torch.randn(n * size).to(torch.bfloat16) for n in (heads, kv_heads, kv_heads))),
        HeadNorms(torch.randn(size).to(torch.bfloat16), torch.rand(size), 1e-6, 1.0),
        (turn.cos(), turn.sin()) if pairs else None,
    )


def both(
    one: Case, name: str, size: int, kv_heads: int = 2
) -> tuple[Tensor, Tensor, KVPool, KVPool]:
    """q and the pool of the reference, then of the kernel."""
    pools = [poisoned_pool(name, 4, 16, kv_heads, size) for _ in range(2)]
    rest = (SLOTS, one.biases, one.norms, one.angles)
    wanted = qkv_store.store_qkv(one.q, one.k, one.v, pools[0], 1, *rest)
    found = store_qkv(one.q, one.k, one.v, pools[1], 1, *rest)
    return wanted, found, pools[0], pools[1]


def check_same(wanted: KVPool, found: KVPool) -> None:
    """The same bytes but for numbers that lie on a rounding border; nothing else is touched.

    A norm adds squares up in the order of its threads, and torch in that of its vectors: the last
    bit differs. One order for both would take a pass over the rows for each power of two.
    """
    differing = wanted.data != found.data
    free = (wanted.data == POISON) & differing
    assert free.sum() <= 1
    if wanted.layout.format.name != "f32":
        assert differing.sum() <= max(4, 0.003 * (wanted.data != POISON).sum())
    for part in zip(kv_views(wanted, 0).k, kv_views(found, 0).k, strict=True):
        assert torch.equal(*(one.contiguous().view(torch.uint8) for one in part))
    for slot in SLOTS[SLOTS >= 0].tolist():
        table = torch.tensor([slot // 16])
        numbers = [
            torch.cat([one[slot % 16] for one in load_kv(pool, 1, table, slot % 16 + 1)])
            for pool in (wanted, found)
        ]
        assert relative(numbers[1], numbers[0]) < 0.01


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_stored_as_the_reference_does(name: str) -> None:
    q, found, wanted_pool, pool = both(case(128), name, 128)
    assert found.dtype == torch.bfloat16
    assert relative(found, q) < BF16_ERROR
    check_same(wanted_pool, pool)


@pytest.mark.parametrize(
    ("name", "size", "rotary"),
    [
        (name, *sizes)
        for name in ("bf16", "q8", "k8v4")
        for sizes in ((80, 32), (96, 96), (256, 64), (64, 0))
    ]
    + [("fp8", 256, 64), ("fp8", 80, 32)]
    + [("q4", 16, 16), ("q4", 32, 0), ("q4", 80, 32), ("q4", 96, 96), ("q4", 256, 64)],
)
def test_head_sizes_and_partial_angles(name: str, size: int, rotary: int) -> None:
    q, found, wanted_pool, pool = both(case(size, rotary=rotary), name, size)
    assert relative(found, q) < BF16_ERROR
    check_same(wanted_pool, pool)


@pytest.mark.parametrize(("heads", "kv_heads"), [(9, 3), (24, 8), (10, 10), (1, 1)])
def test_numbers_of_heads(heads: int, kv_heads: int) -> None:
    q, found, wanted_pool, pool = both(case(64, heads, kv_heads), "q8", 64, kv_heads)
    assert relative(found, q) < BF16_ERROR
    check_same(wanted_pool, pool)


@pytest.mark.parametrize(("name", "size"), [*((name, 64) for name in FORMATS), *OTHERS])
def test_without_a_norm_every_byte_is_that_of_the_reference(name: str, size: int) -> None:
    """On a device, a product and its sum are rounded at once, and so a few may differ there."""
    one = replace(case(size), norms=None)
    q, found, wanted_pool, pool = both(one, name, size)
    assert torch.equal(found, q)
    assert torch.equal(pool.data, wanted_pool.data)


@pytest.mark.parametrize("left_out", ["biases", "norms", "angles"])
def test_each_step_can_be_absent(left_out: str) -> None:
    one = case(64)
    kept = {name: getattr(one, name) for name in ("biases", "norms", "angles") if name != left_out}
    pools = [poisoned_pool("q8", 4) for _ in range(2)]
    wanted = qkv_store.store_qkv(one.q, one.k, one.v, pools[0], 1, SLOTS, **kept)
    found = store_qkv(one.q, one.k, one.v, pools[1], 1, SLOTS, **kept)
    assert relative(found, wanted) < BF16_ERROR
    check_same(*pools)


@pytest.mark.parametrize("name", ["q8", "fp8", "k8v4", "q4"])
def test_zeros_and_an_outlier(name: str) -> None:
    one = case(64)
    k, v = one.k.clone(), one.v.clone()
    k[0], v[0] = 0, 0
    k[2, 0, 5], v[2, 1, 7] = 3e4, -3e4
    pools = [poisoned_pool(name, 4) for _ in range(2)]
    qkv_store.store_qkv(one.q, k, v, pools[0], 1, SLOTS)
    store_qkv(one.q, k, v, pools[1], 1, SLOTS)
    found = [load_kv(pool, 1, torch.tensor([1]), 2) for pool in pools]
    assert all(one[0].isfinite().all() and not one[0].any() for one in found[1])
    assert all(relative(ours[1], theirs[1]) < 0.01 for ours, theirs in zip(*found, strict=True))


def test_numbers_equally_far_from_zero_are_coded_as_the_reference_does() -> None:
    """One dim alone, turned: plus and minus the same in all the others."""
    one = case(80)
    k = torch.zeros_like(one.k)
    k[..., 5] = one.k[..., 5]
    pools = [poisoned_pool("q4", 4, size=80) for _ in range(2)]
    qkv_store.store_qkv(one.q, k, one.v, pools[0], 1, SLOTS)
    store_qkv(one.q, k, one.v, pools[1], 1, SLOTS)
    assert torch.equal(pools[0].data, pools[1].data)


def test_what_fp16_cannot_hold_becomes_its_largest_number() -> None:
    one = case(64)
    k, v = one.k * 1e6, one.v * -1e6
    pools = [poisoned_pool("f16", 4) for _ in range(2)]
    qkv_store.store_qkv(one.q, k, v, pools[0], 1, SLOTS)
    store_qkv(one.q, k, v, pools[1], 1, SLOTS)
    found = [load_kv(pool, 1, torch.tensor([1]), 2) for pool in pools]
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))
    assert all(part.abs().max() == 65504 for part in found[1])


def test_a_shape_without_a_kernel_is_named() -> None:
    for name in ("q8", "q4"):
        for size in (64, 80, 96, 128, 256):
            assert can_run(size, 4, poisoned_pool(name, 2, size=size).layout, (8, 0)) is None
    assert "3 parts" in str(can_run(192, 4, poisoned_pool("q8", 2, size=192).layout, (8, 0)))
    assert "72" in str(can_run(72, 4, poisoned_pool("q8", 2, size=72).layout, (8, 0)))


def test_devices_without_a_kernel_are_named() -> None:
    fp8, bf16 = poisoned_pool("fp8", 2).layout, poisoned_pool("bf16", 2).layout
    assert "fp8 needs 8.9" in str(can_run(64, 4, fp8, (8, 6)))
    assert can_run(64, 4, fp8, (8, 9)) is None
    assert "capability 7.5" in str(can_run(64, 4, bf16, (7, 5)))
