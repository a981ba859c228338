"""The Hadamard rotation of `kernels/hadamard.py` inside a kernel."""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def rotated(x, ROWS: tl.constexpr, WIDTH: tl.constexpr, SIZE: tl.constexpr):
    """x float32 [ROWS, WIDTH], zero beyond SIZE dims; WIDTH is a power of two.

    Each pass adds and subtracts neighbours and puts the halves one behind the other: after as many
    passes as the size has bits, every number stands at its own place again.
    """
    P: tl.constexpr = SIZE & -SIZE
    FACTOR: tl.constexpr = 1.0 / P**0.5
    M: tl.constexpr = ROWS * WIDTH // P
    y = tl.reshape(x, (M, P))
    for bit in tl.static_range(16):
        if (1 << bit) < P:
            first, second = tl.split(tl.reshape(y, (M, P // 2, 2)))
            both = tl.join(first + second, first - second)
            y = tl.reshape(tl.permute(both, (0, 2, 1)), (M, P))
    return tl.reshape(y, (ROWS, WIDTH)) * FACTOR
