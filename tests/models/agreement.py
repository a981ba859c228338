"""How far two sets of logits are apart."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Agreement:
    top1: float
    """Share of rows with the same best token."""
    kld: float
    """Mean Kullback-Leibler divergence of the found distribution from the expected one, in nats."""
    error: float
    """Largest difference in parts of the largest value; NaN counts as infinite."""


def agreement(found: Tensor, expected: Tensor) -> Agreement:
    """Of float32 [rows, vocabulary] each; row by row in float64, as a whole copy would be large."""
    same, kld = 0, 0.0
    for one, other in zip(found, expected, strict=True):
        ours, theirs = one.double().log_softmax(-1), other.double().log_softmax(-1)
        kld += float((theirs.exp() * (theirs - ours)).sum())
        same += int(one.argmax() == other.argmax())
    error = float((found - expected).abs().max() / expected.abs().max())
    rows = len(found)
    return Agreement(same / rows, kld / rows, error if error == error else float("inf"))
