"""The tests on our own backend, which has no bare loop to be compared with.

On a GPU writing is compared with its memory instead: the weights are read once for every token.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from engine.bench.engine_loop import EngineLoop
from engine.bench.job import Job
from engine.bench.measure import DEPTH, Bench
from engine.bench.no_loop import NoLoop
from engine.bench.suite import CONTEXT, Say, some_ids, tests
from engine.config import EngineConfig
from engine.messages import Load, LoadOptions
from engine.worker.loading_torch import load, open_tokenizer
from engine.worker.model import Model
from models.decoder_memory import parameter_count
from models.description import describe
from models.own_decoder import decoder_config

NO_LOOP = "torch_paged has no bare loop to compare with"
READ_BYTES = 2 << 30
READS = 10
STRETCH = 512


def measured(
    job: Job, kv_type: str, device: str, say: Say
) -> tuple[dict[str, Any], list[dict[str, object]]]:
    rate = _device_rate(device)
    with opened(job, kv_type, device) as (bench, model):
        facts: dict[str, Any] = {
            "backend": "torch_paged",
            "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
            "threads": model.loaded.threads,
            "flash": False,
            "bare": NO_LOOP,
            "weights_bytes_per_token": _read_bytes(job, model),
            **({} if rate is None else {"read_bytes_per_s": rate}),
        }
        found = tests(bench, read_depth(bench), say)
    if rate is not None:
        share = facts["weights_bytes_per_token"] / rate
        for one in found:
            if str(one["test"]).startswith("tg128"):
                one["share_of_read"] = round(float(str(one["tokens_per_s"])) * share, 4)
    return facts, found


@contextmanager
def opened(job: Job, kv_type: str, device: str) -> Iterator[tuple[Bench, Model]]:
    options = LoadOptions(kv_type, CONTEXT, job.threads, kernels=job.kernels, weights=job.weights)
    description = describe(Path(job.path))
    model = load(Load(job.path, options), description, device, lambda _done, _total: True)
    try:
        tokenizer = open_tokenizer(description)
        facts = model.backend.facts
        config = EngineConfig(chunk=facts.max_rows - facts.max_sequences)
        engine = EngineLoop(model.backend, tokenizer, config)
        yield Bench(engine, NoLoop(), some_ids(tokenizer), facts.kv_type, job.full), model
        tokenizer.close()
    finally:
        model.close()


def read_depth(bench: Bench) -> Callable[[], tuple[int, ...]]:
    """Makes a deep conversation by reading it."""
    ids = tuple((list(bench.ids[:STRETCH]) * (DEPTH // STRETCH))[:DEPTH])

    def restore() -> tuple[int, ...]:
        bench.engine.begin(ids, 1, "deep")
        bench.engine.finish()
        return ids

    return restore


def _read_bytes(job: Job, model: Model) -> float:
    """Of weights, for a token."""
    config = decoder_config(describe(Path(job.path)))
    whole = parameter_count(config)
    # One row of the embedding is read, unless it is the output too.
    read = whole if config.tied else whole - config.vocab_size * config.hidden
    return model.loaded.weights_bytes * read / whole


def _device_rate(device: str) -> float | None:
    """Bytes that a GPU reads in a second, before a model takes nearly all of its memory. Of what
    was there before nothing is left: a load asks how much is free.
    """
    if device == "cpu":
        return None
    gc.collect()
    torch.cuda.empty_cache()
    rate = _read_rate()
    torch.cuda.empty_cache()
    return rate


def _read_rate() -> float:
    """Of a sum over far more than any cache holds."""
    numbers = torch.ones(READ_BYTES // 4, dtype=torch.float32, device="cuda")
    torch.sum(numbers).item()
    started = time.perf_counter()
    for _ in range(READS):
        total = torch.sum(numbers)
    total.item()
    return READS * READ_BYTES / (time.perf_counter() - started)
