"""Makes a conversation fit into the context by leaving out its oldest turns.

Knows how long things are and not what they say: a prompt is made by the function it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.errors import ContextTooLong
from engine.fitting import ROOM_SHARE, answer_room, least_room, turns_to_drop
from engine.messages import ChatMessage, Submit
from models.templates.prompt import PromptIds

Form = Callable[[Sequence[ChatMessage]], PromptIds]
Turns = list[list[ChatMessage]]


@dataclass(frozen=True, slots=True)
class Fit:
    prompt: PromptIds
    notices: tuple[str, ...] = ()
    """What was left out, in words."""


def fit(submit: Submit, form: Form, count: Callable[[str], int], context: int) -> Fit:
    """The prompt with as many of the newest turns as leave room for an answer.

    Raises ContextTooLong when even the last turn does not fit, or when nothing may be left out.
    """
    prompt = form(submit.messages)
    limit = context - answer_room(context, submit.max_tokens)
    if len(prompt.ids) <= limit:
        return Fit(prompt)
    room = least_room(context, submit.max_tokens)
    if submit.overflow == "refuse":
        if len(prompt.ids) + room <= context:
            return Fit(prompt)
        raise _too_long(len(prompt.ids), context, "The conversation")
    return _dropped(submit, prompt, form, count, context, limit)


def _dropped(
    submit: Submit,
    prompt: PromptIds,
    form: Form,
    count: Callable[[str], int],
    context: int,
    limit: int,
) -> Fit:
    system, turns = split_turns(submit.messages)
    sizes = [sum(count(message.content) for message in turn) for turn in turns[:-1]]
    gone = turns_to_drop(sizes, len(prompt.ids) - limit, max(context // ROOM_SHARE, 1))
    while gone < len(turns):
        prompt = form([*system, *(message for turn in turns[gone:] for message in turn)])
        if len(prompt.ids) <= limit:
            return Fit(prompt, _left_out(gone))
        gone += 1
    if len(prompt.ids) + least_room(context, submit.max_tokens) <= context:
        return Fit(prompt, _left_out(len(turns) - 1))
    raise _too_long(len(prompt.ids), context, "The last message")


def split_turns(messages: Sequence[ChatMessage]) -> tuple[list[ChatMessage], Turns]:
    """The system prompt, and the turns: each a question with what follows it."""
    system: list[ChatMessage] = []
    turns: Turns = []
    for message in messages:
        if message.role == "system" and not turns:
            system.append(message)
        elif message.role == "user" or not turns:
            turns.append([message])
        else:
            turns[-1].append(message)
    return system, turns


def _left_out(turns: int) -> tuple[str, ...]:
    if turns == 0:
        return ()
    noun = "turn" if turns == 1 else "turns"
    return (f"Left out the {turns} oldest {noun}: the conversation is longer than the context.",)


def _too_long(tokens: int, context: int, what: str) -> ContextTooLong:
    return ContextTooLong(
        f"{what} does not fit into the context.",
        f"The prompt has {tokens:,} tokens; the context holds {context:,}, the answer included.",
        "Shorten the message, start a new chat, or set a larger context.",
    )
