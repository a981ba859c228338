"""Whether a model bears 4-bit keys and values: its predictions with them against those with
unquantized ones.

Small models often do not: the perplexity of a 0.6B model has been seen to grow from 13 to 47.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.backends.base import Row
from engine.backends.torch_paged.batch import model_input
from engine.backends.torch_paged.held import Held, Run, Span
from engine.backends.torch_paged.settings import BLOCK_TOKENS
from engine.errors import UsageError
from models.config import ModelConfig
from models.decoder import Decoder
from models.kv_groups import kv_groups, kv_layouts
from models.kv_storage import make_pools

MAX_DIVERGENCE = 0.02
MIN_TOP1 = 0.95
_PIECE = 64
# Predictions after fewer tokens hardly read the cache.
_FROM = 64


@dataclass(frozen=True, slots=True)
class Divergence:
    mean: float
    """Mean Kullback-Leibler divergence in nats of the tested format from the reference."""
    top1: float
    """Share of the positions whose likeliest token is the same."""

    @property
    def passes(self) -> bool:
        return self.mean <= MAX_DIVERGENCE and self.top1 >= MIN_TOP1


def require_q4(
    decoder: Decoder, config: ModelConfig, plain: str, ids: Sequence[int], device: torch.device
) -> None:
    """Raises UsageError with the figures where 4 bits change the model's predictions too much.

    `plain`: the unquantized format; `ids`: those of `self_test_text.TEXT`.
    """
    result = measure_divergence(decoder, config, ["q4"], plain, ids, device)["q4"]
    if result.passes:
        return
    raise UsageError(
        "kv_type q4 changes this model's answers too much.",
        f"On a test text of {len(ids)} tokens its predictions diverge by {result.mean:.3f} nats "
        f"from {plain} (allowed: {MAX_DIVERGENCE}), and the likeliest token is the same in "
        f"{100 * result.top1:.1f} % (needed: {100 * MIN_TOP1:.0f} %).",
        "Use kv_type k8v4.",
    )


def measure_divergence(
    decoder: Decoder,
    config: ModelConfig,
    tested: Sequence[str],
    reference: str,
    ids: Sequence[int],
    device: torch.device,
) -> dict[str, Divergence]:
    """Storage formats against another one over the same tokens, more than 65 of them."""
    if len(ids) <= _FROM + 1:
        raise ValueError(f"{len(ids)} ids are too few to measure a KV format")
    theirs = _Reading(decoder, config, reference, ids, device)
    ours = {name: _Reading(decoder, config, name, ids, device) for name in tested}
    found: dict[str, list[Tensor]] = {name: [] for name in tested}
    for start in range(0, len(ids), _PIECE):
        right = theirs.predictions(start)
        for name, reading in ours.items():
            compared = _compare(reading.predictions(start), right)
            if start >= _FROM:
                found[name].append(compared.cpu())
    means = {name: torch.cat(pieces).mean(0).tolist() for name, pieces in found.items()}
    return {name: Divergence(*mean) for name, mean in means.items()}


def _compare(tested: Tensor, reference: Tensor) -> Tensor:
    """Divergence, and 1 where the likeliest token is the same, of each position: [T, 2]."""
    divergence = (reference.exp() * (reference - tested)).sum(-1)
    same = reference.argmax(-1) == tested.argmax(-1)
    return torch.stack([divergence, same.to(divergence.dtype)], 1)


class _Reading:
    """One sequence in pools of its own, read piece by piece."""

    def __init__(
        self,
        decoder: Decoder,
        config: ModelConfig,
        kv: str,
        ids: Sequence[int],
        device: torch.device,
    ) -> None:
        self._decoder, self._ids, self._device = decoder, ids, device
        self._spans = [Span(group.window, BLOCK_TOKENS) for group in kv_groups(config)]
        count = -(-len(ids) // BLOCK_TOKENS)
        counts = [count + 1] * len(self._spans)
        self._pools = make_pools(kv_layouts(config, kv, BLOCK_TOKENS), counts, device)
        self._runs = tuple(Run(0, list(range(1, count + 1))) for _ in self._spans)

    def predictions(self, start: int) -> Tensor:
        """Logarithms of the probabilities after each id of the piece that begins there, float64."""
        piece = tuple(self._ids[start : start + _PIECE])
        row = Row(0, start, piece, wants_scores=True, wants_all=True)
        held = Held(start, self._runs)
        given = model_input([row], [held], self._spans, self._device)
        return self._decoder.forward(given, self._pools).double().log_softmax(-1)
