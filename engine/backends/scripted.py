"""A backend without a model, for tests: scores are a function of every token that a sequence holds.

A state that was cut, copied, parked or restored wrongly therefore changes the next scores. What
its sequences can be truncated to, and what goes wrong when, is chosen by the test. It knows no
model, file or thread.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.backends.base import BackendFacts, Candidates, Choice, Parked, Room, Row
from engine.backends.scripted_memory import Held, Memory
from engine.backends.scripted_vocabulary import END, VOCAB_SIZE
from engine.errors import BackendLost, Interrupted, OutOfRoom
from engine.output.sampler import Pool, draw
from engine.request import Sampling

Script = Callable[[tuple[int, ...]], Sequence[int]]
"""Prompt ids -> the ids of the answer; an end token follows the last one."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong; forwards are counted from 0."""

    nan_at: frozenset[int] = frozenset()
    """Every row of these forwards has a NaN."""
    nan_after: frozenset[int] = frozenset()
    """The scores after that many tokens of any sequence have a NaN."""
    nan_sequences: frozenset[int] = frozenset()
    """With `nan_at`: only these sequence numbers; empty: all."""
    raise_at: dict[int, Exception] = field(default_factory=dict)
    interrupt_at: dict[int, int] = field(default_factory=dict)
    """Forward -> tokens of the batch that are written before it is interrupted."""
    room_tokens: int | None = None
    """Most tokens of all sequences together."""
    padded_rows: int = 0
    """Output rows past the vocabulary, each with the highest logit of all."""
    unreadable: frozenset[int] = frozenset()
    """Forwards that return, and whose scores cannot be read."""
    wrong_choices: frozenset[int] = frozenset()
    """Forwards behind which the backend chooses other tokens than the sampler would."""
    is_lost: bool = False
    """What breaks stays broken."""


class ScriptedScores:
    def __init__(self, rows: dict[int, list[npt.NDArray[np.float32]]]) -> None:
        """The wanted scores of each row, in the order of its ids."""
        self._rows = rows
        self.is_overtaken = False
        """Whether a pass follows: only candidates can be read then."""

    def row(self, index: int, place: int = -1) -> npt.NDArray[np.float32]:
        if self.is_overtaken:
            raise AssertionError("the next pass has overwritten the scores")
        return self._rows[index][place]

    def candidates(self, index: int, k: int, place: int = -1) -> Candidates:
        row = self._rows[index][place]
        k = min(k, len(row))
        ids = np.lexsort((np.arange(len(row)), -row))[:k].astype(np.int64)
        total = log_sum_exp(row)
        return Candidates(ids, row[ids], math.isfinite(total), lambda: total)


class ChosenScriptedScores(ScriptedScores):
    def __init__(self, rows: dict[int, list[npt.NDArray[np.float32]]], ids: Sequence[int]) -> None:
        """`ids`: what was chosen behind each row."""
        super().__init__(rows)
        self._ids = ids

    def chosen(self, index: int) -> int:
        return self._ids[index]


