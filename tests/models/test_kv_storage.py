"""Blocks move as they are, and need no memory of the device, which may have none left."""

from __future__ import annotations

import numpy as np
import torch

from kernels.kv_layout import KV_FORMATS, KVLayout
from models.kv_storage import copy_blocks, make_pools, put_blocks, take_blocks
from tests.kernels.triton.meta_model import NoNewMemory


def test_blocks_move_without_memory() -> None:
    (pool,) = make_pools([KVLayout(KV_FORMATS["q8"], 2, 2, 16, 4)], [7], torch.device("cpu"))
    pool.data.copy_(torch.arange(pool.data.numel()).view_as(pool.data))
    before = pool.data.clone()
    out = np.zeros((3, pool.layout.record_bytes), np.uint8)
    with NoNewMemory() as moving:
        copy_blocks(pool, [1, 2], [3, 4])
        take_blocks(pool, [4, 3, 6], out)
        out.flags.writeable = False
        put_blocks(pool, [5, 1], out, [2, 0])
    assert not moving.found
    wanted = before[[0, 6, 2, 1, 2, 6, 6]]
    assert torch.equal(pool.data, wanted)
    assert np.array_equal(out, before[[2, 1, 6]].numpy())
