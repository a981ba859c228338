"""The next token of each row from its candidates in one launch, a program a row.

The op of `kernels/token_choice.py`. Nothing is sorted: what lies before a candidate, by rank or by
id, is summed over a square of comparisons.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.token_choice import SMALLEST_TEMPERATURE
from kernels.triton.sampling_candidates import ID_MASK, TOP, WORST, padded

MOST_CANDIDATES = 64
"""Of a row: a square of twice as many would not stay in registers."""
WARPS = 4
COLDEST = tl.constexpr(SMALLEST_TEMPERATURE)


@triton.jit
def id_of(key):
    return key.to(tl.int32) ^ ID_MASK


@triton.jit
def logit_of(key):
    order = (key >> 32).to(tl.int32)
    return (order ^ ((order >> 31) & TOP)).to(tl.float32, bitcast=True).to(tl.float64)


@triton.jit
def choose_tokens_kernel(
    p_packed, p_rules, p_out, packed_step, rules_step, COUNT: tl.constexpr, PADDED: tl.constexpr
):  # fmt: skip
    i_r = tl.program_id(0).to(tl.int64)
    p_rule = p_rules + i_r * rules_step
    temperature = tl.load(p_rule)
    top_k, top_p = tl.load(p_rule + 1), tl.load(p_rule + 2)
    min_p, number = tl.load(p_rule + 3), tl.load(p_rule + 4)
    p_row = p_packed + i_r * packed_step
    rank = tl.arange(0, PADDED)
    m = rank < COUNT
    key = tl.load(p_row + rank, mask=m, other=WORST)
    first = tl.load(p_row)
    is_fit = (tl.load(p_row + COUNT) & 1) == 1
    token, logit = id_of(key), logit_of(key)
    # Of rows that are not fit for use nobody reads what is drawn; it is a number all the same.
    best = tl.where(is_fit, logit_of(first), 0.0)
    gap = tl.where(logit < best, logit - best, 0.0)
    heat = tl.where(temperature > COLDEST, temperature, COLDEST)
    bound = tl.where((top_k >= 1) & (top_k <= COUNT), top_k, COUNT)
    kept = m & (rank < bound)
    weight = tl.where(kept, tl.exp(gap), 0.0)
    mass = tl.sum(tl.where(rank[None, :] < rank[:, None], weight[None, :], 0.0), 1)
    target = tl.where(top_p < 1, top_p * tl.sum(weight, 0), float("inf"))
    share = tl.log(tl.where(min_p > 0, tl.minimum(min_p, 1.0), 1.0))
    least = tl.where(min_p > 0, best + share, float("-inf"))
    kept = (kept & (mass < target) & (logit >= least)) | (rank == 0)
    weight = tl.where(kept, tl.exp(gap / heat), 0.0)
    walked = tl.sum(tl.where(token[None, :] <= token[:, None], weight[None, :], 0.0), 1)
    passed = kept & (walked > number * tl.max(walked, 0))
    last = tl.max(tl.where(kept, token, 0), 0)
    found = tl.minimum(tl.min(tl.where(passed, token, ID_MASK), 0), last)
    found = tl.where(is_fit & (temperature > 0), found, id_of(first))
    tl.store(p_out + i_r, found.to(tl.int64))


def can_run(width: int, dtype: torch.dtype, table: object = None) -> str | None:
    """Why there is no kernel for `width` candidates of a row, and rules of `dtype`; None: there is
    one.
    """
    if dtype != torch.float64:
        return f"rules of {dtype} have no kernel"
    if width <= MOST_CANDIDATES:
        return None
    return f"{width:,} candidates are more than {MOST_CANDIDATES:,}"


def choose_tokens(packed: Tensor, rules: Tensor, out: Tensor | None = None) -> Tensor:
    """As `kernels/token_choice.py`; at most `MOST_CANDIDATES`, each row dense."""
    rows, width = packed.shape
    if out is None:
        out = torch.empty(rows, dtype=torch.int64, device=packed.device)
    if rows == 0:
        return out
    choose_tokens_kernel[(rows,)](
        p_packed=packed,
        p_rules=rules,
        p_out=out,
        packed_step=packed.stride(0),
        rules_step=rules.stride(0),
        COUNT=width - 1,
        PADDED=padded(width - 1),
        num_warps=WARPS,
    )
    return out