class ScriptedBackend:
    def __init__(
        self,
        facts: BackendFacts,
        memory: Memory,
        script: Script | None,
        faults: Faults,
        delay_per_token_s: float,
    ) -> None:
        self.facts = facts
        self.faults = faults
        self.calls: list[tuple[Any, ...]] = []
        """Every call that changed something, in order: name, then its arguments."""
        self.forwarded_tokens = 0
        self._memory = memory
        self._script = script
        self._answers: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._delay_per_token_s = delay_per_token_s
        self._interrupted = threading.Event()
        self._forwards = 0
        self._latest: ScriptedScores | None = None
        self._chosen: dict[int, int] = {}
        """Of each sequence of the last forward, the token chosen behind its row."""

    # ---- what a backend does

    def room(self) -> Room:
        live = self._memory.token_count
        capacity = self.faults.room_tokens
        free = self.facts.context * self.facts.max_sequences if capacity is None else capacity
        live_bytes = int(live * self.facts.kv_bytes_per_token)
        return Room(max(free - live, 0), free, live_bytes, self._memory.points_bytes)

    def forward(self, rows: Sequence[Row]) -> ScriptedScores:
        self._check(rows)
        call, self._forwards = self._forwards, self._forwards + 1
        self._interrupted.clear()
        if call in self.faults.raise_at:
            raise self.faults.raise_at[call]
        count = sum(len(row.ids) for row in rows)
        self._check_room(count)
        self.calls.append(("forward", tuple(rows)))
        if self._latest is not None:
            self._latest.is_overtaken = True
        self._write(rows, self.faults.interrupt_at.get(call))
        scores = {i: self._scores(row, call) for i, row in enumerate(rows) if row.wants_scores}
        self._chosen = self._choose(rows, ScriptedScores(scores), call)
        if call in self.faults.unreadable:
            scores = {}
        if self._chosen:
            self._latest = ChosenScriptedScores(scores, tuple(self._chosen.values()))
        else:
            self._latest = ScriptedScores(scores)
        return self._latest

    def _choose(self, rows: Sequence[Row], scores: ScriptedScores, call: int) -> dict[int, int]:
        """The token behind each sequence's row, where all of them may be chosen; else none."""
        chosen = {}
        for index, row in enumerate(rows):
            if row.choice is None:
                return {}
            token_id = choose(scores, index, row.choice) + (call in self.faults.wrong_choices)
            chosen[row.sequence] = token_id % self.facts.vocab_size
        return chosen

    def _scores(self, row: Row, call: int) -> list[npt.NDArray[np.float32]]:
        length = self.length(row.sequence)
        first = row.start + 1 if row.wants_all else length
        ids = self._memory.held(row.sequence).ids
        return [
            self._scores_after(row.sequence, ids[:n], call, drafted=n > first)
            for n in range(first, length + 1)
        ]

    def fork(self, source: int, target: int, length: int) -> None:
        self.calls.append(("fork", source, target, length))
        self._memory.fork(source, target, length)

    def truncate(self, sequence: int, length: int) -> int:
        self.calls.append(("truncate", sequence, length))
        return self._memory.truncate(sequence, length)

    def mark(self, sequence: int) -> None:
        self.calls.append(("mark", sequence))
        self._memory.mark(sequence)

    def drop(self, sequence: int) -> None:
        self.calls.append(("drop", sequence))
        self._memory.drop(sequence)

    def park(self, sequence: int) -> Parked:
        self.calls.append(("park", sequence))
        return self._memory.park(sequence)

    def restore(self, parked: Parked, sequence: int, length: int) -> int:
        self.calls.append(("restore", sequence, length))
        if self.length(sequence) > 0:
            raise AssertionError(f"sequence {sequence} is not empty")
        return self._memory.restore(parked, sequence, length)

    def interrupt(self) -> None:
        self._interrupted.set()

    def require_alive(self) -> None:
        if self.faults.is_lost:
            raise BackendLost("The backend is lost.")

    def close(self) -> None:
        self._memory.clear()

    # ---- what tests look at

    def length(self, sequence: int) -> int:
        """Tokens that a sequence holds."""
        return len(self._memory.held(sequence).ids)

    def ids(self, sequence: int) -> list[int]:
        """The tokens themselves."""
        return list(self._memory.held(sequence).ids)

    @property
    def forwards(self) -> list[tuple[Row, ...]]:
        return [call[1] for call in self.calls if call[0] == "forward"]

    # ---- inside

    def _check(self, rows: Sequence[Row]) -> None:
        if sum(len(row.ids) for row in rows) > self.facts.max_rows:
            raise AssertionError("more rows than max_rows")
        for row in rows:
            if row.start != self.length(row.sequence) or not row.ids:
                raise AssertionError(f"{row} does not follow {self.length(row.sequence)} tokens")
            if row.start + len(row.ids) > self.facts.context:
                raise AssertionError(f"{row} is longer than the context")
        if len({row.sequence for row in rows}) != len(rows):
            raise AssertionError("a sequence twice in one batch")

        self._check_drafts(rows)

    def _check_drafts(self, rows: Sequence[Row]) -> None:
        drafting = [row for row in rows if row.wants_all]
        if sum(len(row.ids) - 1 for row in drafting) > self.facts.max_draft:
            raise AssertionError("more is drafted than max_draft")
        if drafting and any(len(row.ids) > 1 for row in rows if not row.wants_all):
            raise AssertionError("drafts beside a prompt")

    def _check_room(self, count: int) -> None:
        capacity = self.faults.room_tokens
        if capacity is not None and self._memory.token_count + count > capacity:
            raise OutOfRoom

    def _write(self, rows: Sequence[Row], stop_after: int | None) -> None:
        done = [0] * len(rows)
        left = -1 if stop_after is None else stop_after
        for i, row in enumerate(rows):
            for token_id in self._ids(row):
                if left == 0 or self._interrupted_in_delay():
                    raise Interrupted(tuple(done))
                self._memory.append(row.sequence, token_id)
                self.forwarded_tokens += 1
                done[i] += 1
                left -= 1

    def _ids(self, row: Row) -> tuple[int, ...]:
        return (self._chosen[row.sequence],) if row.follows else row.ids

    def _interrupted_in_delay(self) -> bool:
        if self._delay_per_token_s:
            return self._interrupted.wait(self._delay_per_token_s)
        return False

    def _scores_after(
        self, sequence: int, ids: list[int], call: int, drafted: bool
    ) -> npt.NDArray[np.float32]:
        """`drafted`: the last of the ids may be refused."""
        scores = history_scores(Held(ids), self.facts.vocab_size, self.faults.padded_rows)
        if self._script is not None:
            scores[self._scripted(tuple(ids), drafted)] = 30.0
        broken = call in self.faults.nan_at or len(ids) in self.faults.nan_after
        if broken and sequence in (self.faults.nan_sequences or {sequence}):
            scores[0] = np.nan
        return scores[: self.facts.vocab_size]

    def _scripted(self, ids: tuple[int, ...], drafted: bool) -> int:
        """The script's next id: `ids` is a known prompt and the beginning of its answer, or a new
        prompt; behind a draft that leaves the script the answer ends.
        """
        for prompt, answer in self._answers.items():
            said = ids[len(prompt) :]
            if ids[: len(prompt)] == prompt and said == answer[: len(said)] != answer:
                return answer[len(said)]
        if drafted:
            return END
        assert self._script is not None
        self._answers[ids] = (*self._script(ids), END)
        return self._answers[ids][0]


