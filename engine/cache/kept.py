"""A finished sequence whose KV is still held, live or parked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.backends.base import Parked
from engine.cache.residency import State

IdArray = npt.NDArray[np.int32]


@dataclass(slots=True, eq=False)
class KeptSequence:
    owner: str
    conversation: str
    fingerprint: str
    ids: IdArray
    """The forwarded tokens: as many as `state.length`."""
    state: State
    used: int = 0
    """Larger is later."""

    def common_prefix(self, ids: IdArray) -> int:
        """Number of equal tokens from the start."""
        length = min(len(self.ids), len(ids))
        differs = np.flatnonzero(self.ids[:length] != ids[:length])
        return int(differs[0]) if len(differs) else length

    def usable(self, wanted: int) -> int:
        """The longest length of at most `wanted` that this state can be cut to, as far as is
        known.
        """
        wanted = min(wanted, self.state.length)
        parked = self.state.parked
        if parked is None or parked.positions is None or wanted == parked.length:
            return wanted
        return max((place for place in parked.positions if place <= wanted), default=0)


@dataclass(frozen=True, slots=True)
class KeptState:
    """A parked state with its tokens, as it is written to disk."""

    ids: tuple[int, ...]
    parked: Parked
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Match:
    """How much of a prompt a kept sequence saves."""

    kept: KeptSequence
    common: int
    """Tokens that are equal."""
    usable: int
    """Tokens that need not be computed."""
    in_use: bool = False
    """It is the state of a running request, which can only be copied."""

    @property
    def extends(self) -> bool:
        """Whether the prompt goes on where the kept sequence ends."""
        return self.common == len(self.kept.ids)
