"""A conversation of thousands of tokens without reading them all: one stretch, copied and moved.

The copies' keys are rotated to their new places, so that the cells are as those of a real
conversation and steps take as long. Models that cannot move cells are read for real.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from engine.backends.base import Parked, Row
from engine.backends.llama_cpp.backend import LlamaCppBackend
from engine.backends.llama_cpp.states import new_envelope
from engine.bench.bare import BareLoop

STRETCH = 512

# Where a parked state says which settings it belongs to; see engine/backends/llama_cpp/states.py.
_SIGNATURE = struct.Struct("<8x16s")


def synthetic_state(loop: BareLoop, ids: Sequence[int], length: int) -> bytes:
    """The state of `length` tokens, in a loop with one sequence for each STRETCH of them."""
    loop.clear()
    loop.read(ids[:STRETCH])
    stretch = loop.save()
    copies = length // STRETCH
    for copy in range(1, copies):
        loop.load(stretch, STRETCH, sequence=copy)
        loop.shift(copy, STRETCH * copy)
    for copy in range(1, copies):
        loop.join(copy, 0)
    # The next decode moves the cells; its own token goes again.
    loop.forward(ids[:1], length, last=True)
    loop.cut(length)
    return loop.save()


def read_state(loop: BareLoop, ids: Sequence[int], length: int) -> bytes:
    """The state of `length` tokens, every one computed."""
    loop.clear()
    loop.read(ids[:length])
    return loop.save()


def parked_state(backend: LlamaCppBackend, state: bytes, length: int) -> Parked:
    """A bare loop's state in the form that the backend restores."""
    data, offset = new_envelope(_signature(backend), length, len(state), {})
    whole = data[:offset] + state
    positions = None if backend.positions(0) is None else (length,)
    return Parked(whole, length, positions)


def _signature(backend: LlamaCppBackend) -> bytes:
    """As a state that the backend itself parks carries it."""
    backend.forward([Row(0, 0, (1, 1), False)])
    signature: bytes = _SIGNATURE.unpack_from(backend.park(0).data)[0]
    return signature
