"""What is written can be read, nothing else is touched, and poison never shows."""

from __future__ import annotations

import pytest
import torch

from kernels.hadamard import hadamard
from kernels.kv_layout import KV_FORMATS
from kernels.kv_store import load_kv, store_kv
from kernels.kv_views import kv_views
from tests.kernels.pools import POISON, poisoned_pool, relative, slots_of, stored

FORMATS = list(KV_FORMATS)

ROUND_TRIP = {
    "f32": (1e-7, 1e-7),
    "f16": (2.5e-4, 2.5e-4),
    "bf16": (1.8e-3, 1.8e-3),
    "k8": (7.5e-3, 1.8e-3),
    "q8": (7.5e-3, 7.5e-3),
    "fp8": (0.028, 0.028),
    "k8v4": (7.5e-3, 0.105),
    "q4": (0.09, 0.105),
}
"""Largest relative error of K and V of Gaussian numbers, head sizes 64 to 256."""


@pytest.mark.parametrize("size", [64, 80, 96, 128, 256])
@pytest.mark.parametrize("name", FORMATS)
def test_round_trip_error(name: str, size: int) -> None:
    kept = stored(name, [37], size=size)
    k, v = load_kv(kept.pool, 1, kept.tables[0], 37)
    limit_k, limit_v = ROUND_TRIP[name]
    assert relative(k, kept.k[0]) < limit_k
    assert relative(v, kept.v[0]) < limit_v


@pytest.mark.parametrize("block", [16, 32, 64])
@pytest.mark.parametrize("name", FORMATS)
def test_lengths_around_block_borders(name: str, block: int) -> None:
    for length in (1, block - 1, block, block + 1, 2 * block + 1):
        kept = stored(name, [length], block=block)
        k, v = load_kv(kept.pool, 1, kept.tables[0], length)
        assert k.shape == v.shape == (length, 2, 64)
        # A single token may lie somewhat above the many.
        assert relative(k, kept.k[0]) < 1.5 * ROUND_TRIP[name][0]
        assert relative(v, kept.v[0]) < 1.5 * ROUND_TRIP[name][1]


@pytest.mark.parametrize("name", FORMATS)
def test_token_by_token_writes_the_same_bytes_as_all_at_once(name: str) -> None:
    kept = stored(name, [37])
    other = poisoned_pool(name, len(kept.pool.data))
    slots = slots_of(kept.tables[0], torch.arange(37), 16)
    for i in torch.randperm(37).tolist():
        one = slice(i, i + 1)
        store_kv(other, 1, kept.k[0][one], kept.v[0][one], slots[one])
    assert torch.equal(other.data, kept.pool.data)


@pytest.mark.parametrize("name", FORMATS)
def test_a_write_changes_its_own_token_and_layer_only(name: str) -> None:
    kept = stored(name, [40])
    before = kept.pool.data.clone()
    k, v = load_kv(kept.pool, 1, kept.tables[0], 40)
    token, slot = torch.randn(1, 2, 64), slots_of(kept.tables[0], torch.tensor([21]), 16)
    store_kv(kept.pool, 1, token, token, slot)
    others = torch.arange(40) != 21
    new_k, new_v = load_kv(kept.pool, 1, kept.tables[0], 40)
    assert torch.equal(new_k[others], k[others])
    assert torch.equal(new_v[others], v[others])
    assert relative(new_k[21], token[0]) < 0.2
    assert relative(new_v[21], token[0]) < 0.2
    changed = kept.pool.data != before
    assert changed.any(1).nonzero().flatten().tolist() == [int(kept.tables[0, 1])]
    parts = kept.pool.layout.parts[1]
    assert not changed[:, : parts.k.start].any()


@pytest.mark.parametrize("name", FORMATS)
def test_slot_minus_one_writes_nothing(name: str) -> None:
    pool = poisoned_pool(name, 4)
    k, v = torch.randn(5, 2, 64), torch.randn(5, 2, 64)
    store_kv(pool, 0, k, v, torch.full((5,), -1))
    assert (pool.data == POISON).all()
    store_kv(pool, 0, k, v, torch.tensor([-1, 17, -1, 40, -1]))
    other = poisoned_pool(name, 4)
    store_kv(other, 0, k[[1, 3]], v[[1, 3]], torch.tensor([17, 40]))
    assert torch.equal(pool.data, other.data)
    assert (pool.data[0] == POISON).all()


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_beyond_fp16_stay_finite(name: str) -> None:
    pool = poisoned_pool(name, 3)
    k, v = torch.randn(4, 2, 64) * 1e6, torch.randn(4, 2, 64) * 1e6
    store_kv(pool, 0, k, v, torch.arange(16, 20))
    found = load_kv(pool, 0, torch.tensor([1]), 4)
    assert all(one.isfinite().all() for one in found)
    if name == "f16":
        assert torch.equal(found[0], k.clamp(-65504, 65504).half().float())


