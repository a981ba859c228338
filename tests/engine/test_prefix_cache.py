"""Which kept sequence is taken, and which one goes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.backends.base import Parked
from engine.cache.kept import KeptSequence
from engine.cache.kept_states import adopted_sequence
from engine.cache.prefix_cache import PrefixCache

token_lists = st.lists(st.integers(0, 2), min_size=1, max_size=12)


def kept(
    ids: list[int],
    conversation: str = "chat",
    positions: tuple[int, ...] | None = None,
    byte_count: int = 10,
    fingerprint: str = "",
) -> KeptSequence:
    parked = Parked(b"x" * byte_count, len(ids), positions)
    return adopted_sequence("person", conversation, fingerprint, tuple(ids), parked)


def array(ids: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(ids, dtype=np.int32)


def common(one: list[int], other: list[int]) -> int:
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length


@given(st.lists(token_lists, max_size=6), token_lists, st.integers(0, 12))
def test_the_best_match_saves_the_most(
    entries: list[list[int]], prompt: list[int], limit: int
) -> None:
    cache = PrefixCache(1000)
    for ids in entries:
        cache.add(kept(ids))
    matches = cache.matches("person", "", array(prompt), limit)
    saved = [min(common(ids, prompt), limit) for ids in entries]
    assert sorted(saved, reverse=True) == [match.usable for match in matches]


@given(token_lists, token_lists, st.lists(st.integers(0, 12), max_size=4), st.integers(0, 12))
def test_a_state_is_cut_only_where_it_can_be(
    ids: list[int], prompt: list[int], places: list[int], limit: int
) -> None:
    positions = tuple(sorted(place for place in places if place <= len(ids)))
    cache = PrefixCache(1000)
    cache.add(kept(ids, positions=positions))
    (match,) = cache.matches("person", "", array(prompt), limit)
    wanted = min(common(ids, prompt), limit)
    assert match.usable in {0, len(ids), *positions}
    assert match.usable == max(place for place in (0, len(ids), *positions) if place <= wanted)


def test_only_the_same_owner_and_fingerprint_match() -> None:
    cache = PrefixCache(1000)
    cache.add(kept([1, 2, 3], fingerprint="f16"))
    assert len(cache.matches("person", "f16", array([1, 2]), 9)) == 1
    assert cache.matches("person", "q8", array([1, 2]), 9) == []
    assert cache.matches("guest", "f16", array([1, 2]), 9) == []


def test_the_conversation_unused_for_longest_goes_first_and_the_open_one_last() -> None:
    cache = PrefixCache(40)
    old_a, b, new_a, opened, newest = (
        kept([number], conversation)
        for number, conversation in enumerate(["a", "b", "a", "open", "open"])
    )
    for entry in (old_a, b, new_a, opened, newest):
        cache.add(entry)
    cache.open("open")
    assert cache.excess(0) == [b]
    assert cache.excess(15) == [b, old_a, new_a]
    assert cache.excess(1000) == [b, old_a, new_a, opened]


def test_a_pinned_beginning_stays_unless_it_is_large() -> None:
    cache = PrefixCache(40)
    entries = [kept([number], name) for number, name in enumerate(["a", "pin", "open"])]
    for entry in entries:
        cache.add(entry)
    cache.open("open")
    cache.pin("pin")
    assert cache.excess(1000) == [entries[0]]
    large = kept([9], "large", byte_count=21)
    cache.add(large)
    cache.pin("large")
    assert cache.excess(1000) == [entries[0], entries[1], large]


def test_nothing_stays_with_a_budget_of_zero() -> None:
    cache = PrefixCache(0)
    entry = kept([1])
    cache.add(entry)
    cache.open("chat")
    assert cache.excess(0) == [entry]
