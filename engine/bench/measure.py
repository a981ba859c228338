"""The tests, each for the engine and the bare loop in turns, so that a slow phase of the
machine meets both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.bench.bare import BareLoop
from engine.bench.chain import Chain
from engine.bench.engine_loop import GREEDY, EngineLoop
from engine.bench.job import Lap, Measured, shares
from engine.bench.no_loop import NoLoop
from engine.request import Sampling

ROUNDS = 5
LEAST_ROUNDS = 3
PROMPT = 512
WRITTEN = 128
DEPTH = 4096
WRITTEN_AT_DEPTH = 64
TURNS = 20
TURN_TOKENS = 16
SHORT_PROMPT = 32

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Bench:
    """The two loops under test and the ids they are fed with."""

    engine: EngineLoop
    bare: BareLoop | NoLoop
    ids: Sequence[int]
    kv_type: str
    full: bool = False
    clock: Clock = time.perf_counter

    @property
    def compares(self) -> bool:
        return not isinstance(self.bare, NoLoop)

    def measured(
        self, test: str, engine: Sequence[Lap], bare: Sequence[Lap], computed: int
    ) -> Measured:
        beside = tuple(bare) if self.compares else ()
        return Measured(test, self.kv_type, tuple(engine), beside, computed)

    def prompt(self, number: int, length: int) -> list[int]:
        """A prompt that shares no beginning with those of other numbers."""
        start = (number * 997) % (len(self.ids) // 2)
        return list(self.ids[start : start + length])


def warm_up(bench: Bench) -> None:
    """Buffers are touched, the scheduler knows its rates."""
    prompt = bench.prompt(99, 128)
    bench.bare.clear()
    bench.bare.write(bench.bare.read(prompt), 4)
    bench.engine.begin(prompt, 4)
    bench.engine.finish()


def reading(bench: Bench, deadline: float) -> Measured:
    """pp512; after `deadline` (seconds of the clock) no more than the least rounds."""
    engine, bare = [], []
    computed = 0
    for number in range(ROUNDS):
        if number >= LEAST_ROUNDS and bench.clock() > deadline and not bench.full:
            break
        prompt = bench.prompt(number, PROMPT)
        bench.bare.clear()
        started = bench.clock()
        bench.bare.read(prompt)
        between = bench.clock()
        bench.engine.begin(prompt, 1)
        computed = bench.engine.finish().usage.computed_tokens
        bare.append(Lap(PROMPT, between - started))
        engine.append(Lap(PROMPT, bench.clock() - between))
    return bench.measured("pp512", engine, bare, computed)


def writing(bench: Bench, test: str = "tg128", sampling: Sampling = GREEDY) -> Measured:
    """One answer in five stretches, or five answers."""
    rounds = ROUNDS if bench.full else 1
    engine, bare = [], []
    computed = 0
    for number in range(rounds):
        prompt = bench.prompt(10 + number, SHORT_PROMPT)
        bench.bare.clear()
        token = bench.bare.read(prompt)
        laps = write_in_turns(bench, token, prompt, WRITTEN, sampling=sampling)
        engine += laps.engine
        bare += laps.bare
        computed = laps.computed_tokens
    return bench.measured(test, engine, bare, computed)


def writing_at_depth(bench: Bench, restore: Callable[[], tuple[int, ...]]) -> Measured:
    """tg64@4096; `restore` puts the deep state into both loops and returns its ids."""
    rounds = ROUNDS if bench.full else 1
    engine, bare = [], []
    computed = 0
    for _ in range(rounds):
        deep = restore()
        more = list(bench.ids[:8])
        token = bench.bare.read(more)
        laps = write_in_turns(bench, token, [*deep, *more], WRITTEN_AT_DEPTH, "deep")
        engine += laps.engine
        bare += laps.bare
        computed = laps.computed_tokens
        bench.engine.drop("deep")
    return bench.measured("tg64@4096", engine, bare, computed)


@dataclass(frozen=True, slots=True)
class Laps:
    engine: list[Lap]
    bare: list[Lap]
    computed_tokens: int


def write_in_turns(
    bench: Bench,
    token: int,
    prompt: Sequence[int],
    tokens: int,
    conversation: str = "",
    sampling: Sampling = GREEDY,
) -> Laps:
    """One answer of each loop, a stretch here and a stretch there."""
    engine, bare = [], []
    is_chained = bench.compares and sampling != GREEDY
    chain = Chain(sampling, bench.bare.vocab_size) if is_chained else None
    bench.engine.begin(prompt, tokens + 1, conversation, sampling)
    result = bench.engine.write(1)
    for count in shares(tokens, 1 if bench.full else ROUNDS):
        started = bench.clock()
        token = bench.bare.write(token, count, chain)
        between = bench.clock()
        result = bench.engine.write(count)
        bare.append(Lap(count, between - started))
        engine.append(Lap(count, bench.clock() - between))
    if chain is not None:
        chain.close()
    return Laps(engine, bare, result.usage.computed_tokens if result else 0)


def turns(bench: Bench) -> Measured:
    """Twenty turns of 16 new and 16 written tokens; written tokens over the time of whole turns."""
    bench.bare.clear()
    history: list[int] = []
    pending: list[int] = []
    computed = 0
    engine: list[Lap] = []
    bare: list[Lap] = []
    for count in shares(TURNS, ROUNDS):
        engine_s = bare_s = 0.0
        for _ in range(count):
            new = bench.prompt(40 + len(history), TURN_TOKENS)
            history += new
            started = bench.clock()
            bench.engine.begin(history, TURN_TOKENS, "turns")
            result = bench.engine.finish()
            engine_s += bench.clock() - started
            computed += result.usage.computed_tokens
            started = bench.clock()
            token = bench.bare.read([*pending, *new])
            pending = [bench.bare.write(token, TURN_TOKENS - 1)]
            bare_s += bench.clock() - started
            history += result.token_ids
        engine.append(Lap(count * TURN_TOKENS, engine_s))
        bare.append(Lap(count * TURN_TOKENS, bare_s))
    bench.engine.drop("turns")
    return bench.measured("turns", engine, bare, computed)
