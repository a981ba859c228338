"""The measuring process. Standard output carries JSON lines only: native output goes to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import msgspec
import numpy as np

from engine.backends.llama_cpp.backend import LlamaCppBackend
from engine.backends.llama_cpp.kv_types import find_kv_type
from engine.backends.llama_cpp.loader import load_model
from engine.backends.llama_cpp.model import LoadedModel
from engine.backends.llama_cpp.settings import BackendOptions, ContextSettings
from engine.bench import measure
from engine.bench.bare import BareLoop, BareShape
from engine.bench.chain import SAMPLED
from engine.bench.depth import STRETCH, parked_state, read_state, synthetic_state
from engine.bench.engine_loop import EngineLoop
from engine.bench.job import Job
from engine.bench.measure import DEPTH, Bench
from engine.error_values import info_of
from engine.errors import UsageError
from models.tokenizers.gguf_vocab import GGUFTokenizer

CONTEXT = DEPTH + 512
READING_DEADLINE_S = 32.0
"""From the start of a kv_type's tests: reading goes last and takes the fewest rounds after this."""

Say = Callable[[dict[str, Any]], None]


def main() -> int:
    out = _claim_stdout()

    def say(message: dict[str, Any]) -> None:
        out.write(msgspec.json.encode(message).decode() + "\n")
        out.flush()

    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    try:
        say({"report": report(job, say)})
    except Exception as error:
        say({"error": asdict(info_of(error))})
        return 1
    return 0


def report(job: Job, say: Say) -> dict[str, Any]:
    """All results of a job; a kv_type that this model cannot take is left out with its reason."""
    say({"progress": "loading"})
    model = load_model(Path(job.path), BackendOptions(), lambda _done, _total: True)
    results: list[dict[str, object]] = []
    skipped: list[dict[str, str]] = []
    facts: dict[str, Any] = {"model": Path(job.path).name, "backend": "llama_cpp"}
    for kv_type in job.kv_types:
        try:
            with opened(model, job, kv_type) as (bench, backend):
                facts.setdefault("threads", backend.threads)
                facts.setdefault("flash", backend.flash)
                results += tests(bench, backend, model, say)
        except UsageError as error:
            if len(job.kv_types) == 1:
                raise
            skipped.append({"kv_type": kv_type, "reason": str(error)})
    return {**facts, "results": results, **({"skipped": skipped} if skipped else {})}


@contextmanager
def opened(model: LoadedModel, job: Job, kv_type: str) -> Iterator[tuple[Bench, LlamaCppBackend]]:
    """Both loops over one loaded model with the same settings."""
    settings = ContextSettings(CONTEXT, kv_type, job.flash, job.threads)
    backend = LlamaCppBackend(model, settings)
    tokenizer = GGUFTokenizer(Path(job.path))
    bare = BareLoop(model.handle, model.vocab_size, shape_of(backend))
    try:
        engine = EngineLoop(backend, tokenizer)
        ids = some_ids(tokenizer)
        yield Bench(engine, bare, ids, backend.facts.kv_type, job.full), backend
    finally:
        bare.close()
        backend.close()
        tokenizer.close()


def tests(
    bench: Bench, backend: LlamaCppBackend, model: LoadedModel, say: Say
) -> list[dict[str, object]]:
    deadline = bench.clock() + READING_DEADLINE_S
    kv = bench.kv_type
    measure.warm_up(bench)
    say({"progress": f"{kv}: writing"})
    writing = measure.writing(bench)
    sampled = measure.writing(bench, "tg128 sampled", SAMPLED)
    say({"progress": f"{kv}: writing at a depth of {DEPTH:,}"})
    deep = measure.writing_at_depth(bench, deep_state(bench, backend, model))
    say({"progress": f"{kv}: turns"})
    turns = measure.turns(bench)
    say({"progress": f"{kv}: reading"})
    reading = measure.reading(bench, deadline)
    return [one.as_object() for one in (reading, writing, sampled, deep, turns)]


def deep_state(
    bench: Bench, backend: LlamaCppBackend, model: LoadedModel
) -> Callable[[], tuple[int, ...]]:
    """Makes the deep state once; the returned function puts it into both loops."""
    ids = (list(bench.ids[:STRETCH]) * (DEPTH // STRETCH))[:DEPTH]
    builder = BareLoop(model.handle, model.vocab_size, shape_of(backend, DEPTH // STRETCH))
    try:
        # A window or a running state depends on every token before it.
        copied = model.rolls_back and builder.can_shift and not bench.full
        state = (synthetic_state if copied else read_state)(builder, ids, DEPTH)
    finally:
        builder.close()
    parked = parked_state(backend, state, DEPTH)

    def restore() -> tuple[int, ...]:
        bench.bare.clear()
        bench.bare.load(state, DEPTH)
        bench.engine.adopt("deep", tuple(ids), parked)
        return tuple(ids)

    return restore


def shape_of(backend: LlamaCppBackend, sequences: int = 1) -> BareShape:
    kv = find_kv_type(backend.facts.kv_type)
    return BareShape(
        n_ctx=CONTEXT,
        n_ubatch=backend.settings.n_ubatch,
        threads=backend.threads,
        flash=backend.flash,
        type_k=kv.type_k,
        type_v=kv.type_v,
        sequences=sequences,
    )


def some_ids(tokenizer: GGUFTokenizer) -> Sequence[int]:
    """Ordinary tokens in an order that repeats from run to run."""
    shut = {*tokenizer.end_ids, *tokenizer.control_tokens.values()}
    drawn = np.random.default_rng(7).integers(0, tokenizer.vocab_size, 8192).tolist()
    return [token for token in drawn if token not in shut]


def _claim_stdout() -> TextIO:
    """Our own handle of the pipe; whatever native code prints goes to standard error."""
    ours = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return ours


if __name__ == "__main__":
    sys.exit(main())
