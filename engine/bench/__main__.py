"""The measuring process. Standard output carries JSON lines only: native output goes to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import msgspec

from engine.backend_choice import choose_backend, this_machine
from engine.backends.llama_cpp.backend import LlamaCppBackend
from engine.backends.llama_cpp.kv_types import KV_TYPES, find_kv_type
from engine.backends.llama_cpp.loader import load_model
from engine.backends.llama_cpp.model import LoadedModel
from engine.backends.llama_cpp.settings import BackendOptions, ContextSettings
from engine.backends.torch_paged.kv_types import KV_TYPES as OWN_TYPES
from engine.bench.bare import BareLoop, BareShape
from engine.bench.depth import STRETCH, parked_state, read_state, synthetic_state
from engine.bench.engine_loop import EngineLoop
from engine.bench.job import Job
from engine.bench.measure import DEPTH, Bench
from engine.bench.suite import CONTEXT, Say, some_ids, tests
from engine.error_values import info_of
from engine.errors import UsageError
from models.description import describe
from models.tokenizers.gguf_vocab import GGUFTokenizer

LLAMA_TYPES = tuple(KV_TYPES)

Facts = dict[str, Any]
Results = list[dict[str, object]]


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
    path = Path(job.path)
    choice = choose_backend(job.backend, this_machine(), describe(path))
    if choice.name == "torch_paged":
        from engine.bench.own import measured

        return each_kv_type(job, OWN_TYPES, lambda kv: measured(job, kv, choice.device, say))
    if job.weights != "auto":
        raise UsageError(
            f"weights={job.weights} cannot be measured with llama.cpp.",
            "It rounds a safetensors folder for our own backend.",
            "Leave weights at auto, or add `-o backend=torch_paged`.",
        )
    if path.is_dir():
        raise UsageError(
            f"{path.name} is a folder, and of llama.cpp only GGUF files are measured.",
            "Our loop is compared with llama.cpp's own on the same file.",
            "Run `localchat models convert` and name the file that it makes, or add "
            "`-o backend=torch_paged`.",
        )
    model = load_model(path, BackendOptions(), lambda _done, _total: True)
    return each_kv_type(job, LLAMA_TYPES, lambda kv: beside_llama(model, job, kv, say))


def each_kv_type(
    job: Job, known: Iterable[str], measure_one: Callable[[str], tuple[Facts, Results]]
) -> dict[str, Any]:
    wanted = job.kv_types or tuple(name for name in known if name != "auto")
    facts: Facts = {"model": Path(job.path).name}
    results: Results = []
    skipped: list[dict[str, str]] = []
    for kv_type in wanted:
        try:
            more, found = measure_one(kv_type)
            facts = {**facts, **more, **facts}
            results += found
        except UsageError as error:
            if len(wanted) == 1:
                raise
            skipped.append({"kv_type": kv_type, "reason": str(error)})
    return {**facts, "results": results, **({"skipped": skipped} if skipped else {})}


def beside_llama(model: LoadedModel, job: Job, kv_type: str, say: Say) -> tuple[Facts, Results]:
    with opened(model, job, kv_type) as (bench, backend):
        facts = {"backend": "llama_cpp", "threads": backend.threads, "flash": backend.flash}
        return facts, tests(bench, deep_state(bench, backend, model), say)


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

    bare = bench.bare
    assert isinstance(bare, BareLoop)

    def restore() -> tuple[int, ...]:
        bare.clear()
        bare.load(state, DEPTH)
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


def _claim_stdout() -> TextIO:
    """Our own handle of the pipe; whatever native code prints goes to standard error."""
    ours = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return ours


if __name__ == "__main__":
    sys.exit(main())
