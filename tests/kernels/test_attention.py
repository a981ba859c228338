"""Attention over the pool against torch's own in double, and laws of what it may read."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from kernels import attention
from kernels.attention import paged_attention
from kernels.kv_layout import KV_FORMATS
from kernels.kv_pool import KVPool
from kernels.kv_store import load_kv, store_kv
from tests.kernels.pools import Stored, relative, slots_of, stored

FORMATS = list(KV_FORMATS)

ERROR = {
    "f32": 1e-6,
    "f16": 4e-4,
    "bf16": 3e-3,
    "k8": 7.5e-3,
    "q8": 0.0105,
    "fp8": 0.04,
    "k8v4": 0.11,
    "q4": 0.145,
}
"""Largest relative error against K and V as they were, Gaussian numbers, head sizes 64 to 256."""


def rows_of(new: list[int]) -> Tensor:
    return torch.tensor([0, *new]).cumsum(0)


def attend(
    kept: Stored, q: Tensor, new: list[int], window: int | None = None, cap: float | None = None
) -> Tensor:
    return paged_attention(
        q,
        kept.pool,
        kept.layer,
        rows_of(new),
        kept.lengths,
        kept.tables,
        q.shape[-1] ** -0.5,
        window,
        cap,
    )


def oracle(q: Tensor, k: Tensor, v: Tensor, window: int | None = None) -> Tensor:
    """q [n, H, D], the last n of the tokens of k and v [L, Hkv, D]."""
    position = torch.arange(len(k) - len(q), len(k)).unsqueeze(1)
    key = torch.arange(len(k))
    seen = key <= position
    if window is not None:
        seen &= key > position - window
    q, k, v = (one.double().transpose(0, 1).unsqueeze(0) for one in (q, k, v))
    out = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
    return out[0].transpose(0, 1)


def expected(kept: Stored, q: Tensor, new: list[int], window: int | None = None) -> Tensor:
    parts = q.split(new)
    each = zip(parts, kept.k, kept.v, strict=True)
    return torch.cat([oracle(one, k, v, window) for one, k, v in each])


@pytest.mark.parametrize("size", [64, 80, 128, 256])
@pytest.mark.parametrize("block", [16, 64])
@pytest.mark.parametrize("group", [1, 3, 4])
def test_matches_torch_for_decode_prefix_and_prefill(size: int, block: int, group: int) -> None:
    """Whole prompts, new tokens on a prefix and decode rows in one pass, at every border."""
    lengths = [1, block - 1, block, block + 1, 2 * block + 1, 2 * block]
    new = [1, block - 1, 3, 1, block + 2, 1]
    kept = stored("f32", lengths, block=block, size=size)
    q = torch.randn(sum(new), 2 * group, size)
    assert relative(attend(kept, q, new), expected(kept, q, new)) < 1e-6


@pytest.mark.parametrize("size", [64, 80, 128, 256])
@pytest.mark.parametrize("name", FORMATS)
def test_error_of_each_format(name: str, size: int) -> None:
    kept = stored(name, [75, 40], size=size)
    new = [30, 1]
    q = torch.randn(31, 6, size)
    assert relative(attend(kept, q, new), expected(kept, q, new)) < ERROR[name]


@pytest.mark.parametrize("window", [None, 1, 16, 20])
@pytest.mark.parametrize("name", FORMATS)
def test_equals_attention_over_what_was_stored(name: str, window: int | None) -> None:
    """Rotating Q and the result is the same as undoing the rotations of K and V."""
    kept = stored(name, [53])
    k, v = load_kv(kept.pool, 1, kept.tables[0], 53)
    q = torch.randn(20, 6, 64)
    assert relative(attend(kept, q, [20], window), oracle(q, k, v, window)) < 2e-6


@pytest.mark.parametrize("window", [1, 2, 15, 16, 17, 33, 200])
def test_windows_match_torch(window: int) -> None:
    new = [49, 1, 7, 33]
    kept = stored("f32", [49, 50, 64, 33])
    q = torch.randn(sum(new), 4, 64)
    assert relative(attend(kept, q, new, window), expected(kept, q, new, window)) < 1e-6


@pytest.mark.parametrize("name", FORMATS)
def test_blocks_that_a_window_left_behind_are_not_read(name: str) -> None:
    window, new = 20, [5, 1]
    kept = stored(name, [70, 49])
    q = torch.randn(6, 4, 64)
    wanted = attend(kept, q, new, window)
    tables = kept.tables.clone()
    tables[0, : (65 - window + 1) // 16] = 0
    tables[1, : (48 - window + 1) // 16] = 0
    left = Stored(kept.pool, 1, kept.k, kept.v, tables)
    assert (tables == 0).sum() > (kept.tables == 0).sum() + 2
    assert torch.equal(attend(left, q, new, window), wanted)


@pytest.mark.parametrize("window", [None, 9])
def test_soft_cap_matches_the_formula(window: int | None) -> None:
    """Row by row, key by key, in double."""
    kept = stored("f32", [21])
    q, cap = torch.randn(4, 4, 64) * 5, 1.5
    k, v = kept.k[0].double(), kept.v[0].double()
    found = attend(kept, q, [4], window, cap)
    for row in range(4):
        last = 17 + row
        first = 0 if window is None else max(0, last - window + 1)
        for head in range(4):
            products = k[first : last + 1, head // 2] @ q[row, head].double() / 8
            weight = (cap * torch.tanh(products / cap)).exp()
            wanted = weight @ v[first : last + 1, head // 2] / weight.sum()
            assert relative(found[row, head], wanted) < 1e-6


@pytest.mark.parametrize("name", FORMATS)
def test_memory_that_holds_no_token_has_no_influence(name: str) -> None:
    """NaN or zeros in free blocks, tails, scales and the sentinel: the same bits."""
    lengths, new = [1, 15, 17, 40], [1, 2, 17, 1]
    kept = stored(name, lengths)
    q = torch.randn(sum(new), 4, 64)
    wanted = attend(kept, q, new)
    assert wanted.isfinite().all()
    clean = Stored(_without_poison(kept), 1, kept.k, kept.v, kept.tables)
    assert torch.equal(attend(clean, q, new), wanted)


def _without_poison(kept: Stored) -> KVPool:
    """The same tokens in a pool that was zeros before."""
    pool = KVPool(kept.pool.layout, torch.zeros_like(kept.pool.data))
    for k, v, table in zip(kept.k, kept.v, kept.tables, strict=True):
        store_kv(pool, 1, k, v, slots_of(table, torch.arange(len(k)), 16))
    return pool


@pytest.mark.parametrize("name", FORMATS)
def test_where_blocks_lie_does_not_matter(name: str) -> None:
    kept = stored(name, [45, 33])
    order = torch.cat((torch.tensor([0]), torch.randperm(len(kept.pool.data) - 1) + 1))
    data = torch.empty_like(kept.pool.data)
    data[order] = kept.pool.data
    moved = Stored(KVPool(kept.pool.layout, data), 1, kept.k, kept.v, order[kept.tables])
    q = torch.randn(12, 4, 64)
    assert torch.equal(attend(moved, q, [11, 1]), attend(kept, q, [11, 1]))


@pytest.mark.parametrize("name", ["f32", "q8", "q4"])
def test_a_sequence_alone_equals_itself_among_others(name: str) -> None:
    lengths, new = [40, 17, 1, 64], [1, 17, 1, 9]
    kept = stored(name, lengths)
    q = torch.randn(sum(new), 4, 64)
    together = attend(kept, q, new).split(new)
    for b, one in enumerate(q.split(new)):
        alone = Stored(kept.pool, 1, kept.k[b : b + 1], kept.v[b : b + 1], kept.tables[b : b + 1])
        assert torch.equal(attend(alone, one, [new[b]]), together[b])


def test_chunks_give_the_same_as_the_whole() -> None:
    kept = stored("f32", [100])
    q = torch.randn(100, 4, 64)
    whole = attend(kept, q, [100])
    for first, last in ((0, 1), (1, 64), (64, 65), (65, 100)):
        part = Stored(kept.pool, 1, (kept.k[0][:last],), (kept.v[0][:last],), kept.tables)
        found = attend(part, q[first:last], [last - first])
        torch.testing.assert_close(found, whole[first:last], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("window", [None, 10])
def test_rows_done_in_small_groups_change_nothing(
    window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = stored("f32", [50])
    q = torch.randn(50, 4, 64)
    wanted = attend(kept, q, [50], window)
    for count in (1, 1000):
        monkeypatch.setattr(attention, "SCORE_COUNT", count)
        found = attend(kept, q, [50], window)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_rows_and_entries_of_no_sequence_give_zeros() -> None:
    kept = stored("bf16", [20])
    q = torch.randn(4, 4, 64, dtype=torch.bfloat16)
    tables = torch.cat((kept.tables, torch.zeros_like(kept.tables)))
    found = paged_attention(
        q, kept.pool, 1, torch.tensor([0, 2, 2]), torch.tensor([20, 0]), tables, 0.125
    )
    assert found.dtype == torch.bfloat16
    assert not found[2:].any()
    assert relative(found[:2], oracle(q[:2], kept.k[0], kept.v[0])) < 0.01


def test_a_pass_in_two_parts_is_the_whole_one() -> None:
    """Answers that run beside a prompt are attended by a call of their own, into the same rows."""
    kept = stored("f32", [9, 30, 12])
    q, border = torch.randn(6, 4, 64), torch.tensor([0, 1, 2, 6])
    whole = paged_attention(q, kept.pool, 1, border, kept.lengths, kept.tables, 0.125)
    out = torch.full_like(q, torch.nan)
    for rows, some in ((2, slice(2)), (6, slice(2, 3))):
        borders = border[some.start or 0 : some.stop + 1]
        place = borders, kept.lengths[some], kept.tables[some]
        paged_attention(q[:rows], kept.pool, 1, *place, 0.125, out=out[:rows])
    assert torch.equal(out, whole)


def test_scores_far_apart_stay_finite() -> None:
    kept = stored("f32", [30])
    found = attend(kept, torch.randn(3, 4, 64) * 1e4, [3])
    assert found.isfinite().all()
