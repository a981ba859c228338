"""Whether a model bears 4-bit keys and values: its predictions with them against those with 16
bits.

Small models often do not: the perplexity of a 0.6B model has been seen to grow from 13 to 47.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from llama_cpp import llama_cpp

from engine.backends.llama_cpp.context import Context, ContextRefused, ContextShape
from engine.backends.llama_cpp.kv_types import F16, KV_TYPES, KVType
from engine.backends.llama_cpp.model import LoadedModel
from engine.backends.llama_cpp.threads import default_threads
from engine.backends.self_test_text import FIRST_PARAGRAPH
from engine.errors import UsageError

# k8v4, which is offered without a test, measures 0.005; 4 bits on a 135M model 0.028, on a 270M
# model 0.08.
MAX_DIVERGENCE = 0.015
MAX_PERPLEXITY_RATIO = 1.02
_TOKENS = 256
_PIECE = 32
# Predictions after fewer tokens hardly read the cache.
_FROM = 64


@dataclass(frozen=True, slots=True)
class Divergence:
    mean: float
    """Mean Kullback-Leibler divergence in nats of the tested type from f16."""
    perplexity_ratio: float
    """Perplexity with the tested type over that with f16, on the same text."""

    @property
    def passes(self) -> bool:
        return self.mean <= MAX_DIVERGENCE and self.perplexity_ratio <= MAX_PERPLEXITY_RATIO


def require_q4(model: LoadedModel) -> None:
    """Raises UsageError with the numbers where 4 bits change the model's predictions too much."""
    result = measure_divergence(model, KV_TYPES["q4"])
    if result is None or result.passes:
        return
    raise UsageError(
        "kv_type q4 changes this model's answers too much.",
        f"On a test text its predictions diverge by {result.mean:.3f} nats from f16 (allowed: "
        f"{MAX_DIVERGENCE}), and its perplexity is {100 * (result.perplexity_ratio - 1):+.1f} % "
        f"(allowed: {100 * (MAX_PERPLEXITY_RATIO - 1):+.0f} %).",
        "Use kv_type k8v4.",
    )


def measure_divergence(model: LoadedModel, kv: KVType) -> Divergence | None:
    """`kv` against f16 over a fixed text, flash attention on for both; None if the model refuses
    one.
    """
    try:
        tested, reference = _open(model, kv), _open(model, F16)
    except ContextRefused:
        return None
    try:
        return _compare(tested, reference, tokenize(model, FIRST_PARAGRAPH)[:_TOKENS])
    finally:
        tested.close()
        reference.close()


def tokenize(model: LoadedModel, text: str) -> list[int]:
    """Ids of a text of ours, without control tokens but the one that begins it."""
    vocab = llama_cpp.llama_model_get_vocab(model.handle)
    data = text.encode()
    ids = (ctypes.c_int32 * (len(data) + 2))()
    count = llama_cpp.llama_tokenize(vocab, data, len(data), ids, len(ids), True, False)
    return list(ids[: max(0, count)])


def _open(model: LoadedModel, kv: KVType) -> Context:
    shape = ContextShape(
        512, 1, _PIECE, _PIECE, kv.type_k, kv.type_v, True, default_threads(), outputs=_PIECE
    )
    return Context(model, shape)


def _compare(tested: Context, reference: Context, ids: list[int]) -> Divergence:
    divergences: list[npt.NDArray[np.float64]] = []
    losses: list[npt.NDArray[np.float64]] = []
    for start in range(0, len(ids) - 1, _PIECE):
        piece = ids[start : start + _PIECE]
        ours, theirs = _log_softmax(tested, start, piece), _log_softmax(reference, start, piece)
        if start >= _FROM:
            divergences.append((np.exp(theirs) * (theirs - ours)).sum(axis=1))
            followers = ids[start + 1 : start + 1 + len(piece)]
            rows = np.arange(len(followers))
            losses.append(theirs[rows, followers] - ours[rows, followers])
    if not losses:
        return Divergence(0.0, 1.0)
    mean_loss = float(np.concatenate(losses).mean())
    return Divergence(float(np.concatenate(divergences).mean()), float(np.exp(mean_loss)))


def _log_softmax(context: Context, start: int, ids: list[int]) -> npt.NDArray[np.float64]:
    context.batch.clear()
    context.batch.add(0, start, ids, wants_scores=True)
    context.batch.want_all()
    if context.decode() != 0:
        raise ContextRefused
    logits = np.stack([context.logits(index) for index in range(len(ids))]).astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return logits
