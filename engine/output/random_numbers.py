"""Random number n of a seed, at constant cost and without state (SplitMix64 on a mixed seed).

Neither batch mates nor the order of calls can change what a request draws.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


def uniform(seed: int, n: int) -> float:
    """A number in [0, 1) with 53 random bits."""
    return (_mix(_mix(seed & _MASK) + (n + 1) * _GAMMA) >> 11) * 2.0**-53


def _mix(value: int) -> int:
    value = (value + _GAMMA) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
