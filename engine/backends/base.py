"""The seam between the engine and what computes: token rows in, scores out.

A backend belongs to one owner thread; only `interrupt` may be called from another. It knows
sequence numbers and
positions, and no request, text or template.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class BackendFacts:
    """What does not change while a model is loaded."""

    name: str
    """`llama_cpp`, `torch_paged` or `scripted`."""
    vocab_size: int
    """Ids below this exist in the tokenizer; padded output rows are never seen above the
    backend.
    """
    context: int
    """Most tokens one sequence may hold: the limit shown to the person."""
    max_rows: int
    """Most tokens of one `forward`."""
    max_sequences: int
    """Sequence numbers are 0 .. max_sequences - 1."""
    min_recompute: int
    """Least tokens that a cache hit leaves to be evaluated, so that they take the code of any
    prefill.
    """
    kv_bytes_per_token: float
    exact_batching: bool
    """Whether a row's scores are independent of its batch mates."""
    numerics: str
    """Everything that changes the numbers (build, flash attention, KV types, threads where they
    matter).
    """
    kv_type: str
    """What is really in use, by the names of the kv_type table."""
    needs_marks: bool = False
    """Whether a sequence can only be cut back to few lengths (sliding window, recurrent), so that
    every prompt is split for a restore point `min_recompute` tokens before its end.
    """
    idle_is_free: bool = False
    """Whether sequences without work in a step cost it no time: kept ones then stay where they are
    until their room is needed.
    """
    max_choice: int = 0
    """Most candidates among which the backend can choose a token itself, where the scores are, and
    go on from it before anybody has read them; 0: it cannot.
    """
    max_draft: int = 0
    """Most drafted tokens of one `forward`, all rows together: each asks for scores of its own, and
    `truncate` takes back exactly those that are refused. 0: nothing is drafted.
    """


@dataclass(frozen=True, slots=True)
class Room:
    free_tokens: int
    """Tokens that can be forwarded now without parking anything."""
    free_tokens_after_parking: int
    bytes_live: int
    bytes_parked: int
    """Bytes of the restore points of live sequences, which the cache's budget pays for."""


CHOSEN = -1
"""In place of an id that only the backend knows yet."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The sampler's settings for one token, as `engine/output/sampler.py` applies them."""

    temperature: float
    """0: the likeliest."""
    top_k: int
    """In 1 .. `facts.max_choice`."""
    top_p: float
    min_p: float
    number: float
    """The random number, in [0, 1)."""


@dataclass(frozen=True, slots=True)
class Row:
    """Tokens of one sequence in one step."""

    sequence: int
    start: int
    """Position of ids[0]; equals the number of tokens the sequence holds."""
    ids: tuple[int, ...]
    wants_scores: bool
    """Whether the scores after the last id are wanted."""
    wants_all: bool = False
    """With `wants_scores`: after every id. The first id was sampled, those behind it are drafted.

    Such rows share a step with decode rows only, never with a prompt. At most `facts.max_draft` ids
    of a step are drafted; right after it, `truncate` to any length from `start` + 1 on must be
    exact, also where a window slides, and costs next to nothing.
    """
    choice: Choice | None = None
    """How the backend may choose the token behind the row itself."""
    follows: bool = False
    """The only id is `CHOSEN`: what was chosen behind the sequence's row of the pass before. Such a
    row, too, can be taken back by `truncate` to `start`.
    """


@dataclass(frozen=True, slots=True)
class Parked:
    """A sequence's state taken out of the backend; immutable and owned by the caller."""

    data: bytes
    length: int
    positions: tuple[int, ...] | None
    """Lengths this state can be truncated to after a restore, ascending; None means any up to
    `length`.
    """

    @property
    def byte_count(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The k best tokens of a row, best first (ties: lower id first)."""

    ids: npt.NDArray[np.int64]
    logits: npt.NDArray[np.float32]
    finite: bool
    """False when any logit of the row is NaN or +inf, or none is finite."""
    log_sum_exp: Callable[[], float]
    """Over the whole unpadded vocabulary, natural logarithm; most settings never ask for it, and on
    a CPU it costs more than the candidates.
    """


class Scores(Protocol):
    """Logits of the rows that wanted them; valid until the next `forward`.

    `place` counts the ids of a row that wanted all scores, from 0, or from -1 backwards. Where rows
    do not depend on their batch mates, those scores equal the ones of feeding id after id.
    """

    def row(self, index: int, place: int = -1) -> npt.NDArray[np.float32]:
        """Logits [vocab_size] after one id of rows[index] of the batch; the last one by default."""
        ...

    def candidates(self, index: int, k: int, place: int = -1) -> Candidates: ...


@runtime_checkable
class ChosenScores(Scores, Protocol):
    """Of a pass whose rows all had a choice, where the backend took it: rows may follow. The chosen
    ids, and candidates up to `facts.max_choice`, stay readable behind the next pass.
    """

    def chosen(self, index: int) -> int:
        """The id that was chosen behind rows[index]."""
        ...


class Backend(Protocol):
    @property
    def facts(self) -> BackendFacts: ...

    def room(self) -> Room: ...

    def forward(self, rows: Sequence[Row]) -> Scores:
        """Append each row to its sequence. Raises Interrupted (part was written) or OutOfRoom
        (nothing was). Returns when that is done; rows that follow are waited for by who reads their
        scores.
        """
        ...

    def fork(self, source: int, target: int, length: int) -> None:
        """Make `target` hold the first `length` tokens of `source`, which stays; target's old
        content goes.
        """
        ...

    def truncate(self, sequence: int, length: int) -> int:
        """Cut to at most `length` tokens; returns the length really kept (<= length), which is
        exact.
        """
        ...

    def mark(self, sequence: int) -> None:
        """Take a restore point at the present length, where the backend needs one to truncate
        later.
        """
        ...

    def drop(self, sequence: int) -> None: ...

    def park(self, sequence: int) -> Parked:
        """The state as bytes; the sequence is dropped from the backend."""
        ...

    def restore(self, parked: Parked, sequence: int, length: int) -> int:
        """Put a state back into an empty sequence, cut to at most `length`; returns the length
        really kept.
        """
        ...

    def interrupt(self) -> None:
        """From another thread: make a running `forward` raise Interrupted within a step. Harmless
        when idle.
        """
        ...

    def require_alive(self) -> None:
        """Asked right after something broke. Raises BackendLost where this process can compute
        nothing more.
        """
        ...

    def close(self) -> None: ...
