"""Clients with the scripted worker, and what tests ask of them."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from engine.client import EngineClient
from engine.events import Event, Failed, Finished, Result
from engine.messages import ChatMessage, Submit

SCRIPTED = Path(__file__).parent / "workers" / "scripted.py"
MODEL = "/models/bytes.gguf"
_numbers = itertools.count(1)


def scripted_client(folder: Path, *options: str) -> EngineClient:
    return EngineClient(folder / "engine.log", [sys.executable, "-P", str(SCRIPTED), *options])


def user(text: str) -> ChatMessage:
    return ChatMessage("user", text)


def said(result: Result, tokenizer: str = "bytes") -> ChatMessage:
    return ChatMessage("assistant", result.text, result.reasoning, result.token_ids, tokenizer)


def question(*messages: ChatMessage | str, conversation: str = "chat", **fields: Any) -> Submit:
    """A submit with a name of its own; texts are user messages."""
    texts = tuple(user(m) if isinstance(m, str) else m for m in messages)
    return Submit(f"request {next(_numbers)}", conversation, texts, **fields)


def finished(events: Iterable[Event]) -> Result:
    """The result at the end; an AssertionError where it failed."""
    last = list(events)[-1]
    assert isinstance(last, Finished), last
    return last.result


def failed(events: Iterable[Event]) -> Failed:
    last = list(events)[-1]
    assert isinstance(last, Failed), last
    return last


def ask(client: EngineClient, *messages: ChatMessage | str, **fields: Any) -> Result:
    return finished(client.submit(question(*messages, **fields)))


def until(events: Iterator[Event], kind: type[Event]) -> Event:
    """The first event of that type."""
    return next(event for event in events if isinstance(event, kind))
