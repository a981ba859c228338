"""Runs a decoder on lists of ids over fresh pools, as an engine would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from kernels.kv_pool import KVPool
from models.decoder import Decoder
from models.kv_groups import kv_groups, kv_layouts
from models.model_input import ModelInput

BLOCK = 16


@dataclass
class PagedRun:
    """Pools full of NaN, and sequences with blocks in a shuffled order that nobody else has.

    `lengths` are the tokens each sequence holds. Blocks that a window has left behind are given up:
    the table points to block 0 there, and their bytes are NaN again.
    """

    decoder: Decoder
    sequences: int = 1
    capacity: int = 256
    format_name: str = "f32"
    block: int = BLOCK
    pools: list[KVPool] = field(init=False)
    tables: list[Tensor] = field(init=False)
    lengths: list[int] = field(init=False)

    def __post_init__(self) -> None:
        device = self.decoder.weights.norm.device
        each = -(-self.capacity // self.block)
        layouts = kv_layouts(self.decoder.config, self.format_name, self.block)
        blocks = 1 + self.sequences * each
        shuffle = torch.Generator().manual_seed(blocks)
        self.pools = [
            KVPool(one, torch.full((blocks, one.record_bytes), 255, dtype=torch.uint8).to(device))
            for one in layouts
        ]
        self.tables = [
            (1 + torch.randperm(blocks - 1, generator=shuffle))
            .view(self.sequences, each)
            .to(device)
            for _ in layouts
        ]
        self.lengths = [0] * self.sequences

    def step(
        self,
        *added: Sequence[int],
        wanted: Sequence[int] | None = None,
        is_stopped: Callable[[], bool] | None = None,
    ) -> Tensor:
        """Logits of one pass that adds ids to each sequence, of all rows or those `wanted`."""
        starts = list(self.lengths)
        self.lengths = [start + len(ids) for start, ids in zip(starts, added, strict=True)]
        self._give_up_blocks(starts)
        positions = [list(range(a, b)) for a, b in zip(starts, self.lengths, strict=True)]
        total = sum(len(ids) for ids in added)
        borders = torch.tensor([0, *(len(ids) for ids in added)]).cumsum(0)
        rows = range(total) if wanted is None else wanted
        device = self.decoder.weights.norm.device
        given = ModelInput(
            tokens=torch.tensor([one for ids in added for one in ids], device=device),
            positions=torch.tensor([p for one in positions for p in one], device=device),
            slots=tuple(self._slots(table, positions) for table in self.tables),
            first_row=borders.to(device),
            lengths=torch.tensor(self.lengths, device=device),
            tables=tuple(table.clone() for table in self.tables),
            wanted=torch.tensor(list(rows), dtype=torch.int64, device=device),
            new=tuple(map(len, added)),
        )
        return self.decoder.forward(given, self.pools, is_stopped)

    def _slots(self, table: Tensor, positions: list[list[int]]) -> Tensor:
        slots = [
            int(table[sequence, p // self.block]) * self.block + p % self.block
            for sequence, some in enumerate(positions)
            for p in some
        ]
        return torch.tensor(slots, dtype=torch.int64, device=table.device)

    def _give_up_blocks(self, starts: list[int]) -> None:
        """Blocks of which no token can be seen by the tokens to come."""
        groups = kv_groups(self.decoder.config)
        for group, pool, table in zip(groups, self.pools, self.tables, strict=True):
            if group.window is None:
                continue
            for sequence, start in enumerate(starts):
                gone = max(0, start - group.window + 1) // self.block
                pool.data[table[sequence, :gone]] = 255
                table[sequence, :gone] = 0


def run_whole(decoder: Decoder, ids: Sequence[int], block: int = BLOCK) -> Tensor:
    """Logits of every token, computed in one pass."""
    return PagedRun(decoder, capacity=len(ids), block=block).step(ids)


def run_pieces(decoder: Decoder, ids: Sequence[int], pieces: Sequence[int]) -> Tensor:
    """Logits of every token, computed piece after piece, the rest token by token."""
    run, found, start = PagedRun(decoder, capacity=len(ids)), [], 0
    for count in (*pieces, *[1] * len(ids)):
        if start < len(ids):
            found.append(run.step(ids[start : start + count]))
            start += count
    return torch.cat(found)
