"""How far two texts agree, by halving, so that C compares."""

from __future__ import annotations


def common_prefix(first: str | bytes, second: str | bytes) -> int:
    """Length of the longest common beginning."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_suffix(first: str, second: str) -> int:
    """Length of the longest common ending."""
    longest = min(len(first), len(second))
    return common_prefix(first[len(first) - longest :][::-1], second[len(second) - longest :][::-1])
