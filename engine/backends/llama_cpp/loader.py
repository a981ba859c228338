"""Loads a GGUF file into llama.cpp. Trusts that the header was checked before; knows no context
settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from llama_cpp import llama_cpp

from engine.backends.llama_cpp import native_log
from engine.backends.llama_cpp.context import Context, ContextShape
from engine.backends.llama_cpp.model import LoadedModel
from engine.backends.llama_cpp.settings import BackendOptions
from engine.errors import ModelFileError, UnsupportedModel
from models.sizes import show_name

Progress = Callable[[int, int], bool]
"""(done bytes, total bytes) -> whether to go on."""


class LoadCancelled(Exception):
    """The progress callback asked to stop; nothing stays loaded."""


def load_model(path: Path, options: BackendOptions, progress: Progress) -> LoadedModel:
    """Load the weights and check that they compute finite numbers.

    Raises LoadCancelled, ModelFileError (the library refused the file), UnsupportedModel (an
    encoder).
    """
    native_log.install()
    total = options.total_bytes or path.stat().st_size
    with native_log.error_lines() as lines:
        handle = _load(path, options, progress, total)
        if not handle:
            raise ModelFileError(
                f"llama.cpp could not load {show_name(path)}.",
                " ".join(lines[-2:]) or "It gave no reason.",
                "Check the file with `localchat models check`, or download it again.",
            )
    model = LoadedModel(handle, path)
    try:
        _check(model)
    except BaseException:
        model.close()
        raise
    return model


def _load(path: Path, options: BackendOptions, progress: Progress, total: int) -> Any:
    """The native handle, or None where the library refused; raises LoadCancelled."""
    raised: list[BaseException] = []

    def report(fraction: float, _user_data: object) -> bool:
        if raised:
            return False
        try:
            if not progress(min(total, int(fraction * total)), total):
                raise LoadCancelled
        except BaseException as error:  # an exception must not cross the C frames
            raised.append(error)
        return not raised

    params = llama_cpp.llama_model_default_params()
    callback = llama_cpp.llama_progress_callback(report)
    params.progress_callback = callback
    if not options.mmap:
        params.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE
    handle = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
    if raised:
        if handle:
            llama_cpp.llama_model_free(handle)
        raise raised[0]
    return handle


def _check(model: LoadedModel) -> None:
    if llama_cpp.llama_model_has_encoder(model.handle) or not llama_cpp.llama_model_has_decoder(
        model.handle
    ):
        raise UnsupportedModel(
            f"{show_name(model.path)} is not a model that writes text.",
            "It has an encoder; only decoder models can chat.",
            "Choose another model.",
        )
    if not _computes_finite_numbers(model):
        raise ModelFileError(
            f"{show_name(model.path)} computes no usable numbers.",
            "A test with two tokens gave values that are not finite: the weights are damaged.",
            "Download the file again.",
        )


def _computes_finite_numbers(model: LoadedModel) -> bool:
    shape = ContextShape(n_ctx=256, n_sequences=1, n_batch=32, n_ubatch=32)
    context = Context(model, shape)
    try:
        context.batch.clear()
        ids = (max(model.bos_id, 0), 1 % model.vocab_size)
        context.batch.add(0, 0, ids, wants_scores=True)
        return context.decode() == 0 and bool(np.isfinite(context.logits(1)).all())
    finally:
        context.close()
