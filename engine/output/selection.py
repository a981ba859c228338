"""Choosing the best of many numbers without sorting them all. Ties go to the lower id.

`ids` ascend in every array that is longer than `SORTED_AT_MOST`; shorter ones may have any order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]

SORTED_AT_MOST = 1024
"""Sorting this many takes less than one pass over a vocabulary."""


def best_place(ids: Ids, values: Values) -> int:
    """Place of the largest value."""
    ties = np.flatnonzero(values == values.max())
    return int(ties[ids[ties].argmin()])


def best_places(ids: Ids, values: Values, k: int) -> Places:
    """Places of the k largest values, best first; the arrays are short."""
    return np.lexsort((ids, -values))[:k]


def mass_places(ids: Ids, keys: Values, weights: Values, target: float) -> Places:
    """Places of the smallest set of largest keys whose weights reach `target`; at least one."""
    if len(ids) <= SORTED_AT_MOST:
        order = np.lexsort((ids, -keys))
        return order[: reached(weights[order].cumsum(), target)]
    cut = _cut_key(keys, weights, target)
    above = np.flatnonzero(keys > cut)
    ties = np.flatnonzero(keys == cut)
    needed = reached(weights[above].sum() + weights[ties].cumsum(), target)
    return np.concatenate([above, ties[:needed]])


def reached(sums: Values, target: float) -> int:
    """How many of the first weights, given as their running sums, reach `target`; at least one."""
    return int(sums.searchsorted(target)) + 1


def _cut_key(keys: Values, weights: Values, target: float) -> float:
    """The key at which the mass of the larger ones reaches `target`: halves the undecided part
    each round.
    """
    mass = 0.0
    pool: Places = np.arange(len(keys))
    while len(pool) > SORTED_AT_MOST:
        half = len(pool) // 2
        parted = pool[np.argpartition(-keys[pool], half)]
        better = float(weights[parted[:half]].sum())
        if mass + better >= target:
            pool = parted[:half]
        else:
            mass, pool = mass + better, parted[half:]
    order = pool[np.argsort(-keys[pool])]
    place = reached(mass + weights[order].cumsum(), target) - 1
    return float(keys[order[min(place, len(order) - 1)]])
