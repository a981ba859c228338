"""How the columns of a projection are shared out among programs, and how their sums are joined.

Shares depend on the matrix alone, and the last program that arrives adds them up in their order: a
result depends neither on the other rows nor on which program was faster.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import triton
import triton.language as tl

PROGRAMS = 512
"""Four on each of some 130 processors: what the registers of one let in."""
MOST_SHARES = 16
LEAST_STEPS = 4
"""Of a share: the pipeline of loads has to start in each."""


def shares_for(tiles: int, steps: int) -> int:
    """A power of two."""
    shares = 1
    while 2 * shares * tiles <= PROGRAMS and 2 * shares <= MOST_SHARES:
        if steps < 2 * shares * LEAST_STEPS:
            break
        shares *= 2
    return shares


@triton.jit
def steps_of_share(i_share, steps, SHARES: tl.constexpr):
    """First step and the one behind the last."""
    each = (steps + SHARES - 1) // SHARES
    first = i_share * each
    return first, tl.minimum(first + each, steps)


@triton.jit
def keep_share(p_room, sums, tokens, BN: tl.constexpr, ROWS: tl.constexpr):
    """sums [BN, ROWS] to the program's place [ROWS, BN]."""
    t = tl.arange(0, ROWS)
    p = p_room + t[None, :] * BN + tl.arange(0, BN)[:, None]
    tl.store(p, sums, mask=(t < tokens)[None, :])


@triton.jit
def keep_squares(p_room, squares, tokens, ROWS: tl.constexpr):
    t = tl.arange(0, ROWS)
    tl.store(p_room + t, squares, mask=t < tokens)


@triton.jit
def is_last(p_arrived, SHARES: tl.constexpr):
    """Whether all other programs of this tile have kept their sums; makes ready for the next."""
    tl.debug_barrier()
    arrived = tl.atomic_add(p_arrived, 1, sem="acq_rel")
    tl.debug_barrier()
    last = arrived == SHARES - 1
    if last:
        tl.store(p_arrived, 0)
    return last


@triton.jit
def joined(p_room, step, tokens, SHARES: tl.constexpr, BN: tl.constexpr, ROWS: tl.constexpr):
    """Sums [BN, ROWS] over all shares, whose places are `step` apart."""
    t = tl.arange(0, ROWS)
    p = p_room + t[None, :] * BN + tl.arange(0, BN)[:, None]
    m = (t < tokens)[None, :]
    sums = tl.zeros((BN, ROWS), tl.float32)
    for i in tl.static_range(SHARES):
        # Past the first cache: other processors have written it.
        sums += tl.load(p + i * step, mask=m, other=0.0, cache_modifier=".cg")
    return sums


@triton.jit
def joined_squares(p_room, step, tokens, SHARES: tl.constexpr, ROWS: tl.constexpr):
    t = tl.arange(0, ROWS)
    sums = tl.zeros((ROWS,), tl.float32)
    for i in tl.static_range(SHARES):
        sums += tl.load(p_room + i * step + t, mask=t < tokens, other=0.0, cache_modifier=".cg")
    return sums