@pytest.mark.parametrize("name", FORMATS)
def test_no_token_at_all_is_fine(name: str) -> None:
    pool = poisoned_pool(name, 2)
    none = torch.empty(0, 2, 64)
    store_kv(pool, 0, none, none, torch.empty(0, dtype=torch.int64))
    k, v = load_kv(pool, 0, torch.tensor([1]), 0)
    assert k.shape == v.shape == (0, 2, 64)


@pytest.mark.parametrize("name", FORMATS)
def test_a_copied_record_is_a_copied_block(name: str) -> None:
    """All layers, and every scale, move with the record."""
    kept = stored(name, [16])
    layer_0 = torch.randn(16, 2, 64)
    slots = slots_of(kept.tables[0], torch.arange(16), 16)
    store_kv(kept.pool, 0, layer_0, layer_0, slots)
    other = poisoned_pool(name, 3)
    other.data[2] = kept.pool.data[kept.tables[0, 0]]
    for layer in (0, 1):
        wanted = load_kv(kept.pool, layer, kept.tables[0], 16)
        found = load_kv(other, layer, torch.tensor([2]), 16)
        assert torch.equal(found[0], wanted[0])
        assert torch.equal(found[1], wanted[1])


def test_codes_lie_where_the_layout_says() -> None:
    """Nibbles, transposed V: read by hand from the bytes."""
    kept = stored("q4", [16])
    views, where = kv_views(kept.pool, 1), int(kept.tables[0, 0])
    parts = kept.pool.layout.parts[1]
    record = kept.pool.data[where]
    k_bytes = record[parts.k.start : parts.k.end].reshape(2, 16, 32)
    v_bytes = record[parts.v.start : parts.v.end].reshape(2, 64, 8)
    assert torch.equal(views.k[where], k_bytes)
    assert torch.equal(views.v[where], v_bytes)
    v_scale = record[parts.v_scale.start : parts.v_scale.end].view(torch.float16).view(2, 16)
    v_zero = record[parts.v_zero.start : parts.v_zero.end].view(torch.float16).view(2, 16)
    k_scale = record[parts.k_scale.start : parts.k_scale.end].view(torch.float16).view(2, 16, 2)
    head, token, dim = 1, 11, 45
    rotated = torch.zeros(2, 64)
    for d in range(64):
        code = int(k_bytes[head, token, d % 32]) >> (4 if d >= 32 else 0) & 0xF
        rotated[0, d] = (code - 8) * float(k_scale[head, token, d // 32])
        byte = int(v_bytes[head, d, token % 8]) >> (4 if token >= 8 else 0) & 0xF
        rotated[1, d] = byte * float(v_scale[head, token]) + float(v_zero[head, token])
    bits = torch.tensor([bin(dim & d).count("1") for d in range(64)])
    row = (1 - 2 * (bits % 2)).float() / 8
    k, v = load_kv(kept.pool, 1, kept.tables[0], 16)
    assert float(k[token, head, dim]) == pytest.approx(float(row @ rotated[0]), abs=1e-5)
    assert float(v[token, head, dim]) == pytest.approx(float(row @ rotated[1]), abs=1e-5)


@pytest.mark.parametrize(("size", "span"), [(80, 16), (96, 32), (128, 128)])
def test_dims_that_are_rotated_together_share_the_bytes_of_a_4_bit_k(size: int, span: int) -> None:
    kept = stored("q4", [16], size=size)
    views, where = kv_views(kept.pool, 1), int(kept.tables[0, 0])
    assert views.k_scale is not None
    token, head = 11, 1
    row, scales = views.k[where, head, token], views.k_scale[where, head, token].float()
    numbers = []
    for d in range(size):
        byte = int(row[d // span * (span // 2) + d % (span // 2)])
        code = byte >> 4 if d % span >= span // 2 else byte & 0xF
        numbers.append((code - 8) * scales[d // 32])
    k, _ = load_kv(kept.pool, 1, kept.tables[0], 16)
    torch.testing.assert_close(hadamard(torch.stack(numbers)), k[token, head])


def test_eight_bit_v_lies_transposed() -> None:
    for name in ("q8", "fp8"):
        kept = stored(name, [16])
        views, where = kv_views(kept.pool, 1), int(kept.tables[0, 0])
        assert views.v.shape[1:] == (2, 64, 16)
        assert views.v_scale is not None
        wanted = kept.v[0][5, 1]
        found = views.v[where, 1, :, 5].float() * views.v_scale[where, 1, 0, 5].float()
        assert relative(found, wanted) < 0.05


def test_rotation_keeps_an_outlier_dim_of_k_from_spoiling_the_others() -> None:
    pool = poisoned_pool("q8", 5, size=128)
    k, v = torch.randn(32, 2, 128), torch.randn(32, 2, 128)
    k[..., 17] *= 100
    store_kv(pool, 0, k, v, torch.arange(16, 48))
    found, _ = load_kv(pool, 0, torch.tensor([1, 2]), 32)
    plain = (k / k.abs().amax(-1, keepdim=True) * 127).round()
    plain = plain * k.abs().amax(-1, keepdim=True) / 127
    rest = torch.arange(128) != 17
    assert relative(found[..., rest], k[..., rest]) < 0.5 * relative(plain[..., rest], k[..., rest])
