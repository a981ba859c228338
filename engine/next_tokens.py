"""The tokens that one row of a step leads to: one, and more where drafts came true."""

from __future__ import annotations

from engine.backends.base import Scores
from engine.output.changes import LogitChanges
from engine.output.sampler import NotFinite, ScoresAt, sample
from engine.scheduler import Piece, Plan
from engine.sequence import Sequence


def next_tokens(piece: Piece, scores: Scores, row: int) -> list[int | None]:
    """One token, and one more behind each drafted token that is just the one sampled there.

    Each is sampled as if it were the only one: with its own random number, and penalties that know
    those before it. None, always the last: the scores were not finite.
    """
    sequence, drafted = piece.sequence, len(piece.draft)
    tokens: list[int | None] = []
    for number in range(drafted + 1):
        place = ScoresAt(scores, row, number - drafted - 1)
        token = _next_token(sequence, place, sequence.sampled + number)
        tokens.append(token)
        if token is None:
            break
        if sequence.recent is not None:
            sequence.recent.push(token)
        if number < drafted and token != piece.draft[number]:
            break
    return tokens


def _next_token(sequence: Sequence, scores: ScoresAt, number: int) -> int | None:
    counts = {} if sequence.recent is None else sequence.recent.counts
    sampling = sequence.request.sampling
    try:
        return sample(scores, sampling, LogitChanges(sampling, counts), number)
    except NotFinite:
        return None


def weigh(plan: Plan, scores: Scores) -> None:
    """Tell the sequences that ask for it how much likelier one token is than another, before any is
    sampled.
    """
    for index, piece in enumerate(plan.pieces):
        sequence = piece.sequence
        pair = sequence.request.weighs
        if pair is not None and piece.wants_scores and sequence.sampled == 0:
            row = scores.row(index)
            sequence.margin = float(row[pair[0]] - row[pair[1]])
