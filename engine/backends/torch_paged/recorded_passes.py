"""Passes of the usual shapes, recorded at load and replayed with the numbers of each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from engine.backends.base import Row
from engine.backends.torch_paged.graphs import Runner
from engine.backends.torch_paged.held import Held, Span
from engine.backends.torch_paged.pass_kinds import PassKind, kind_of
from engine.backends.torch_paged.static_input import StaticInput
from engine.backends.torch_paged.upload import Upload
from models.candidates import CandidateChooser
from models.decoder import Decoder
from models.kv_storage import KVPool


class RecordedPasses:
    def __init__(
        self,
        decoder: Decoder,
        pools: Sequence[KVPool],
        spans: Sequence[Span],
        ctx: int,
        kinds: Sequence[PassKind],
        vocab_size: int,
        device: torch.device,
        runner: Runner | None = None,
        upload: type[Upload] = Upload,
    ) -> None:
        """`kinds`: the largest first; nothing is recorded yet."""
        self._decoder = decoder
        self._pools = pools
        self.kinds = tuple(kinds)
        self._runner = runner or Runner(device)
        self._input = StaticInput(kinds, spans, ctx, upload, device)
        wanted = max(kind.wanted for kind in kinds)
        self._room = decoder.workspace(max(kind.tokens for kind in kinds), wanted)
        self._chooser = CandidateChooser(decoder.ops, vocab_size, wanted, device)

    def record(self, goes_on: Callable[[int, int], bool]) -> bool:
        """Every kind; `goes_on` is asked before each, with how many are done and how many there
        are. False: it said no.
        """
        for done, kind in enumerate(self.kinds):
            if not goes_on(done, len(self.kinds)):
                return False
            # Content of an empty step, until the first one comes.
            self._input.fill(kind, [], [])
            self._runner.capture(kind, self._pass(kind))
        return True

    def run(self, rows: Sequence[Row], held: Sequence[Held]) -> tuple[Tensor, Tensor | None] | None:
        """Logits [R, V] of the wanted rows, with the packed candidates where the device chose
        them; both are overwritten by the next pass. None: no recorded pass takes these rows.
        """
        kind = kind_of(rows, self.kinds)
        if kind is None or kind not in self._runner:
            return None
        self._input.fill(kind, rows, held)
        self._runner.replay(kind)
        logits = self._room.part(kind.tokens, kind.wanted).logits
        assert logits is not None
        return logits, self._chooser.chosen(kind.wanted) if self._chooser.is_kernel else None

    def _pass(self, kind: PassKind) -> Callable[[], None]:
        given, room = self._input.of(kind), self._room.part(kind.tokens, kind.wanted)

        def run() -> None:
            logits = self._decoder.forward(given, self._pools, room=room)
            if self._chooser.is_kernel:
                self._chooser.choose(logits)

        return run
