"""The best tokens of each row of logits in two launches: of pieces of the row, then of the row.

The op of `kernels/sampling_candidates.py`, whose packing it shares: candidates are sorted as single
integers, so that ids need no place of their own in the sort.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.sampling_candidates import HIGHEST_ID, LARGEST

PIECE = 4096
"""Logits of a program: a sort of 8 numbers of 64 bits a thread."""
MOST_SORTED = 8192
"""Numbers that the second launch sorts at once."""
WARPS = 16
WORST = tl.constexpr(-(2**63))
ID_MASK = tl.constexpr(HIGHEST_ID)
TOP = tl.constexpr(LARGEST)


@dataclass(frozen=True, slots=True)
class Scratch:
    """Between the launches: int64 [R, pieces, k], and the largest logit and the sum of exponentials
    of each piece, float32 [R, pieces, 2].
    """

    best: Tensor
    sums: Tensor


def scratch_for(rows: int, vocab_size: int, k: int, device: torch.device) -> Scratch:
    """May be used again by later calls that need no more."""
    pieces = triton.cdiv(vocab_size, PIECE)
    best = torch.empty(rows, pieces, padded(k), dtype=torch.int64, device=device)
    return Scratch(best, torch.empty(rows, pieces, 2, dtype=torch.float32, device=device))


def padded(k: int) -> int:
    """Sorts work on powers of two."""
    return int(triton.next_power_of_2(k))


@triton.jit(do_not_specialize=["vocab_size"])
def best_of_piece_kernel(
    p_logits, p_best, p_sums, row_step, vocab_size,
    K: tl.constexpr, PIECE: tl.constexpr,
):  # fmt: skip
    i_piece, i_r = tl.program_id(0), tl.program_id(1).to(tl.int64)
    pieces = tl.num_programs(0)
    token = i_piece * PIECE + tl.arange(0, PIECE)
    m = token < vocab_size
    x = tl.load(p_logits + i_r * row_step + token, mask=m, other=float("-inf"))
    is_nan = x != x
    bits = tl.where(x == 0, 0.0, x).to(tl.int32, bitcast=True)
    order = tl.where(is_nan, TOP, bits ^ ((bits >> 31) & TOP))
    key = order.to(tl.int64) * 4294967296 + (token ^ ID_MASK).to(tl.int64)
    best = tl.topk(tl.where(m, key, WORST), K)
    at = i_r * pieces + i_piece
    tl.store(p_best + at * K + tl.arange(0, K), best)
    highest = tl.max(tl.where(is_nan, float("inf"), x), 0)
    # Of a piece without a finite logit the sum means nothing, and is not NaN.
    level = tl.where((highest == float("inf")) | (highest == float("-inf")), 0.0, highest)
    total = tl.sum(tl.where(is_nan | (x == float("inf")), 0.0, tl.exp(x - level)), 0)
    tl.store(p_sums + at * 2, highest)
    tl.store(p_sums + at * 2 + 1, total)


@triton.jit(do_not_specialize=["pieces"])
def best_of_row_kernel(
    p_best, p_sums, p_out, pieces,
    K: tl.constexpr, WANTED: tl.constexpr, COUNT: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    i_r = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, COUNT)
    key = tl.load(p_best + i_r * pieces * K + i, mask=i < pieces * K, other=WORST)
    best = tl.topk(key, K)
    rank = tl.arange(0, K)
    p_row = p_out + i_r * (WANTED + 1)
    tl.store(p_row + rank, best, mask=rank < WANTED)
    i_piece = tl.arange(0, PIECES)
    m = i_piece < pieces
    p_piece = p_sums + (i_r * pieces + i_piece) * 2
    highest = tl.load(p_piece, mask=m, other=float("-inf"))
    total = tl.load(p_piece + 1, mask=m, other=0.0)
    peak = tl.max(highest, 0)
    is_fit = (peak < float("inf")) & (peak > float("-inf"))
    level = tl.where(is_fit, peak, 0.0)
    # Pieces of -inf alone add nothing; of a row that is not fit for use nobody reads the sum.
    share = tl.where(highest > float("-inf"), tl.exp(tl.minimum(highest - level, 0.0)), 0.0)
    found = level + tl.log(tl.where(is_fit, tl.sum(total * share, 0), 1.0))
    sum_bits = found.to(tl.int32, bitcast=True).to(tl.int64) << 32
    tl.store(p_row + WANTED, sum_bits | is_fit.to(tl.int64))


def can_run(width: int, dtype: torch.dtype, table: object = None) -> str | None:
    """Why there is no kernel for a vocabulary of `width`; None: there is one."""
    if dtype != torch.float32:
        return f"logits of {dtype} have no kernel"
    most = MOST_SORTED * PIECE
    return None if width <= most else f"{width:,} tokens are more than {most:,}"


def most_candidates(vocab_size: int) -> int:
    """How many candidates can be asked for: a power of two."""
    pieces = triton.next_power_of_2(triton.cdiv(vocab_size, PIECE))
    return int(min(MOST_SORTED // pieces, PIECE))


def best_candidates(
    logits: Tensor, vocab_size: int, k: int, scratch: Scratch | None = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """As `kernels/sampling_candidates.py`; at most `most_candidates(vocab_size)`."""
    rows = logits.shape[0]
    if out is None:
        out = torch.empty(rows, k + 1, dtype=torch.int64, device=logits.device)
    if rows == 0:
        return out
    scratch = scratch or scratch_for(rows, vocab_size, k, logits.device)
    pieces = triton.cdiv(vocab_size, PIECE)
    best_of_piece_kernel[(pieces, rows)](
        p_logits=logits,
        p_best=scratch.best,
        p_sums=scratch.sums,
        row_step=logits.stride(0),
        vocab_size=vocab_size,
        K=padded(k),
        PIECE=PIECE,
        num_warps=WARPS,
    )
    best_of_row_kernel[(rows,)](
        p_best=scratch.best,
        p_sums=scratch.sums,
        p_out=out,
        pieces=pieces,
        K=padded(k),
        WANTED=k,
        COUNT=triton.next_power_of_2(pieces * padded(k)),
        PIECES=triton.next_power_of_2(pieces),
        num_warps=WARPS,
    )
    return out
