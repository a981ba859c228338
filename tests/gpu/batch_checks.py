"""What must hold of recorded passes over several sequences on a device, as in `op_checks.py`."""

from __future__ import annotations

from dataclasses import astuple, replace

import torch

from engine.backends.base import CHOSEN, Choice, Row
from engine.backends.torch_paged.pass_kinds import PassKind
from kernels.token_choice import choose_tokens
from tests.bench.gpu import synthetic
from tests.bench.gpu.rig import Rig
from tests.bench.gpu.shapes import TINY
from tests.gpu.op_checks import checked
from tests.gpu.pass_checks import ERROR
from tests.gpu.sequences import Sequences

LENGTHS = (65, 300, 1, 64, 130, 7, 500, 63)
ACCEPTED = 2
"""Rows of a pass that are kept at most: the next one takes the place of the others."""
PASSES = 3


def together(
    rig: Rig, weights: str, kv: str, kind: PassKind, new: tuple[int, ...], is_exact: bool
) -> float:
    """Rows of several sequences, several of each where drafts are checked: a recorded pass is the
    plain one, bit for bit or near it, at any lengths, in any order, and so is what it stores.
    """
    decoder = synthetic.decoder(rig, TINY, weights)
    lengths = list(LENGTHS[: len(new)])
    sequences = Sequences(rig, decoder, kv, kind, lengths)
    worst = 0.0
    for turn in range(PASSES):
        order = [(turn + i) % len(new) for i in range(len(new))]
        rows = [sequences.row(one, lengths[one], new[one]) for one in order]
        before = sequences.state()
        found = sequences.recorded(rows).logits[: sum(new)].clone()
        stored = sequences.state()
        sequences.restore(before)
        wanted = sequences.plain(rows)
        # Plain torch does not promise the same for a row alone.
        if is_exact and rig.has_kernels:
            assert torch.equal(found, wanted), f"pass {turn} differs"
            pairs = zip(stored, sequences.state(), strict=True)
            assert all(torch.equal(one, other) for one, other in pairs), f"pass {turn} stores else"
        worst = max(worst, checked(found, wanted, ERROR[kv]))
        lengths = [length + min(ACCEPTED, n) for length, n in zip(lengths, new, strict=True)]
    return worst


def followed(rig: Rig, weights: str, kv: str, batch: int = 3) -> float:
    """Passes that go on from tokens that the device chose, launched before any of them is read:
    the tokens are those of plain torch, and the scores those of passes that were given them.
    """
    decoder = synthetic.decoder(rig, TINY, weights)
    sequences = Sequences(rig, decoder, kv, PassKind(4, 1, 4), LENGTHS[:batch])
    before, made = sequences.state(), torch.Generator().manual_seed(1)
    steps, kept = [], []
    for turn in range(PASSES):
        order = [(turn + i) % batch for i in range(batch)]
        rows = [_row(sequences, one, turn, made) for one in order]
        found = sequences.recorded(rows)
        assert found.packed is not None
        assert found.chosen is not None
        steps.append(rows)
        kept.append([one[:batch].clone() for one in (found.logits, found.packed, found.chosen)])
    sequences.restore(before)
    chosen: dict[int, int] = {}
    worst = 0.0
    for rows, (logits, packed, tokens) in zip(steps, kept, strict=True):
        known = [
            replace(row, ids=(chosen[row.sequence],), follows=False) if row.follows else row
            for row in rows
        ]
        wanted = sequences.plain(known)
        if rig.has_kernels:
            assert torch.equal(logits, wanted)
        worst = max(worst, checked(logits, wanted, ERROR[kv]))
        rules = [astuple(row.choice) for row in rows if row.choice]
        right = choose_tokens(packed.cpu(), torch.tensor(rules, dtype=torch.float64)).tolist()
        assert tokens.tolist() == right
        chosen = {row.sequence: token for row, token in zip(rows, right, strict=True)}
    return worst


def _row(sequences: Sequences, sequence: int, turn: int, made: torch.Generator) -> Row:
    """The first of them has its token; sequence 0 is greedy."""
    number = float(torch.rand((), generator=made, dtype=torch.float64))
    choice = Choice(0.8 * bool(sequence), 40, 0.9, 0.02, number)
    start = LENGTHS[sequence] + turn
    if turn == 0:
        return replace(sequences.row(sequence, start, 1), wants_all=False, choice=choice)
    return Row(sequence, start, (CHOSEN,), True, choice=choice, follows=True)
