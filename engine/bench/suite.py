"""All tests of one loaded model with one kv_type, on whatever backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from engine.bench import measure
from engine.bench.chain import SAMPLED
from engine.bench.measure import DEPTH, Bench
from models.tokenizers.base import Tokenizer

CONTEXT = DEPTH + 512
READING_DEADLINE_S = 32.0
"""From the start of a kv_type's tests: reading goes last and takes the fewest rounds after this."""

Say = Callable[[dict[str, Any]], None]


def tests(
    bench: Bench, restore: Callable[[], tuple[int, ...]], say: Say
) -> list[dict[str, object]]:
    """`restore` as in `measure.writing_at_depth`."""
    deadline = bench.clock() + READING_DEADLINE_S
    kv = bench.kv_type
    measure.warm_up(bench)
    say({"progress": f"{kv}: writing"})
    writing = measure.writing(bench)
    sampled = measure.writing(bench, "tg128 sampled", SAMPLED)
    say({"progress": f"{kv}: writing at a depth of {DEPTH:,}"})
    deep = measure.writing_at_depth(bench, restore)
    say({"progress": f"{kv}: turns"})
    turns = measure.turns(bench)
    say({"progress": f"{kv}: reading"})
    reading = measure.reading(bench, deadline)
    return [one.as_object() for one in (reading, writing, sampled, deep, turns)]


def some_ids(tokenizer: Tokenizer) -> Sequence[int]:
    """Ordinary tokens in an order that repeats from run to run."""
    shut = {*tokenizer.end_ids, *tokenizer.control_tokens.values()}
    drawn = np.random.default_rng(7).integers(0, tokenizer.vocab_size, 8192).tolist()
    return [token for token in drawn if token not in shut]
