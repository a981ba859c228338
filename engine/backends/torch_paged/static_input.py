"""A step's input at fixed places, for passes that are recorded once and replayed.

Rows that only pad a pass are harmless: they write no KV, see nothing, and belong to sequences of
length 0 whose table names the sentinel block; the token chosen behind them is read by nobody. A
line of a table is written only when its sequence
holds other blocks than in the step before: a long one has thousands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.backends.base import Choice, Row
from engine.backends.torch_paged.batch import wanted_rows
from engine.backends.torch_paged.held import Held, Run, Span
from engine.backends.torch_paged.pass_kinds import PassKind
from engine.backends.torch_paged.upload import Upload
from models.model_input import ModelInput
from models.token_choice import RULES

Integers = npt.NDArray[np.int64]

_ALIGNED = 2
"""Parts begin at multiples of 16 bytes, so that kernels need one variant."""
NO_SLOT = -1
"""Of a token whose keys and values are not written."""
_NOTHING = Run()


class StaticInput:
    def __init__(
        self,
        kinds: Sequence[PassKind],
        spans: Sequence[Span],
        ctx: int,
        upload: type[Upload],
        chosen: Tensor,
    ) -> None:
        """Room for the largest of `kinds` and sequences of `ctx` tokens. `chosen`: where the device
        puts the tokens that it chooses.
        """
        self._chosen = chosen
        self._spans = tuple(spans)
        tokens = max(kind.tokens for kind in kinds)
        self._sequences = max(kind.sequences for kind in kinds)
        wanted = max(kind.wanted for kind in kinds)
        self._columns = [_padded(span.end(ctx) + 1) for span in spans]
        sizes = [tokens, tokens, self._sequences + 1, self._sequences, wanted]
        sizes += [self._sequences * len(RULES), *[tokens] * len(spans)]
        sizes += [self._sequences * columns for columns in self._columns]
        padded = [_padded(size) for size in sizes]
        self._upload = upload(sum(padded), chosen.device)
        self._device = torch.split(self._upload.device, padded)
        host = np.split(self._upload.host.numpy(), np.cumsum(padded)[:-1])
        self._tokens, self._positions, self._first_row, self._lengths, self._wanted = host[:5]
        self._rules = host[5].view(np.float64)[: sizes[5]].reshape(-1, len(RULES))
        self._slots = host[6 : 6 + len(spans)]
        self._tables = [
            part[: self._sequences * columns].reshape(self._sequences, columns)
            for part, columns in zip(host[6 + len(spans) :], self._columns, strict=True)
        ]
        self._written = [[_NOTHING] * self._sequences for _ in spans]

    def of(self, kind: PassKind) -> ModelInput:
        """What passes of this kind read, always the same tensors."""
        groups = len(self._spans)
        tokens, positions, first_row, lengths, wanted = self._device[:5]
        tables = zip(self._device[6 + groups :], self._columns, strict=True)
        return ModelInput(
            tokens=tokens[: kind.tokens],
            positions=positions[: kind.tokens],
            first_row=first_row[: kind.sequences + 1],
            lengths=lengths[: kind.sequences],
            wanted=wanted[: kind.wanted],
            slots=tuple(part[: kind.tokens] for part in self._device[6 : 6 + groups]),
            tables=tuple(_lines(part, kind.sequences, columns) for part, columns in tables),
            new=(kind.new,) * kind.sequences,
            chosen=self._chosen,
        )

    def rules(self, kind: PassKind) -> Tensor:
        """float64 [sequences, 5]: how the token behind each row is chosen, always the same."""
        part = self._device[5].view(torch.float64)[: kind.sequences * len(RULES)]
        return part.view(kind.sequences, len(RULES))

    def fill(
        self, kind: PassKind, rows: Sequence[Row], held: Sequence[Held], behind: Mapping[int, int]
    ) -> None:
        """Bring the numbers of a step there. `held[i]` has the blocks for rows[i]; `behind`: which
        row of the pass before was a sequence's.
        """
        self._upload.wait()
        first_row = [0]
        for row in rows:
            first_row.append(first_row[-1] + len(row.ids))
        ids = [one for row in rows for one in _ids(row, behind)]
        places = [at for row in rows for at in range(row.start, row.start + len(row.ids))]
        _put(self._tokens, ids, kind.tokens)
        _put(self._positions, places, kind.tokens)
        _put(self._first_row, first_row, kind.sequences + 1, rest=first_row[-1])
        _put(self._lengths, [row.start + len(row.ids) for row in rows], kind.sequences)
        _put(self._wanted, wanted_rows(rows, first_row), kind.wanted)
        self._rules[: kind.sequences] = 0.0
        for index, row in enumerate(rows):
            if row.choice is not None:
                self._rules[index] = _rules(row.choice)
        for group, span in enumerate(self._spans):
            for index in range(kind.sequences):
                run = held[index].runs[group] if index < len(rows) else _NOTHING
                self._fill_line(group, index, run)
            lines = self._tables[group]
            at = [index for index, row in enumerate(rows) for _ in row.ids]
            _put(self._slots[group], _slots(lines, at, places, span), kind.tokens, rest=NO_SLOT)
        self._upload.start()

    def _fill_line(self, group: int, index: int, run: Run) -> None:
        old = self._written[group][index]
        if old.first == run.first and old.blocks == run.blocks:
            return
        line = self._tables[group][index]
        line[:] = 0
        line[run.first : run.end] = run.blocks
        self._written[group][index] = run.part(run.first, run.end)


def _ids(row: Row, behind: Mapping[int, int]) -> tuple[int, ...]:
    """As the embedding reads them."""
    return (-1 - behind[row.sequence],) if row.follows else row.ids


def _rules(choice: Choice) -> tuple[float, ...]:
    return choice.temperature, choice.top_k, choice.top_p, choice.min_p, choice.number


def _slots(lines: Integers, at: Sequence[int], places: Sequence[int], span: Span) -> Integers:
    """Of tokens at `places` of the sequences with these lines."""
    position = np.array(places, dtype=np.int64)
    block = lines[np.array(at, dtype=np.int64), position // span.block]
    return block * span.block + position % span.block


def _put(part: Integers, values: Sequence[int] | Integers, count: int, rest: int = 0) -> None:
    """The first `count` numbers of a part: `values`, then `rest`."""
    part[: len(values)] = values
    part[len(values) : count] = rest


def _lines(part: Tensor, sequences: int, columns: int) -> Tensor:
    return part[: sequences * columns].view(sequences, columns)


def _padded(count: int) -> int:
    return -(-count // _ALIGNED) * _ALIGNED
