"""Several sequences in pools of their own, and passes over them: recorded ones and plain ones."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.backends.base import Row
from engine.backends.torch_paged.batch import model_input
from engine.backends.torch_paged.held import Held, Run, Span
from engine.backends.torch_paged.pass_kinds import PassKind
from engine.backends.torch_paged.recorded_passes import PassResult, RecordedPasses
from engine.backends.torch_paged.settings import BLOCK_TOKENS
from models.decoder import Decoder
from models.kv_groups import kv_layouts
from models.kv_storage import make_pools
from tests.bench.gpu.rig import Rig

CAPACITY = 640
"""Tokens of each."""


class Sequences:
    """One for each of `lengths`, so many tokens long; what nobody has written is no number."""

    def __init__(
        self, rig: Rig, decoder: Decoder, kv: str, kind: PassKind, lengths: Sequence[int]
    ) -> None:
        """`kind`: the pass that is recorded."""
        self._decoder, self._device = decoder, rig.device
        self._made = torch.Generator().manual_seed(0)
        self._spans = [Span(None, BLOCK_TOKENS)]
        each = CAPACITY // BLOCK_TOKENS
        layouts = kv_layouts(decoder.config, kv, BLOCK_TOKENS)
        self._pools = make_pools(layouts, [each * len(lengths) + 1], rig.device)
        for pool in self._pools:
            pool.data.fill_(255)
        blocks = 1 + torch.randperm(each * len(lengths), generator=self._made)
        self._runs = [Run(0, part.tolist()) for part in blocks.split(each)]
        place = CAPACITY, (kind,), decoder.config.vocab_size, rig.device
        self._recorded = RecordedPasses(decoder, self._pools, self._spans, *place)
        self._recorded.record(lambda done, total: True)
        for sequence, length in enumerate(lengths):
            self.plain([self.row(sequence, 0, length)])

    def row(self, sequence: int, start: int, new: int) -> Row:
        """Of any tokens, with the scores after each where it is no prompt."""
        ids = torch.randint(self._decoder.config.vocab_size, (new,), generator=self._made)
        return Row(sequence, start, tuple(ids.tolist()), True, start > 0)

    def plain(self, rows: Sequence[Row]) -> Tensor:
        """Logits of the scores that are wanted."""
        given = model_input(rows, self._held(rows), self._spans, self._device)
        return self._decoder.forward(given, self._pools)

    def recorded(self, rows: Sequence[Row]) -> PassResult:
        """Overwritten by the next one."""
        found = self._recorded.run(rows, self._held(rows))
        assert found is not None
        return found

    def state(self) -> list[Tensor]:
        """Keys and values of all, as bytes."""
        return [pool.data.clone() for pool in self._pools]

    def restore(self, state: Sequence[Tensor]) -> None:
        for pool, data in zip(self._pools, state, strict=True):
            pool.data.copy_(data)

    def _held(self, rows: Sequence[Row]) -> list[Held]:
        return [Held(row.start, (self._runs[row.sequence],)) for row in rows]
