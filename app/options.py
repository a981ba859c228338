"""Settings in the engine's words: how to load, how to sample.

It checks nothing: settings are checked where they enter.
"""

from __future__ import annotations

from app.paths import Paths
from app.settings import OPTION_KEYS, Settings, apply_options
from engine.messages import LoadOptions, SamplingOverrides

__all__ = ["OPTION_KEYS", "apply_options", "load_options", "sampling_overrides"]


def load_options(settings: Settings, paths: Paths) -> LoadOptions:
    """How to load a model."""
    engine, cache = settings.engine, settings.cache
    return LoadOptions(
        kv_type=engine.kv_type,
        ctx=engine.ctx,
        threads=engine.threads,
        flash=engine.flash,
        speculate=engine.speculate,
        kernels=engine.kernels,
        weights=engine.weights,
        cache_bytes=cache.bytes,
        canonical=cache.canonical,
        self_tune=engine.self_tune,
        step_ms_streaming=engine.step_ms_streaming,
        step_ms=engine.step_ms,
        cache_folder=str(paths.cache),
        saved_states_bytes=cache.saved_bytes,
        backend=engine.backend,
        converted_folder=str(paths.converted_models),
        ignore_memory=engine.ignore_memory,
    )


def sampling_overrides(settings: Settings) -> SamplingOverrides:
    """The sampling values that a person set; the others stay None."""
    chosen = settings.sampling
    return SamplingOverrides(
        temperature=chosen.temperature,
        top_k=chosen.top_k,
        top_p=chosen.top_p,
        min_p=chosen.min_p,
        typical_p=chosen.typical_p,
        repeat_penalty=chosen.repeat_penalty,
        repeat_last_n=chosen.repeat_last_n,
        frequency_penalty=chosen.frequency_penalty,
        presence_penalty=chosen.presence_penalty,
        seed=chosen.seed,
    )
