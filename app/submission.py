"""A chat's path in the engine's words: messages with kept ids, sampling with overrides, errors.

It reads rows and settings and writes none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Literal

from app.knowledge.prompt import grounded
from app.store.conversation import AnswerInfo, Chat, Message
from engine.errors import (
    ContextTooLong,
    LocalchatError,
    ModelFileError,
    OutOfMemory,
    UsageError,
)
from engine.events import Delta, ErrorInfo, Event, Finished, Result
from engine.messages import ChatMessage, Loaded, SamplingOverrides, Submit

SubmitKind = Literal["answer", "continue", "title"]

ERRORS: dict[str, type[LocalchatError]] = {
    "usage": UsageError,
    "model": ModelFileError,
    "memory": OutOfMemory,
    "context": ContextTooLong,
}
"""Exceptions by the code of an error that came as a value; any other code is a LocalchatError."""


def chat_messages(chat: Chat, path: Sequence[Message]) -> tuple[ChatMessage, ...]:
    """System prompt, then root to leaf, without answers that hold nothing.

    Questions stand there with their documents, answers as the model wrote them. Two questions in a
    row are fine: the engine joins neighbours.
    """
    system = (ChatMessage("system", chat.system),) if chat.system else ()
    return system + tuple(
        ChatMessage(
            role=message.role,
            content=said(message),
            reasoning=message.reasoning,
            ids=message.ids,
            tokenizer=message.tokenizer,
        )
        for message in path
        if message.role == "user" or message.text or message.reasoning
    )


def said(message: Message) -> str:
    """A message as the model reads it: the same bytes in every later prompt."""
    if message.role == "user":
        return grounded(message.text, message.sources)
    return message.said or message.text


def merged(settings: SamplingOverrides, options: SamplingOverrides) -> SamplingOverrides:
    """The options where they say something, the settings elsewhere."""
    said = {
        item.name: value
        for item in fields(options)
        if (value := getattr(options, item.name)) is not None
    }
    return replace(settings, **said)


def answer_info(loaded: Loaded, submit: Submit) -> AnswerInfo:
    """What is known of an answer before its first token."""
    return AnswerInfo(
        model=loaded.name,
        fingerprint=loaded.model_fingerprint,
        quantization=loaded.quantization,
        tokenizer=loaded.tokenizer,
        template_hash=loaded.template_hash,
        backend=loaded.backend,
        kv_type=loaded.kv_type,
        seed=submit.sampling.seed,
        max_tokens=submit.max_tokens,
        stop=submit.stop,
        sampling=submit.sampling,
    )


def refused(submit: Submit, reason: str, loaded: Loaded) -> Iterator[Event]:
    """The answer of documents that say nothing: no model made it."""
    yield Delta(submit.request_id, (), reason, "")
    result = Result(reason, "", (), "stop", submit.sampling.seed or 0, loaded.kv_type)
    yield Finished(submit.request_id, result)


def as_error(cause: ErrorInfo) -> LocalchatError:
    """An error that came as a value, to be raised."""
    kind = ERRORS.get(cause.code, LocalchatError)
    return kind(cause.title, cause.text, cause.next_step)


def require_text(text: str) -> None:
    if not text.strip():
        raise UsageError("The message is empty.", "", "Write something first.")
