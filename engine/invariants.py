"""What must be true of the engine's books between two steps; tests ask after every one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine.cache.prefix_cache import PrefixCache
from engine.cache.residency import Residency, State


def check(
    residency: Residency,
    cache: PrefixCache,
    running: Iterable[State],
    max_sequences: int,
    length_of: Callable[[int], int] | None,
) -> None:
    """Raises AssertionError. `length_of`: a sequence number's length in the backend."""
    states = [*running, *(entry.state for entry in cache.entries)]
    _check_numbers(residency, states, max_sequences)
    for entry in cache.entries:
        _require(len(entry.ids) == entry.state.length, "a kept sequence has other ids than tokens")
        _require(entry.state.length > 0, "an empty sequence is kept")
    for state in states:
        parked = state.parked
        _require(parked is None or parked.length == state.length, "a parked length is wrong")
        _require(parked is None or state.number is None, "a state is live and parked")
        held = parked is not None or state.number is not None
        _require(held or state.length == 0, "a state of some length lies nowhere")
    _check_lengths(residency, states, length_of)
    _check_budget(cache, residency.points_bytes)


def _check_numbers(residency: Residency, states: list[State], max_sequences: int) -> None:
    live = [state for state in states if state.number is not None]
    numbers = [state.number for state in live]
    _require(len(set(numbers)) == len(numbers), "a sequence number is used twice")
    _require({id(s) for s in live} == {id(s) for s in residency.live}, "a live state is lost")
    free = set(residency.free_numbers)
    _require(free.isdisjoint(numbers), "a used number is free")
    _require(len(free) + len(numbers) == max_sequences, "a sequence number leaked")


def _check_lengths(
    residency: Residency, states: list[State], length_of: Callable[[int], int] | None
) -> None:
    if length_of is None:
        return
    for state in states:
        if state.number is not None:
            _require(length_of(state.number) == state.length, "the backend holds another length")
    for number in residency.free_numbers:
        _require(length_of(number) == 0, "a free number holds tokens")


def _check_budget(cache: PrefixCache, points_bytes: int) -> None:
    evictable = [entry for entry in cache.entries if not cache.is_pinned(entry)]
    parked = sum(entry.state.parked_bytes for entry in evictable)
    left = max(cache.budget_bytes - points_bytes, 0)
    _require(parked <= left, "more is parked than the budget allows")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)
