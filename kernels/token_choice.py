"""The next token of each row, drawn from its candidates by a sampler's rules.

The law is the host's own: of the `top_k` best candidates the smallest set of best ones whose
probabilities reach `top_p` of their sum; of these the ones at least `min_p` times as likely as the
best; then a walk over their probabilities at `temperature`, in the order of ids, to where a random
number falls. All in float64, as on the host, which draws the token again and is believed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.sampling_candidates import HIGHEST_ID, LARGEST

RULES = ("temperature", "top_k", "top_p", "min_p", "number")
"""Columns of the rules of a row; `number` is the random one, in [0, 1)."""
SMALLEST_TEMPERATURE = 1e-6
"""Below this the division would overflow; the best candidate is then certain anyway."""


def choose_tokens(packed: Tensor, rules: Tensor, out: Tensor | None = None) -> Tensor:
    """Candidates int64 [R, k + 1] as `sampling_candidates.py` packs them, `RULES` float64 [R, 5] ->
    ids int64 [R]; `out` is filled where it is given.

    A top_k outside of 1..k is k. At a temperature of zero or less, as in a row of zeros, and of
    candidates that are not fit for use, the first one is taken.
    """
    ids, logits, is_fit = _unpacked(packed)
    temperature, top_k, top_p, min_p, number = rules[:, :, None].unbind(1)
    kept = _kept(logits, top_k, top_p, min_p)
    scaled = (logits - logits[:, :1]) / temperature.clamp(min=SMALLEST_TEMPERATURE)
    order = ids.argsort(1)
    walked = torch.where(kept, scaled.exp(), 0.0).gather(1, order).cumsum(1)
    passed = (walked > number * walked[:, -1:]) & kept.gather(1, order)
    last = torch.where(kept, ids, 0).amax(1)
    found = torch.where(passed, ids.gather(1, order), HIGHEST_ID).amin(1).minimum(last)
    is_drawn = is_fit & (temperature[:, 0] > 0)
    chosen = torch.where(is_drawn, found, ids[:, 0])
    return chosen if out is None else out.copy_(chosen)


def _unpacked(packed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Ids int64 [R, k], logits float64 [R, k], whether the row is fit for use [R]."""
    keys = packed[:, :-1]
    order = (keys >> 32).int()
    logits = (order ^ ((order >> 31) & LARGEST)).view(torch.float32).double()
    return HIGHEST_ID - (keys & 0xFFFFFFFF), logits, (packed[:, -1] & 1).bool()


def _kept(logits: Tensor, top_k: Tensor, top_p: Tensor, min_p: Tensor) -> Tensor:
    """Which candidates of each row [R, k] are drawn from: always the best one."""
    rank = torch.arange(logits.shape[1], device=logits.device)
    best, k = logits[:, :1], logits.shape[1]
    kept = rank < torch.where((top_k >= 1) & (top_k <= k), top_k, k)
    weights = torch.where(kept, (logits - best).exp(), 0.0)
    sums = weights.cumsum(1)
    target = torch.where(top_p < 1, top_p * sums[:, -1:], torch.inf)
    least = torch.where(min_p > 0, best + min_p.clamp(max=1).log(), -torch.inf)
    # Of the best candidate the sum of the last: it is kept anyway.
    before = sums.roll(1, 1)
    return (kept & (before < target) & (logits >= least)) | (rank == 0)
