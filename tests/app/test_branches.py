"""Laws of a chat's tree in memory: nothing is left out, nothing comes twice."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.branches import other_branches, path_to, walk
from app.store.conversation import Message


def message(number: int, parent: int | None) -> Message:
    return Message(number, 1, parent, "user", f"m{number}", "", "complete", (), "", 0.0, None)


@st.composite
def trees(draw: st.DrawFn) -> list[Message]:
    """Messages in order of creation, each under an earlier one or under none."""
    parents = [draw(st.integers(0, number)) for number in range(draw(st.integers(0, 12)))]
    return [message(number + 1, parent or None) for number, parent in enumerate(parents)]


@given(trees(), st.data())
def test_the_branch_on_screen_and_the_others_are_all_messages_once(
    messages: list[Message], data: st.DataObject
) -> None:
    leaf = data.draw(st.sampled_from([None, *(one.id for one in messages)]))
    path = path_to(messages, leaf)
    lists = [path, *other_branches(messages, path)]
    found = [one.id for one_list in lists for one in one_list]
    assert sorted(found) == [one.id for one in messages]
    for one_list in lists:
        for above, below in pairwise(one_list):
            assert below.parent_id == above.id


@given(trees())
def test_a_walk_has_every_message_after_its_parent_and_numbers_siblings(
    messages: list[Message],
) -> None:
    walked = list(walk(messages))
    assert sorted(place.message.id for place in walked) == [one.id for one in messages]
    seen: set[int | None] = {None}
    for place in walked:
        assert place.message.parent_id in seen
        seen.add(place.message.id)
        siblings = [m.id for m in messages if m.parent_id == place.message.parent_id]
        assert (siblings[place.number - 1], len(siblings)) == (place.message.id, place.siblings)


def test_a_chat_of_many_turns_needs_no_deep_stack() -> None:
    messages = [message(number, number - 1 or None) for number in range(1, 5_001)]
    assert len(path_to(messages, 5_000)) == 5_000
    assert [place.depth for place in walk(messages)] == [0] * 5_000
    assert len(other_branches(messages, [])[0]) == 5_000
