"""Both kernels on one pool: what one stores the other reads, and far into a large pool."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels import qkv_store
from kernels.attention import paged_attention
from kernels.hadamard import hadamard
from kernels.kv_layout import KV_FORMATS, KVLayout
from kernels.kv_pool import KVPool
from kernels.tiles import Splitting
from kernels.triton.decode_attention import decode_attention
from kernels.triton.prefill_attention import prefill_attention
from kernels.triton.qkv_store import store_qkv
from tests.kernels.pools import poisoned_pool, relative, slots_of

SIZE, SCALE = 64, 0.125
SMALL = Splitting(count=2, least=32, tile=32)
GIB = 2**30


def qkv(tokens: int, size: int = SIZE) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.randn(tokens, 4, size),
        torch.randn(tokens, 2, size),
        torch.randn(tokens, 2, size),
    )


@pytest.mark.parametrize(
    ("name", "size"), [("bf16", 64), ("q8", 64), ("fp8", 64), ("q4", 64), ("q4", 80), ("q4", 96)]
)
def test_a_prompt_and_a_token_behind_it(name: str, size: int) -> None:
    """Prefill 17 tokens and decode one more, against the references in float32."""
    ours, theirs = poisoned_pool(name, 5, size=size), poisoned_pool(name, 5, size=size)
    table = torch.tensor([[3, 1, 0]])
    for first, stop in ((0, 17), (17, 18)):
        q, k, v = qkv(stop - first, size)
        slots = slots_of(table[0], torch.arange(first, stop), 16)
        rows, lengths = torch.tensor([0, stop - first]), torch.tensor([stop])
        place = (rows, lengths, table, SCALE)
        stored = store_qkv(q, k, v, ours, 1, slots)
        if first == 0:
            found = prefill_attention(stored, ours, 1, *place, rows=stop)
        else:
            found = decode_attention(stored, ours, 1, *place, splitting=SMALL)
        turned = qkv_store.store_qkv(q, k, v, theirs, 1, slots)
        plain = hadamard(turned) if ours.layout.format.rotates_k else turned
        wanted = paged_attention(plain, theirs, 1, *place)
        assert relative(found, wanted) < 5e-3


@pytest.mark.parametrize("name", ["q8", "k8v4"])
def test_offsets_beyond_32_bits(name: str) -> None:
    """The last blocks of a pool of 5 GiB, whose other pages are never touched."""
    layout = KVLayout(KV_FORMATS[name], 1, 2, SIZE, 16)
    blocks = 5 * GIB // layout.record_bytes
    large = KVPool(layout, torch.empty(blocks, layout.record_bytes, dtype=torch.uint8))
    small = KVPool(layout, torch.empty(3, layout.record_bytes, dtype=torch.uint8))
    q, k, v = qkv(20)
    found = []
    for pool, first in ((large, blocks - 2), (small, 1)):
        pool.data[first:].fill_(0xFF)
        table = torch.tensor([[first, first + 1]])
        slots = slots_of(table[0], torch.arange(20), 16)
        stored = store_qkv(q, k, v, pool, 0, slots)
        place = (torch.tensor([0, 1]), torch.tensor([20]), table, SCALE)
        found.append(decode_attention(stored[-1:], pool, 0, *place, splitting=SMALL))
        found.append(prefill_attention(stored[-1:], pool, 0, *place))
    half = len(found) // 2
    assert all(torch.equal(*pair) for pair in zip(found[:half], found[half:], strict=True))
    assert all(one.isfinite().all() for one in found)
