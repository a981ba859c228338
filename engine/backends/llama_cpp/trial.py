"""How fast a context with given settings reads and writes at a depth, in one native context of its
own.

The depth is synthetic: one short state restored again and again and joined into one sequence. Step
times are within 3 % of those at a real depth. Knows no choice between settings.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from llama_cpp import llama_cpp

from engine.backends.llama_cpp import states
from engine.backends.llama_cpp.context import Context, ContextShape
from engine.backends.llama_cpp.kv_types import KVType
from engine.backends.llama_cpp.model import LoadedModel
from engine.backends.llama_cpp.settings import CALL_TOKENS

# The stretch that is repeated, and the tokens of a turn that is timed.
STRETCH = 128
NEW_TOKENS = 200
DECODE_STEPS = 4
# The stop question may cost something; the abort callback comes hundreds of times a token.
_ASK_EVERY_S = 0.02


class Stopped(Exception):
    """The trial was stopped; it measured nothing."""


@dataclass(frozen=True, slots=True)
class Setting:
    flash: bool
    threads: int
    n_ubatch: int


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds of one trial."""

    prefill_s: float
    """NEW_TOKENS tokens in one piece."""
    decode_s: float
    """One token, the fastest of DECODE_STEPS."""

    @property
    def turn_s(self) -> float:
        """A turn of NEW_TOKENS read and as many written."""
        return self.prefill_s + NEW_TOKENS * self.decode_s

    @property
    def prefill_tokens_per_s(self) -> float:
        return NEW_TOKENS / self.prefill_s

    @property
    def decode_tokens_per_s(self) -> float:
        return 1 / self.decode_s


class Trials:
    """Trials of one model and kv_type; keeps the short states between them."""

    def __init__(
        self, model: LoadedModel, kv: KVType, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._model = model
        self._kv = kv
        self._clock = clock
        self._stretches: dict[bool, bytes] = {}

    def run(self, setting: Setting, depth: int, should_stop: Callable[[], bool]) -> Rates:
        """Raises Stopped within milliseconds of `should_stop`, ContextRefused."""
        stop = _Stop(should_stop, self._clock)
        context = Context(self._model, self._shape(setting, depth), (stop.callback, 0))
        try:
            start = self._fill(context, setting.flash, self._reachable(setting, depth))
            return self._time(context, start)
        finally:
            context.close()

    def _shape(self, setting: Setting, depth: int) -> ContextShape:
        cells = depth + STRETCH + NEW_TOKENS + DECODE_STEPS
        return ContextShape(
            cells + -cells % 256,
            2,
            CALL_TOKENS,
            setting.n_ubatch,
            self._kv.type_k,
            self._kv.type_v,
            setting.flash,
            setting.threads,
        )

    def _reachable(self, setting: Setting, depth: int) -> int:
        """Layers with a sliding window hold twice the window for two sequences, and no more."""
        if not self._model.window:
            return depth
        return min(depth, max(0, 2 * self._model.window + setting.n_ubatch - 2 * STRETCH))

    def _fill(self, context: Context, flash: bool, depth: int) -> int:
        """About `depth` cells in sequence 0; returns its next position."""
        if depth < STRETCH:
            return 0
        if self._model.recurrent or self._model.hybrid:
            # A running state takes as long at any depth, and cannot be joined.
            self._compute(context, 0, self._ids(STRETCH))
            return STRETCH
        if flash not in self._stretches:
            self._compute(context, 1, self._ids(STRETCH))
            size = context.state_size(1)
            stretch = bytes(size)
            context.write_state(1, states.address(stretch), size)
            self._stretches[flash] = stretch
        for _ in range(depth // STRETCH):
            context.remove(1, 0)
            stretch = self._stretches[flash]
            if not context.read_state(1, states.address(stretch), len(stretch)):
                raise Stopped
            context.share(1, 0, -1)
        context.remove(1, 0)
        return STRETCH

    def _time(self, context: Context, start: int) -> Rates:
        ids = self._ids(NEW_TOKENS)
        begin = self._clock()
        self._compute(context, 0, ids, start)
        prefill_s = self._clock() - begin
        steps = []
        for step in range(DECODE_STEPS):
            begin = self._clock()
            self._compute(context, 0, ids[:1], start + NEW_TOKENS + step)
            steps.append(self._clock() - begin)
        return Rates(prefill_s, min(steps))

    def _compute(
        self, context: Context, sequence: int, ids: tuple[int, ...], start: int = 0
    ) -> None:
        context.batch.clear()
        context.batch.add(sequence, start, ids, wants_scores=True)
        if context.decode() != 0:
            raise Stopped

    def _ids(self, count: int) -> tuple[int, ...]:
        random = np.random.default_rng(0)
        return tuple(int(i) for i in random.integers(0, self._model.vocab_size, count))


class _Stop:
    """An abort callback that asks `should_stop`."""

    def __init__(self, should_stop: Callable[[], bool], clock: Callable[[], float]) -> None:
        self._should_stop = should_stop
        self._clock = clock
        self._asked = clock()
        self._answer = should_stop()
        self.callback: Any = llama_cpp.ggml_abort_callback(self._ask)

    def _ask(self, _user_data: object) -> bool:
        now = self._clock()
        if not self._answer and now - self._asked >= _ASK_EVERY_S:
            self._asked = now
            self._answer = self._should_stop()
        return self._answer
