"""Brings a history into a shape that every chat template takes, losing no text.

Stopped, empty and repeated turns happen in real conversations; templates that insist on alternation
would refuse them for good. Knows roles only; which reshaping a template needs is found out by
trying.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from models.templates.turns import Turn

_BLANK_LINE = "\n\n"
FOLDED_NOTICE = "The system prompt was put into the first message."


@dataclass(frozen=True, slots=True)
class Normalized:
    turns: tuple[Turn, ...]
    sources: tuple[tuple[int, ...], ...]
    """For each turn the indexes of the original ones in it."""
    notices: tuple[str, ...] = ()


def normalize(turns: Sequence[Turn], keep_last: bool = False) -> Normalized:
    """Merge neighbours of one role, drop empty answers, put late system texts into user turns.

    keep_last: the last turn is an answer that goes on, and stays although it is empty.
    """
    kept: list[tuple[Turn, tuple[int, ...]]] = []
    for index, turn in enumerate(turns):
        last = index == len(turns) - 1
        if turn.role == "assistant" and turn.is_empty and not (keep_last and last):
            continue
        if turn.role == "system" and any(other.role != "system" for other, _ in kept):
            turn = replace(turn, role="user")
        turn = replace(turn, content=turn.content or "")
        if kept and _mergeable(kept[-1][0], turn):
            kept[-1] = (_merged(kept[-1][0], turn), (*kept[-1][1], index))
        else:
            kept.append((turn, (index,)))
    return _normalized(kept)


def fold_system(history: Normalized) -> Normalized:
    """The system prompt at the head of the first user turn."""
    if not history.turns or history.turns[0].role != "system":
        return history
    system, sources = history.turns[0], history.sources[0]
    rest = list(zip(history.turns[1:], history.sources[1:], strict=True))
    if not rest or rest[0][0].role != "user":
        rest.insert(0, (Turn("user", ""), ()))
    first, first_sources = rest[0]
    content = _joined(system.content, first.content)
    rest[0] = (replace(first, content=content), (*sources, *first_sources))
    return _normalized(rest, (*history.notices, FOLDED_NOTICE))


def begin_with_user(history: Normalized) -> Normalized:
    """An empty user turn before an answer that begins the history."""
    pairs = list(zip(history.turns, history.sources, strict=True))
    head = next((i for i, (turn, _) in enumerate(pairs) if turn.role != "system"), len(pairs))
    if head < len(pairs) and pairs[head][0].role == "user":
        return history
    pairs.insert(head, (Turn("user", ""), ()))
    return _normalized(pairs, history.notices)


def tools_as_text(history: Normalized) -> Normalized:
    """Tool results as user turns, tool calls as text, for templates that know neither."""
    if not any(turn.role == "tool" or turn.tool_calls for turn in history.turns):
        return history
    pairs: list[tuple[Turn, tuple[int, ...]]] = []
    for turn, sources in zip(history.turns, history.sources, strict=True):
        turn = _plain(turn)
        if pairs and _mergeable(pairs[-1][0], turn):
            pairs[-1] = (_merged(pairs[-1][0], turn), (*pairs[-1][1], *sources))
        else:
            pairs.append((turn, sources))
    notice = "Tool calls were written as plain text: the chat template does not know them."
    return _normalized(pairs, (*history.notices, notice))


RESHAPINGS: tuple[tuple[Callable[[Normalized], Normalized], ...], ...] = (
    (),
    (fold_system,),
    (begin_with_user,),
    (fold_system, begin_with_user),
    (tools_as_text,),
    (tools_as_text, fold_system, begin_with_user),
)
"""What to try, one after the other, until a template takes the history."""


def _normalized(
    pairs: Iterable[tuple[Turn, tuple[int, ...]]], notices: tuple[str, ...] = ()
) -> Normalized:
    pairs = tuple(pairs)
    return Normalized(
        tuple(turn for turn, _ in pairs), tuple(sources for _, sources in pairs), notices
    )


def _mergeable(first: Turn, second: Turn) -> bool:
    return first.role == second.role != "tool" and not (first.tool_calls or second.tool_calls)


def _merged(first: Turn, second: Turn) -> Turn:
    return replace(
        first,
        content=_joined(first.content, second.content),
        reasoning=_joined(first.reasoning, second.reasoning),
    )


def _joined(first: str | None, second: str | None) -> str:
    return _BLANK_LINE.join(text for text in (first, second) if text)


def _plain(turn: Turn) -> Turn:
    if turn.role == "tool":
        return Turn("user", f"[{turn.name or 'tool'}] {turn.content or ''}")
    if not turn.tool_calls:
        return turn
    calls = [
        f"[{function.get('name', 'tool')}] {function.get('arguments', '')}"
        for function in ((call.get("function") or {}) for call in turn.tool_calls)
    ]
    return replace(turn, content=_joined(turn.content, "\n".join(calls)), tool_calls=())
