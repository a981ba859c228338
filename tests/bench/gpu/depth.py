"""A conversation of any length without reading it: one block is computed and copied.

The passes are those of the backend: recorded for the usual shapes, plain beyond them.
"""

from __future__ import annotations

import torch

from engine.backends.base import Row
from engine.backends.torch_paged.batch import model_input, score_places
from engine.backends.torch_paged.download import Download
from engine.backends.torch_paged.held import Held, Run, Span
from engine.backends.torch_paged.pass_kinds import PassKind
from engine.backends.torch_paged.recorded_passes import RecordedPasses
from engine.backends.torch_paged.scores import TensorScores
from engine.backends.torch_paged.settings import BLOCK_TOKENS, MAX_ROWS
from models.candidates import COUNT
from models.decoder import Decoder
from models.kv_groups import kv_layouts
from models.kv_storage import make_pools
from tests.bench.gpu.rig import Rig

WANTED = 40
"""Candidates that a usual sampler asks for."""


class Conversation:
    """One sequence in pools of its own."""

    def __init__(
        self,
        rig: Rig,
        decoder: Decoder,
        kv: str,
        capacity: int,
        kinds: tuple[PassKind, ...] = (PassKind(1, 1, 1),),
    ) -> None:
        """`capacity`: tokens; `kinds`: passes that are recorded, the largest first."""
        self._decoder, self._device = decoder, rig.device
        self._spans = [Span(None, BLOCK_TOKENS)]
        count = -(-capacity // BLOCK_TOKENS) + 1
        self.pools = make_pools(
            kv_layouts(decoder.config, kv, BLOCK_TOKENS), [count + 1], rig.device
        )
        for pool in self.pools:
            pool.data.zero_()
        shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(0)) + 1
        self._run = Run(0, shuffled.tolist())
        self.fill()
        place = capacity, kinds, decoder.config.vocab_size, rig.device
        self._recorded = RecordedPasses(decoder, self.pools, self._spans, *place)
        wanted = max(kind.wanted for kind in kinds)
        self._download = Download(wanted, COUNT + 1, rig.device)
        self._recorded.record(lambda done, total: True)

    def fill(self) -> None:
        """Keys and values of 64 tokens, in every block."""
        self.read(0, BLOCK_TOKENS)
        first = self._run.blocks[0]
        for pool in self.pools:
            pool.data[1:] = pool.data[first].clone()

    def write(self, length: int) -> TensorScores:
        """One more token behind `length`, up to its candidates on the host."""
        return self.recorded(length, 1)

    def recorded(self, length: int, new: int) -> TensorScores:
        """`new` tokens behind `length` in a recorded pass, up to candidates on the host."""
        scores = self.launched(length, new)
        scores.candidates(0, min(WANTED, self._decoder.config.vocab_size - 1))
        return scores

    def launched(self, length: int, new: int = 1) -> TensorScores:
        """The same without waiting for the device."""
        row = Row(0, length, _ids(length, length + new), True)
        found = self._recorded.run([row], [Held(length, (self._run,))])
        assert found is not None
        places = score_places([row])
        if found.packed is None:
            return TensorScores(found.logits, places)
        arrival = self._download.start(found.packed)
        return TensorScores(found.logits, places, arrival, found.packed.shape[1] - 1)

    def read(self, prefix: int, tokens: int) -> torch.Tensor:
        """A prompt behind a prefix in plain passes as long as the backend makes them; logits."""
        for start in range(prefix, prefix + tokens, MAX_ROWS):
            row = Row(0, start, _ids(start, min(start + MAX_ROWS, prefix + tokens)), True)
            given = model_input([row], [Held(start, (self._run,))], self._spans, self._device)
            logits = self._decoder.forward(given, self.pools)
        return logits


def _ids(start: int, end: int) -> tuple[int, ...]:
    """The token of each position."""
    return tuple(position % 256 for position in range(start, end))