def choose(scores: ScriptedScores, row: int, choice: Choice) -> int:
    """As the sampler chooses behind `row`."""
    best = scores.candidates(row, choice.top_k)
    if choice.temperature <= 0:
        return int(best.ids[0])
    sampling = Sampling(
        temperature=choice.temperature, top_p=choice.top_p, min_p=choice.min_p, typical_p=1.0
    )
    pool = Pool(best.ids, best.logits.astype(np.float64), best_first=True)
    return draw(pool, sampling, choice.number)


def history_scores(held: Held, size: int, padded_rows: int = 0) -> npt.NDArray[np.float32]:
    """Logits [size + padded_rows] in -4 .. 8 that depend on every id that is held."""
    state = np.uint64(held.digest())
    with np.errstate(over="ignore"):
        mixed = (np.arange(size, dtype=np.uint64) + state) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
    scores = (mixed >> np.uint64(40)).astype(np.float32) * np.float32(12.0 / (1 << 24)) - 4.0
    return np.concatenate([scores, np.full(padded_rows, 50.0)]).astype(np.float32)


def log_sum_exp(row: npt.NDArray[np.float32]) -> float:
    if not np.isfinite(row.max()):
        return float(row.max())
    wide = row.astype(np.float64)
    best = float(wide.max())
    return best + float(np.log(np.exp(wide - best).sum()))


def scripted_backend(
    context: int = 4096,
    delay_per_token_s: float = 0.0,
    script: Script | Sequence[Sequence[int]] | None = None,
    faults: Faults | None = None,
    window: int | None = None,
    recurrent: bool = False,
    max_rows: int = 512,
    max_sequences: int = 8,
    min_recompute: int = 1,
    vocab_size: int = VOCAB_SIZE,
    max_draft: int = 16,
    max_choice: int = 0,
) -> ScriptedBackend:
    """`script`: a function of the prompt, or the answers to new prompts in their order (then empty
    ones).

    `window`: only the last so many positions and restore points can be truncated to; `recurrent`:
    only restore points, so that nothing is drafted.
    """
    reach = 0 if recurrent else max_rows if window is None else window
    facts = BackendFacts(
        name="scripted",
        vocab_size=vocab_size,
        context=context,
        max_rows=max_rows,
        max_sequences=max_sequences,
        min_recompute=min_recompute,
        kv_bytes_per_token=8.0,
        exact_batching=True,
        numerics="scripted 1",
        kv_type="f16",
        needs_marks=recurrent or window is not None,
        max_draft=min(max_draft, reach),
        max_choice=0 if recurrent else max_choice,
    )
    memory = Memory(max_sequences, 0 if recurrent else window)
    return ScriptedBackend(facts, memory, _as_script(script), faults or Faults(), delay_per_token_s)


def _as_script(script: Script | Sequence[Sequence[int]] | None) -> Script | None:
    if script is None or callable(script):
        return script
    answers = iter(script)
    return lambda prompt: next(answers, ())
