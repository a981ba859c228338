"""Passes of the usual shapes, recorded at load and replayed with the numbers of each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
from models.token_choice import TokenChooser


@dataclass(frozen=True, slots=True)
class PassResult:
    """Overwritten by the next pass."""

    logits: Tensor
    """[R, V] of the wanted rows."""
    packed: Tensor | None = None
    """The candidates of each, where the device chose them."""
    chosen: Tensor | None = None
    """The token behind each row, where all of them had a choice."""


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
        wanted = max(kind.wanted for kind in kinds)
        self._room = decoder.workspace(max(kind.tokens for kind in kinds), wanted)
        self._candidates = CandidateChooser(decoder.ops, vocab_size, wanted, device)
        # Off a GPU passes are recorded to be tested: all of them then.
        self._packs = self._candidates.is_kernel or device.type != "cuda"
        self._tokens = TokenChooser(decoder.ops, self._candidates.count, wanted, device)
        self._input = StaticInput(kinds, spans, ctx, upload, self._tokens.chosen)
        self._behind: dict[int, int] = {}
        """Which row of the last pass was a sequence's, where tokens were chosen behind them."""

    def record(self, goes_on: Callable[[int, int], bool]) -> bool:
        """Every kind; `goes_on` is asked before each, with how many are done and how many there
        are. False: it said no.
        """
        for done, kind in enumerate(self.kinds):
            if not goes_on(done, len(self.kinds)):
                return False
            # Content of an empty step, until the first one comes.
            self._input.fill(kind, [], [], {})
            self._runner.capture(kind, self._pass(kind))
        return True

    def run(self, rows: Sequence[Row], held: Sequence[Held]) -> PassResult | None:
        """None: no recorded pass takes these rows. Those that follow go on behind the pass
        before.
        """
        behind, self._behind = self._behind, {}
        kind = kind_of(rows, self.kinds)
        if kind is None or kind not in self._runner:
            return None
        self._input.fill(kind, rows, held, behind)
        self._runner.replay(kind)
        logits = self._room.part(kind.tokens, kind.wanted).logits
        assert logits is not None
        if not self._packs:
            return PassResult(logits)
        packed = self._candidates.chosen(kind.wanted)
        if not kind.chooses or any(row.choice is None for row in rows):
            return PassResult(logits, packed)
        self._behind = {row.sequence: index for index, row in enumerate(rows)}
        return PassResult(logits, packed, self._tokens.chosen[: len(rows)])

    def _pass(self, kind: PassKind) -> Callable[[], None]:
        given, room = self._input.of(kind), self._room.part(kind.tokens, kind.wanted)
        rules = self._input.rules(kind) if kind.chooses else None

        def run() -> None:
            logits = self._decoder.forward(given, self._pools, room=room)
            if not self._packs:
                return
            packed = self._candidates.choose(logits)
            if rules is not None:
                self._tokens.choose(packed, rules)

        return run
