"""Rows of candidates with rules of a sampler, and the token that is right for each.

The oracle walks over lists in Python's own numbers, as the rules are written down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.sampling_candidates import HostCandidates, best_candidates, unpacked
from tests.kernels.candidate_rows import KINDS, row_of

TEMPERATURES = (0.0, 1e-9, 0.05, 0.7, 1.0, 8.0, 1e6)
TOP_K = (1, 2, 5, 40, 0, 10_000)
TOP_P = (0.0, 0.1, 0.5, 0.95, 1.0)
MIN_P = (0.0, 0.02, 0.3, 1.0)
LAST_NUMBER = 1 - 2.0**-53


@dataclass(frozen=True, slots=True)
class Case:
    """Of rows: packed candidates int64 [R, k + 1], rules float64 [R, 5], ids int64 [R]."""

    packed: Tensor
    rules: Tensor
    wanted: Tensor


def drawn(seed: int, rows: int, size: int, k: int) -> Case:
    """Rows of every kind, each with rules of its own; the last of them is a row of zeros."""
    made = torch.Generator().manual_seed(seed)
    kinds = [KINDS[_any(made, len(KINDS))] for _ in range(rows)]
    logits = torch.stack([row_of(kind, size, seed + at) for at, kind in enumerate(kinds)])
    packed = best_candidates(logits, size, k)
    rules = torch.stack([_rule(made) for _ in range(rows)])
    rules[-1] = 0
    return Case(packed, rules, wanted(packed, rules))


def equals() -> Case:
    """Sums without rounding: walks that end right at a border, and by the last number there is."""
    logits = torch.full((6, 8), -1.0)
    logits[:, 1::2] = 2.0
    settings = [(0.0, 1), (0.25, 3), (0.5, 5), (0.75, 7), (LAST_NUMBER, 7)]
    rules = [(0.7, 4, 1.0, 0.0, number) for number, _ in settings]
    # Half of the mass is two of four.
    rules.append((1.0, 4, 0.5, 1.0, LAST_NUMBER))
    ids = [token for _, token in settings]
    packed = best_candidates(logits, 8, 8)
    return Case(packed, torch.tensor(rules, dtype=torch.float64), torch.tensor([*ids, 3]))


def wanted(packed: Tensor, rules: Tensor) -> Tensor:
    found = unpacked(packed.numpy())
    return torch.tensor([right(found, at, *rule) for at, rule in enumerate(rules.tolist())])


def right(
    rows: HostCandidates, at: int, temperature: float, top_k: float, top_p: float, min_p: float,
    number: float,
) -> int:  # fmt: skip
    """The token of row `at`."""
    logits = dict(zip(rows.ids[at].tolist(), rows.logits[at].tolist(), strict=True))
    best = int(rows.ids[at, 0])
    if not rows.finite[at] or temperature <= 0:
        return best
    kept = list(logits)[: int(top_k) or None]
    share = {token: math.exp(logits[token] - logits[best]) for token in kept}
    if top_p < 1:
        kept = _nucleus(share, top_p * sum(share.values()))
    if min_p > 0:
        kept = [token for token in kept if logits[token] - logits[best] >= math.log(min_p)]
    heat = max(temperature, 1e-6)
    weights = {token: math.exp((logits[token] - logits[best]) / heat) for token in sorted(kept)}
    left = number * sum(weights.values())
    for token, weight in weights.items():
        if left < weight:
            return token
        left -= weight
    return max(kept)


def _nucleus(share: dict[int, float], target: float) -> list[int]:
    kept, mass = [], 0.0
    for token, weight in share.items():
        kept.append(token)
        mass += weight
        if mass >= target:
            break
    return kept


def _rule(made: torch.Generator) -> Tensor:
    columns = TEMPERATURES, TOP_K, TOP_P, MIN_P
    rule = [float(values[_any(made, len(values))]) for values in columns]
    number = float(torch.rand((), generator=made, dtype=torch.float64))
    return torch.tensor([*rule, number if _any(made, 8) else 0.0], dtype=torch.float64)


def _any(made: torch.Generator, count: int) -> int:
    return int(torch.randint(count, (), generator=made))
