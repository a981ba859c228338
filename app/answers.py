"""The steps of each kind of answer: question on disk, empty answer on disk, engine, finished row.

Order: lock the conversation, question, empty answer, `Saved`, engine, journal each second, finished
row, `Answered`. Errors are raised; whatever the ending, the conversation can go on.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING

from app.answer_options import Options
from app.asking import Asking, Question
from app.attached import Placed, place, with_older
from app.knowledge.fitting import estimate
from app.knowledge.given import written
from app.knowledge.sources import Sources
from app.options import sampling_overrides
from app.store.conversation import Chat, Message
from app.submission import (
    SubmitKind,
    answer_info,
    as_error,
    chat_messages,
    merged,
    require_text,
)
from app.titles import tidy_title
from app.turn import Saved, SessionEvent, Turn
from engine.errors import LocalchatError, ModelNotFound, UsageError
from engine.events import Failed, Finished, Result, Usage
from engine.messages import Loaded, Submit
from engine.request import Priority

if TYPE_CHECKING:
    from app.session import Session

Events = Generator[SessionEvent, None, None]

TITLE_TOKENS = 24
"""A title is a few words; more is never shown."""


class Answers:
    """Of one session."""

    def __init__(self, session: Session, asking: Asking) -> None:
        self._session = session
        self._asking = asking
        self._history = asking.history
        self._client = asking.client
        self._requests = asking.requests
        self.chats: set[int] = set()
        """Those that the engine was asked about."""

    def send(self, chat_id: int | None, text: str, options: Options) -> Events:
        placed = self._placed(text, options)
        require_text(placed.text)
        if chat_id is None:
            chat_id = self._session.new_chat().id
        with self._session.lock(chat_id):
            chat = self._history.chat(chat_id)
            user = self._add_question(chat_id, chat.current_leaf, placed)
            yield from self._answer(chat, user.id, options, text, placed)

    def edit(self, user_message_id: int, text: str, options: Options) -> Events:
        placed = self._placed(text, options)
        require_text(placed.text)
        old = self._history.message(user_message_id)
        if old.role != "user":
            raise UsageError(
                f"Message {user_message_id} is an answer.",
                "Only questions can be edited.",
                f"Its question is message {old.parent_id}.",
            )
        with self._session.lock(old.chat_id):
            searched = old.sources is not None and old.sources.is_with_text
            placed = with_older(placed, old)
            user = self._add_question(old.chat_id, old.parent_id, placed, searched)
            chat = self._history.chat(old.chat_id)
            yield from self._answer(chat, user.id, options, text, placed)

    def _add_question(
        self, chat_id: int, parent_id: int | None, placed: Placed, searched: bool = False
    ) -> Message:
        """`searched`: an older version of it came with text that is searched."""
        sources = None
        is_with_text = searched or bool(placed.searched)
        if placed.given is not None or is_with_text:
            sources = Sources("", given=placed.given, is_with_text=is_with_text)
        return self._history.add_user(chat_id, parent_id, placed.text, sources)

    def regenerate(self, message_id: int, options: Options) -> Events:
        message = self._history.message(message_id)
        question_id = message.id if message.role == "user" else message.parent_id
        if question_id is None:
            raise UsageError(f"Message {message_id} answers no question.")
        with self._session.lock(message.chat_id):
            yield from self._answer(self._history.chat(message.chat_id), question_id, options)

    def go_on(self, message_id: int, options: Options) -> Events:
        message = self._history.message(message_id)
        if message.role != "assistant" or message.parent_id is None:
            raise UsageError(f"Message {message_id} is a question.", "", "Only answers go on.")
        with self._session.lock(message.chat_id):
            chat = self._history.chat(message.chat_id)
            if not (message.text or message.reasoning):
                yield from self._answer(chat, message.parent_id, options)
                return
            loaded = self._require_model()
            submit = self._submit(
                chat, self._history.path(chat.id, message.id), options, "continue"
            )
            info = answer_info(loaded, submit)
            self._history.resume_answer(message.id)
            saved = Saved(chat.id, message.parent_id, message.id)
            turn = Turn(self._history, self._client, saved, info, message)
            question = self._question(chat, message.parent_id, submit, replace(options, kb=None))
            yield from self._run(turn, question)

    def _answer(
        self,
        chat: Chat,
        question_id: int,
        options: Options,
        text: str = "",
        placed: Placed | None = None,
    ) -> Events:
        """`text`: the question alone; `placed`: with what was attached to it."""
        loaded = self._require_model()
        submit = self._submit(chat, self._history.path(chat.id, question_id), options, "answer")
        info = answer_info(loaded, submit)
        answer = self._history.begin_answer(chat.id, question_id, info)
        saved = Saved(chat.id, question_id, answer.id)
        notices = placed.notices if placed is not None else ()
        turn = Turn(self._history, self._client, saved, info, notices=notices)
        question = self._question(chat, question_id, submit, options, text)
        if placed is not None:
            question = replace(question, attached=placed.searched)
        yield from self._run(turn, question)

    def _question(
        self, chat: Chat, question_id: int, submit: Submit, options: Options, text: str = ""
    ) -> Question:
        asked = self._history.message(question_id)
        given = None if asked.sources is None else asked.sources.given
        return Question(
            chat=chat,
            message_id=question_id,
            text=text.strip() or written(asked.text, given),
            submit=submit,
            loaded=self._require_model(),
            settings=options.documents or self._session.settings.kb,
            kb=options.kb,
        )

    def _placed(self, text: str, options: Options) -> Placed:
        """Short attached text before the question, long text aside, to be searched."""
        if not options.attached:
            return Placed(text)
        choice = (options.documents or self._session.settings.kb).attach
        context = self._require_model().ctx

        def count(text: str) -> int:
            counted = self._client.count(text)
            return estimate(text) if counted is None else counted

        return place(text, options.attached, count, context, choice, options.as_written)

    def _run(self, turn: Turn, question: Question) -> Events:
        request_id = question.submit.request_id
        with self._requests.running(request_id, question.chat.id) as running:
            events = self._asking.steps(question, running)
            yield from turn.run(request_id, events, running.cancelled.is_set)

    # ---- titles

    def title(self, chat_id: int) -> Usage:
        """Let the model name a chat, at background priority; a title that a person set stays, and
        so does any when the job was stopped.

        Raises LocalchatError. Never disturbs the chat's place in the engine's cache.
        """
        history = self._history
        chat = history.chat(chat_id)
        submit = replace(
            self._submit(chat, history.path(chat_id), Options(), "title"),
            max_tokens=TITLE_TOKENS,
            priority=Priority.BACKGROUND,
            stop=(),
            stop_after=None,
        )
        result = self._collect(submit, chat_id)
        title = tidy_title(result.text) if result.finish_reason != "cancelled" else ""
        if title and history.chat(chat_id).title_source != "person":
            history.rename(chat_id, title, source="model")
        return result.usage

    # ---- what the engine is asked

    def _collect(self, submit: Submit, chat_id: int) -> Result:
        with self._requests.running(submit.request_id, chat_id):
            for event in self._client.submit(submit):
                if isinstance(event, Finished):
                    return event.result
                if isinstance(event, Failed):
                    raise as_error(event.cause)
        raise LocalchatError("The engine gave no answer.")

    def _submit(
        self, chat: Chat, path: list[Message], options: Options, kind: SubmitKind
    ) -> Submit:
        session = self._session
        sampling = session.settings.sampling
        self.chats.add(chat.id)
        return Submit(
            request_id=uuid.uuid4().hex,
            conversation=session.conversation(chat.id),
            messages=chat_messages(chat, path),
            kind=kind,
            sampling=merged(sampling_overrides(session.settings), options.sampling),
            max_tokens=sampling.max_tokens if options.max_tokens is None else options.max_tokens,
            stop=options.stop or sampling.stop,
            priority=options.priority,
            date=chat.date,
            stop_after=options.stop_after,
        )

    def _require_model(self) -> Loaded:
        loaded = self._session.loaded
        if loaded is None:
            raise ModelNotFound("No model is loaded.", "", "Choose one: localchat models list.")
        return loaded
