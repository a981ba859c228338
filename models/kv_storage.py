"""The bytes of the paged pools: one allocation, and blocks of it copied, taken out and put back.

Knows neither tokens nor sequences. A block is a whole record of `KVLayout`, so it moves as it is,
whatever it is stored as. One by one: they are large, and nothing has to be gathered on a device
that may be full.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from kernels.kv_layout import KVLayout
from kernels.kv_pool import KVPool

__all__ = [
    "KVLayout",
    "KVPool",
    "copy_blocks",
    "fill_blocks",
    "make_pools",
    "put_blocks",
    "take_blocks",
]

Bytes = npt.NDArray[np.uint8]


def make_pools(
    layouts: Sequence[KVLayout], blocks: Sequence[int], device: torch.device
) -> tuple[KVPool, ...]:
    """A pool of `blocks[i]` records for each layout, sentinel included, all in one allocation.

    Raises torch.OutOfMemoryError or, on a CPU, RuntimeError.
    """
    sizes = [count * layout.record_bytes for layout, count in zip(layouts, blocks, strict=True)]
    memory = torch.empty(sum(sizes), dtype=torch.uint8, device=device)
    parts = torch.split(memory, sizes)
    return tuple(
        KVPool(layout, part.view(count, layout.record_bytes))
        for layout, count, part in zip(layouts, blocks, parts, strict=True)
    )


def copy_blocks(pool: KVPool, sources: Sequence[int], targets: Sequence[int]) -> None:
    """Copy whole records. No target is a source as well."""
    for source, target in zip(sources, targets, strict=True):
        pool.data[target].copy_(pool.data[source])


def take_blocks(pool: KVPool, blocks: Sequence[int], out: Bytes) -> None:
    """Copy records into `out` [len(blocks), record_bytes], in that order."""
    for place, block in enumerate(blocks):
        torch.from_numpy(out[place]).copy_(pool.data[block])


def put_blocks(pool: KVPool, blocks: Sequence[int], data: Bytes, numbers: Sequence[int]) -> None:
    """Copy record `numbers[i]` of `data` [records, record_bytes] into `blocks[i]`."""
    for block, number in zip(blocks, numbers, strict=True):
        # torch takes no memory that cannot be written.
        pool.data[block].copy_(torch.from_numpy(data[number].copy()))


def fill_blocks(pool: KVPool, blocks: Sequence[int], value: int) -> None:
    """Set every byte: 0xFF makes each number, or its scale, a NaN in every format."""
    pool.data[torch.tensor(blocks, dtype=torch.int64, device=pool.data.device)] = value
