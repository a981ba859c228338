"""All messages of a chat as the tree that they are: the branch on screen, the others, and both in
the order of a walk.

Arithmetic over messages that were read already; it asks no database. Messages come in the order of
their creation, so a message stands after its parent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.store.conversation import Message


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message stands."""

    message: Message
    number: int
    """Among its siblings, from 1."""
    siblings: int
    """With itself."""
    depth: int
    """Messages above it that have siblings."""


Children = dict[int | None, list[Message]]


def children_of(messages: Sequence[Message]) -> Children:
    """Messages by parent id; first ones under None."""
    children: Children = {}
    for message in messages:
        children.setdefault(message.parent_id, []).append(message)
    return children


def path_to(messages: Sequence[Message], leaf: int | None) -> list[Message]:
    """From the first message to `leaf`."""
    by_id = {message.id: message for message in messages}
    path: list[Message] = []
    message = None if leaf is None else by_id.get(leaf)
    while message is not None:
        path.append(message)
        message = None if message.parent_id is None else by_id.get(message.parent_id)
    return path[::-1]


def other_branches(messages: Sequence[Message], path: Sequence[Message]) -> list[list[Message]]:
    """Every message that is not on the path, once: each list goes down from a sibling of something
    that is on the path or in a list before, along the newest children.
    """
    children = children_of(messages)
    seen = {message.id for message in path}
    branches: list[list[Message]] = []
    for message in messages:
        if message.id in seen:
            continue
        branch = [message]
        while below := children.get(branch[-1].id):
            branch.append(below[-1])
        seen.update(one.id for one in branch)
        branches.append(branch)
    return branches


def walk(messages: Sequence[Message]) -> Iterator[Place]:
    """Each message before those below it, siblings in the order of their creation."""
    children = children_of(messages)
    waiting = places(children.get(None, []), 0)[::-1]
    while waiting:
        place = waiting.pop()
        yield place
        depth = place.depth + (place.siblings > 1)
        waiting += places(children.get(place.message.id, []), depth)[::-1]


def places(siblings: Sequence[Message], depth: int) -> list[Place]:
    count = len(siblings)
    return [Place(message, number + 1, count, depth) for number, message in enumerate(siblings)]
