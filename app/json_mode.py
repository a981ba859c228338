"""`chat --json`: JSON lines in, one JSON line out for each, over the same session as the screen.

A line that fails prints an error object and the stream goes on. It knows the protocol's words, and
nothing of how an answer is made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from app.answering import Answering
from app.arguments import nearest
from app.console import Console
from app.errors import to_error_info
from app.exit_codes import exit_code
from app.line_options import option_pairs
from app.options import apply_options, load_options, sampling_overrides
from app.result import error_object
from app.session import Events, Options, Session
from app.settings import Settings
from engine.errors import LocalchatError, UsageError

COMMANDS = {
    "edit": frozenset({"edit", "user"}),
    "user": frozenset({"user"}),
    "regenerate": frozenset({"regenerate"}),
    "select": frozenset({"select"}),
    "system": frozenset({"system"}),
    "title": frozenset({"title"}),
    "kb": frozenset({"kb"}),
}
"""What a line can ask for, and the keys that belong together; the first that fits counts."""

EXTRAS = frozenset({"options", "stop_after"})
"""Keys that any line may carry."""


@dataclass(slots=True)
class Position:
    """Where the conversation stands between two lines."""

    chat_id: int | None
    """None: the next question starts a new chat."""
    kb: str | None = None
    """The knowledge base that questions are answered from."""


class JsonMode:
    """One run over a stream of lines."""

    def __init__(
        self,
        session: Session,
        settings: Settings,
        model: str | None,
        console: Console,
        chat_id: int | None,
        kb: str | None = None,
    ) -> None:
        self._session = session
        self._settings = settings
        self._model = model
        self._console = console
        self._position = Position(chat_id, kb)
        self._loaded = load_options(settings, session.paths)
        """What the engine was loaded with, before the first line or by one."""
        self._actions: Mapping[str, Callable[[Mapping[str, Any]], int]] = {
            "edit": self._edit,
            "user": self._user,
            "regenerate": self._regenerate,
            "select": self._select,
            "system": self._system,
            "title": self._title,
            "kb": self._knowledge,
        }

    def run(self, lines: Iterable[str]) -> int:
        """Answer each line before the next is read; the exit status is that of the last line."""
        status = 0
        for line in lines:
            if not line.strip():
                continue
            status = self._line(line)
            if status == exit_code("interrupted"):
                break
        return status

    def _line(self, line: str) -> int:
        try:
            request = parse(line)
            return self._actions[kind_of(request)](request)
        except BrokenPipeError:
            raise
        except (LocalchatError, OSError) as error:
            info = to_error_info(error)
            self._console.json(error_object(info))
            self._console.error(info)
            return exit_code(info.code)

    # ---- what a line can ask for

    def _user(self, request: Mapping[str, Any]) -> int:
        text = text_of(request, "user")
        return self._answer(
            request, lambda options: self._session.send(self._position.chat_id, text, options)
        )

    def _edit(self, request: Mapping[str, Any]) -> int:
        message_id = id_of(request, "edit")
        text = text_of(request, "user")
        self._follow(message_id)
        return self._answer(request, lambda options: self._session.edit(message_id, text, options))

    def _regenerate(self, request: Mapping[str, Any]) -> int:
        message_id = id_of(request, "regenerate")
        self._follow(message_id)
        return self._answer(request, lambda options: self._session.regenerate(message_id, options))

    def _select(self, request: Mapping[str, Any]) -> int:
        message_id = id_of(request, "select")
        self._position.chat_id = self._session.select(message_id).id
        self._console.json({"selected": message_id})
        return 0

    def _system(self, request: Mapping[str, Any]) -> int:
        text = text_of(request, "system")
        chat = self._session.new_chat(text)
        self._position.chat_id = chat.id
        self._console.json({"system": text, "chat_id": chat.id})
        return 0

    def _title(self, request: Mapping[str, Any]) -> int:
        if request["title"] is not True:
            raise UsageError("`title` must be true.", f"It is {shown(request['title'])}.")
        chat_id = self._position.chat_id
        if chat_id is None:
            raise UsageError("There is no chat to name yet.", "", "Ask something first.")
        usage = self._session.title(chat_id)
        title = self._session.history.chat(chat_id).title
        self._console.json({"title": title, "chat_id": chat_id, "usage": asdict(usage)})
        return 0

    def _knowledge(self, request: Mapping[str, Any]) -> int:
        name = None if request["kb"] is None else text_of(request, "kb")
        if name is not None:
            self._session.base(name)
        self._position.kb = name
        self._console.json({"kb": name})
        return 0

    def _answer(
        self,
        request: Mapping[str, Any],
        ask: Callable[[Options], Events],
    ) -> int:
        answering = Answering(self._session, self._console, as_json=True)
        status = answering.show(ask(self._options(request)))
        if answering.chat_id is not None:
            self._position.chat_id = answering.chat_id
        return status

    def _follow(self, message_id: int) -> None:
        self._position.chat_id = self._session.history.message(message_id).chat_id

    def _options(self, request: Mapping[str, Any]) -> Options:
        """The line's options over those of the command line; other engine settings load again.

        The same ones do not, so that an engine that is dead is started after the question is on
        disk.
        """
        settings = apply_options(self._settings, option_pairs(request.get("options", {})))
        if load_options(settings, self._session.paths) != self._loaded:
            self._session.load(self._model, settings=settings)
            self._loaded = load_options(settings, self._session.paths)
        sampling = settings.sampling
        return Options(
            sampling=sampling_overrides(settings),
            max_tokens=sampling.max_tokens,
            stop=sampling.stop,
            stop_after=count_of(request, "stop_after"),
            kb=self._position.kb,
            documents=settings.kb,
        )


def parse(line: str) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            "The line is no JSON.", str(error), 'For example: {"user": "Hello"}'
        ) from None
    if not isinstance(request, dict):
        raise UsageError(
            "The line is no JSON object.",
            f"It is {shown(request)}.",
            'For example: {"user": "Hello"}',
        )
    return request


def kind_of(request: Mapping[str, Any]) -> str:
    """Which command a line holds; UsageError names keys that are unknown or do not fit."""
    known = {*COMMANDS, *EXTRAS}
    for key in request:
        if key not in known:
            raise unknown_key(key, known)
    keys = request.keys() - EXTRAS
    for kind, belonging in COMMANDS.items():
        if kind in keys:
            if keys != belonging:
                raise UsageError(
                    f"The keys {', '.join(sorted(keys))} do not belong in one line.",
                    f"`{kind}` goes with {', '.join(sorted(belonging | EXTRAS))}.",
                )
            return kind
    raise UsageError("The line asks for nothing.", "", f"Known keys: {', '.join(COMMANDS)}.")


def unknown_key(key: str, known: Iterable[str]) -> UsageError:
    guess = nearest(key, known)
    hint = f"Did you mean {guess!r}?" if guess else f"Known keys: {', '.join(sorted(known))}."
    return UsageError(f"Unknown key {shown(key)}.", "", hint)


def text_of(request: Mapping[str, Any], key: str) -> str:
    value = request[key]
    if not isinstance(value, str):
        raise UsageError(f"`{key}` must be text.", f"It is {shown(value)}.")
    return value


def id_of(request: Mapping[str, Any], key: str) -> int:
    value = count_of(request, key)
    if not value:
        raise UsageError(f"`{key}` must be the number of a message.", f"It is {shown(value)}.")
    return value


def count_of(request: Mapping[str, Any], key: str) -> int | None:
    value = request.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise UsageError(f"`{key}` must be a whole number from 0.", f"It is {shown(value)}.")
    return value


def shown(value: object) -> str:
    """A short JSON form for messages."""
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:59] + "…"
