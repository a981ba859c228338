"""The best tokens of each row of logits, packed so that a few KiB tell the host all that most
settings of a sampler ask for.

A candidate is one int64: its logit's bits, made to order like integers, above the inverted id, so
that a larger number is a better token and of equal logits the lower id comes first. A row is `k` of
them, best first, and a last number with log(sum(exp(logits))) in its upper half and in its lower
one whether the row is fit for use: no NaN, no +inf, and something finite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

HIGHEST_ID = 0x7FFFFFFF
"""Ids fit into 31 bits; stored as their distance from it."""
LARGEST = 0x7FFFFFFF
"""Where a NaN is ordered: before all numbers."""


@dataclass(frozen=True, slots=True)
class HostCandidates:
    """Rows on the host."""

    ids: npt.NDArray[np.int64]
    """[R, k]"""
    logits: npt.NDArray[np.float32]
    """[R, k]"""
    log_sum_exp: npt.NDArray[np.float32]
    """[R]"""
    finite: npt.NDArray[np.bool_]
    """[R]"""


def best_candidates(
    logits: Tensor, vocab_size: int, k: int, scratch: object = None, out: Tensor | None = None
) -> Tensor:
    """float32 [R, V], of which the first `vocab_size` count -> int64 [R, k + 1] as above.

    `k` is at most `vocab_size`; `out` is filled where it is given.
    """
    known = logits[:, :vocab_size]
    bits = torch.where(known == 0, 0.0, known).view(torch.int32)
    order = torch.where(known.isnan(), LARGEST, bits ^ ((bits >> 31) & LARGEST))
    ids = torch.arange(vocab_size, device=logits.device)
    best = ((order.long() << 32) | (HIGHEST_ID - ids)).topk(k).values
    highest = known.amax(1)
    sums = known.logsumexp(1).view(torch.int32).long() << 32
    last = sums | highest.isfinite().long()
    found = torch.cat([best, last[:, None]], 1)
    return found if out is None else out.copy_(found)


def unpacked(packed: npt.NDArray[np.int64]) -> HostCandidates:
    """Of rows that were brought to the host."""
    keys, last = packed[:, :-1], packed[:, -1]
    order = (keys >> 32).astype(np.int32)
    bits = order ^ ((order >> 31) & LARGEST)
    return HostCandidates(
        ids=HIGHEST_ID - (keys & 0xFFFFFFFF),
        logits=bits.view(np.float32),
        log_sum_exp=(last >> 32).astype(np.int32).view(np.float32),
        finite=(last & 1).astype(np.bool_),
    )
