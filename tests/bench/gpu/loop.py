"""Whole answers through the engine: what its own work costs where it waits for each token, and
where the next pass runs meanwhile.
"""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median
from typing import Any

from engine.backends.scripted_vocabulary import ScriptedVocabulary
from engine.backends.torch_paged.backend import TorchPagedBackend
from engine.backends.torch_paged.settings import PagedSettings
from engine.config import EngineConfig
from engine.engine import Engine
from engine.events import Delta, Failed
from engine.request import Limits, Request, Sampling
from models.decoder import Decoder
from tests.bench.gpu.rig import Rig

PROMPT = 64
POOL_BYTES = 2 << 30
SAMPLED = Sampling(seed=1)
"""The default settings."""
PLAIN = EngineConfig(speculate=False)
GREEDY = Sampling(temperature=0.0)


class EndlessVocabulary(ScriptedVocabulary):
    """No token ends an answer, and all have a piece."""

    def __init__(self) -> None:
        super().__init__(think_tokens=False)
        self.end_ids = frozenset()

    def piece(self, token_id: int, /) -> bytes:
        return b"x"


def loop(rig: Rig, decoder: Decoder, tokens: int, sequences: int) -> list[dict[str, Any]]:
    """Answers of so many tokens, `sequences` together, tokens a second of all of them."""
    backend = _backend(rig, decoder, sequences)
    waits = replace(backend.facts, max_choice=0)
    found = []
    for name, sampling in (("greedy", GREEDY), ("sampled", SAMPLED)):
        speeds: dict[str, list[float]] = {"ahead": [], "waiting": []}
        for _ in range(max(rig.rounds // 4, 1)):
            for kind, facts in (("ahead", backend.facts), ("waiting", waits)):
                engine = Engine(_With(backend, facts), EndlessVocabulary(), PLAIN)
                speeds[kind].append(_tokens_per_s(engine, sampling, tokens, sequences))
        ahead, waiting = median(speeds["ahead"]), median(speeds["waiting"])
        found.append(
            {
                "sampling": name,
                "sequences": sequences,
                "ahead_tokens_per_s": ahead,
                "waiting_tokens_per_s": waiting,
                "ratio": ahead / waiting,
            }
        )
    return found


class _With:
    """A backend that tells other facts."""

    def __init__(self, backend: TorchPagedBackend, facts: Any) -> None:
        self._backend = backend
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


def _backend(rig: Rig, decoder: Decoder, sequences: int) -> TorchPagedBackend:
    settings = PagedSettings(
        ctx=1024,
        pool_bytes=POOL_BYTES,
        vocab_size=decoder.config.vocab_size,
        device=rig.device.type,
        dtype="bfloat16",
        max_sequences=sequences + 1,
        records=True,
    )
    backend = TorchPagedBackend(decoder, decoder.config, settings)
    backend.warm_up(lambda done, total: True)
    return backend


def _tokens_per_s(engine: Engine, sampling: Sampling, tokens: int, sequences: int) -> float:
    """From the step in which all of them decode."""
    limits = Limits(max_tokens=tokens)
    for number in range(sequences):
        ids = tuple((number + place) % 200 for place in range(PROMPT))
        engine.submit(Request(f"{number}", ids, sampling, limits, keep=False))
    for _ in range(4 * sequences):
        engine.step()
    started, written = time.perf_counter(), 0
    while engine.busy:
        events = engine.step()
        if any(isinstance(event, Failed) for event in events):
            raise RuntimeError(str(events))
        written += sum(isinstance(event, Delta) for event in events)
    return written / (time.perf_counter() - started)
