"""A step's input at fixed places, for passes that are recorded once and replayed.

Rows that only pad a pass are harmless: they write no KV, see nothing, and belong to sequences of
length 0 whose table names the sentinel block.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.backends.base import Row
from engine.backends.torch_paged.batch import wanted_rows
from engine.backends.torch_paged.held import Held, Span
from engine.backends.torch_paged.pass_kinds import PassKind
from engine.backends.torch_paged.upload import Upload
from models.model_input import ModelInput

_ALIGNED = 2
"""Parts begin at multiples of 16 bytes, so that kernels need one variant."""


class StaticInput:
    def __init__(
        self, kinds: Sequence[PassKind], spans: Sequence[Span], ctx: int, upload: type[Upload],
        device: torch.device,
    ) -> None:  # fmt: skip
        """Room for the largest of `kinds` and sequences of `ctx` tokens."""
        self._spans = tuple(spans)
        tokens = max(kind.tokens for kind in kinds)
        sequences = max(kind.sequences for kind in kinds)
        wanted = max(kind.wanted for kind in kinds)
        self._columns = [_padded(span.end(ctx) + 1) for span in spans]
        groups = len(spans)
        sizes = [tokens, tokens, sequences + 1, sequences, wanted, *[tokens] * groups]
        sizes += [sequences * columns for columns in self._columns]
        padded = [_padded(size) for size in sizes]
        self._upload = upload(sum(padded), device)
        self._on_host = self._parts(self._upload.host, padded)
        self._on_device = self._parts(self._upload.device, padded)

    def of(self, kind: PassKind) -> ModelInput:
        """What passes of this kind read, always the same tensors."""
        return self._view(kind, self._on_device)

    def fill(self, kind: PassKind, rows: Sequence[Row], held: Sequence[Held]) -> None:
        """Bring the numbers of a step there. `held[i]` has the blocks for rows[i]."""
        self._upload.wait()
        given = self._view(kind, self._on_host)
        counts = [len(row.ids) for row in rows]
        starts = [sum(counts[:index]) for index in range(len(rows) + 1)]
        self._fill_rows(given, rows, starts)
        for group, span in enumerate(self._spans):
            self._fill_group(given, group, span, rows, held)
        wanted = wanted_rows(rows, starts)
        given.wanted.zero_()
        given.wanted[: len(wanted)] = torch.from_numpy(wanted)
        self._upload.start()

    def _fill_rows(self, given: ModelInput, rows: Sequence[Row], starts: Sequence[int]) -> None:
        ids = [one for row in rows for one in row.ids]
        places = [at for row in rows for at in range(row.start, row.start + len(row.ids))]
        for part, values in ((given.tokens, ids), (given.positions, places)):
            part.zero_()
            part[: len(values)] = torch.tensor(values)
        given.lengths.zero_()
        given.lengths[: len(rows)] = torch.tensor([row.start + len(row.ids) for row in rows])
        given.first_row.fill_(starts[-1])
        given.first_row[: len(starts)] = torch.tensor(starts)

    def _fill_group(
        self, given: ModelInput, group: int, span: Span, rows: Sequence[Row], held: Sequence[Held]
    ) -> None:
        table, slots = given.tables[group], given.slots[group]
        table.zero_()
        slots.fill_(-1)
        at = 0
        for line, row, one in zip(table, rows, held, strict=False):
            run = one.runs[group]
            line[run.first : run.end] = torch.tensor(run.blocks, dtype=torch.int64)
            position = torch.arange(row.start, row.start + len(row.ids))
            block = line[position // span.block]
            slots[at : at + len(row.ids)] = block * span.block + position % span.block
            at += len(row.ids)

    def _view(self, kind: PassKind, parts: Sequence[Tensor]) -> ModelInput:
        groups = len(self._spans)
        tokens, positions, first_row, lengths, wanted = parts[:5]
        tables = zip(parts[5 + groups :], self._columns, strict=True)
        return ModelInput(
            tokens=tokens[: kind.tokens],
            positions=positions[: kind.tokens],
            first_row=first_row[: kind.sequences + 1],
            lengths=lengths[: kind.sequences],
            wanted=wanted[: kind.wanted],
            slots=tuple(part[: kind.tokens] for part in parts[5 : 5 + groups]),
            tables=tuple(
                part[: kind.sequences * columns].view(kind.sequences, columns)
                for part, columns in tables
            ),
            new=(kind.new,) * kind.sequences,
        )

    @staticmethod
    def _parts(flat: Tensor, sizes: Sequence[int]) -> list[Tensor]:
        return list(torch.split(flat, list(sizes)))


def _padded(count: int) -> int:
    return -(-count // _ALIGNED) * _ALIGNED
