"""The one path that every front end uses: a question to disk, the engine asked, the answer to disk.

Order of an answer: lock the conversation, question on disk, empty answer on disk, `Saved`, engine,
journal each second, finished row, `Answered`. Errors come as `Failed` events, never as exceptions
out of the iterators; whatever the ending, the conversation can go on. It draws and prints nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from app.answer_options import Options
from app.asking import Asking, Question
from app.attached import Placed, place, with_older
from app.attached_text import AttachedText
from app.errors import to_error_info
from app.folder_identity import folder_identity
from app.grounding import Found, Searching
from app.knowledge.fitting import estimate
from app.knowledge.open_bases import OpenBases
from app.knowledge.sources import Sources
from app.model_choice import choose_model, remember_model
from app.options import load_options, sampling_overrides
from app.paths import Paths
from app.running import RunningRequests
from app.settings import Settings
from app.store.conversation import Chat, Message
from app.store.history import History
from app.store.locks import conversation_lock
from app.submission import (
    SubmitKind,
    answer_info,
    as_error,
    chat_messages,
    merged,
    require_text,
    written,
)
from app.titles import tidy_title
from app.turn import Answered, Saved, SessionEvent, Turn
from engine.client import EngineClient, drop_saved
from engine.errors import LocalchatError, ModelNotFound, UsageError
from engine.events import Failed, Finished, Result, Usage
from engine.messages import Loaded, LoadProgress, Submit
from engine.request import Priority

if TYPE_CHECKING:
    from app.knowledge.base import KnowledgeBase
    from app.knowledge.states import SyncProgress

__all__ = [
    "Answered",
    "Events",
    "Found",
    "Options",
    "Saved",
    "Searching",
    "Session",
    "SessionEvent",
]

Events = Generator[SessionEvent, None, None]

TITLE_TOKENS = 24
"""A title is a few words; more is never shown."""

CLOSE_PATIENCE_S = 3.0
"""A cancelled answer ends within one; after this the program ends without it."""


DEFAULTS = Options()


class Session:
    """Conversations of one data folder, answered by one engine. Usable from any thread."""

    def __init__(
        self,
        history: History,
        client: EngineClient,
        settings: Settings,
        paths: Paths,
        private: bool = False,
        twin: Session | None = None,
    ) -> None:
        self.history = history
        self.client = client
        self.settings = settings
        self.paths = paths
        self.private = private
        self._name = f"private-{uuid.uuid4().hex}" if private else folder_identity(paths)
        self._requests = RunningRequests(client)
        self._private_chats: set[int] = set()
        self._pins: set[str] = set()
        self.knowledge: OpenBases = twin.knowledge if twin is not None else OpenBases(paths)
        self._collections = AttachedText(paths.cache, private, lambda: self.knowledge.all.embedder)
        self._asking = Asking(
            history,
            client,
            self.knowledge,
            self._requests,
            self._collections,
            self._name,
            self._pins,
            private,
        )
        self._loaded: Loaded | None = twin.loaded if twin is not None else None

    # ---- model

    @property
    def loaded(self) -> Loaded | None:
        """What is in use; after the engine's death what was, as the next answer starts it again."""
        return self.client.loaded or self._loaded

    def load(
        self,
        model: str | None = None,
        progress: Callable[[LoadProgress], None] | None = None,
        settings: Settings | None = None,
    ) -> Loaded:
        """Load the model of the flag, the settings, the last time, or the best that fits.

        Blocks; raises LocalchatError. The same model with the same settings again returns at once.
        """
        settings = settings or self.settings
        path = choose_model(model, settings, self.paths)
        loaded = self._loaded = self.client.load(
            str(path), load_options(settings, self.paths), progress
        )
        if not self.private:
            remember_model(self.paths, path)
        return loaded

    # ---- answers

    def send(self, chat_id: int | None, text: str, options: Options = DEFAULTS) -> Events:
        """A new question at the end of a chat, or in a new chat (None). Blocks between events."""
        return self._as_events(self._send(chat_id, text, options))

    def edit(self, user_message_id: int, text: str, options: Options = DEFAULTS) -> Events:
        """The question asked differently: a sibling of it becomes current and is answered."""
        return self._as_events(self._edit(user_message_id, text, options))

    def regenerate(self, message_id: int, options: Options = DEFAULTS) -> Events:
        """Another answer to a question, given by its own id or by one of its answers."""
        return self._as_events(self._regenerate(message_id, options))

    def continue_answer(self, message_id: int, options: Options = DEFAULTS) -> Events:
        """A cut or stopped answer goes on; the same message grows."""
        return self._as_events(self._continue(message_id, options))

    def cancel(self, chat_id: int | None = None) -> None:
        """Stop what runs, in one chat or everywhere, a loading model included. From any thread."""
        self.client.cancel_load()
        self._requests.cancel(chat_id)

    def learning(self, chat_id: int) -> SyncProgress | None:
        """How far the meaning of a chat's attached text is learnt; None: nothing is at work."""
        return self._collections.progress(chat_id)

    def count(self, text: str) -> int | None:
        """Tokens of a draft; None while nothing is loaded or the engine is too busy to say."""
        return self.client.count(text)

    # ---- chats

    def new_chat(self, system: str | None = None) -> Chat:
        """An empty chat with a system prompt of its own, or that of the settings."""
        return self.history.new_chat(system if system is not None else self.settings.chat.system)

    def select(self, message_id: int) -> Chat:
        """Make the branch below a message current."""
        return self.history.select(message_id)

    def delete(self, chat_id: int) -> None:
        """Out of sight, but `undo_delete` brings it back until it is purged."""
        with self._lock(chat_id):
            self.history.delete_chat(chat_id)

    def undo_delete(self, chat_id: int) -> None:
        self.history.undo_delete(chat_id)

    def purge(self, chat_id: int) -> None:
        """Really gone: text, index, and the engine's memory of it."""
        with self._lock(chat_id):
            self.history.purge(chat_id)
            self._drop(self.conversation(chat_id))

    def title(self, chat_id: int) -> Usage:
        """Let the model name a chat, at background priority; a title that a person set stays, and
        so does any when the job was stopped.

        Raises LocalchatError. Never disturbs the chat's place in the engine's cache.
        """
        chat = self.history.chat(chat_id)
        submit = replace(
            self._submit(chat, self.history.path(chat_id), Options(), "title"),
            max_tokens=TITLE_TOKENS,
            priority=Priority.BACKGROUND,
            stop=(),
            stop_after=None,
        )
        result = self._collect(submit, chat_id)
        title = tidy_title(result.text) if result.finish_reason != "cancelled" else ""
        if title and self.history.chat(chat_id).title_source != "person":
            self.history.rename(chat_id, title, source="model")
        return result.usage

    def private_twin(self) -> Session:
        """A session over the same engine whose chats are nowhere but in memory."""
        return Session(
            History.in_memory(), self.client, self.settings, self.paths, private=True, twin=self
        )

    def remove_base(self, name: str) -> None:
        """A knowledge base's index, and what the engine keeps of it."""
        self.knowledge.release(name)
        for reading in self.knowledge.all.remove(name):
            self._drop(reading)

    def _drop(self, conversation: str) -> None:
        """Out of the engine's memory and off the disk, whether or not an engine runs."""
        if not self.client.drop(conversation):
            drop_saved(str(self.paths.cache), conversation)

    def conversation(self, chat_id: int) -> str:
        """The chat's name in the engine's cache, different in each data folder."""
        return f"{self._name}-{chat_id}"

    def forget(self) -> None:
        """Drop what the engine still holds of private chats, and all attached text."""
        self._collections.close()
        for chat_id in sorted(self._private_chats):
            self._drop(self.conversation(chat_id))
        for name in sorted(self._pins if self.private else ()):
            self._drop(name)
        self._private_chats.clear()
        self._pins.clear()

    def close(self) -> None:
        """End the engine and the files; saves what should outlive the program."""
        try:
            self.cancel()
            # Answers that other threads stream end first, so that their rows are written.
            self._requests.wait(CLOSE_PATIENCE_S)
            self.knowledge.end_embedding()
            self.forget()
        finally:
            try:
                self.client.close()
            finally:
                self.knowledge.close()
                self.history.close()

    # ---- the steps of an answer

    def _send(self, chat_id: int | None, text: str, options: Options) -> Events:
        placed = self._placed(text, options)
        require_text(placed.text)
        if chat_id is None:
            chat_id = self.new_chat().id
        with self._lock(chat_id):
            chat = self.history.chat(chat_id)
            user = self._add_question(chat_id, chat.current_leaf, placed)
            yield from self._answer(chat, user.id, options, text, placed)

    def _edit(self, user_message_id: int, text: str, options: Options) -> Events:
        placed = self._placed(text, options)
        require_text(placed.text)
        old = self.history.message(user_message_id)
        if old.role != "user":
            raise UsageError(
                f"Message {user_message_id} is an answer.",
                "Only questions can be edited.",
                f"Its question is message {old.parent_id}.",
            )
        with self._lock(old.chat_id):
            user = self._add_question(old.chat_id, old.parent_id, with_older(placed, old))
            chat = self.history.chat(old.chat_id)
            yield from self._answer(chat, user.id, options, text, placed)

    def _add_question(self, chat_id: int, parent_id: int | None, placed: Placed) -> Message:
        sources = None if placed.given is None else Sources("", given=placed.given)
        return self.history.add_user(chat_id, parent_id, placed.text, sources)

    def _regenerate(self, message_id: int, options: Options) -> Events:
        message = self.history.message(message_id)
        question_id = message.id if message.role == "user" else message.parent_id
        if question_id is None:
            raise UsageError(f"Message {message_id} answers no question.")
        with self._lock(message.chat_id):
            yield from self._answer(self.history.chat(message.chat_id), question_id, options)

    def _continue(self, message_id: int, options: Options) -> Events:
        message = self.history.message(message_id)
        if message.role != "assistant" or message.parent_id is None:
            raise UsageError(f"Message {message_id} is a question.", "", "Only answers go on.")
        with self._lock(message.chat_id):
            chat = self.history.chat(message.chat_id)
            if not (message.text or message.reasoning):
                yield from self._answer(chat, message.parent_id, options)
                return
            loaded = self._require_model()
            submit = self._submit(chat, self.history.path(chat.id, message.id), options, "continue")
            info = answer_info(loaded, submit)
            self.history.resume_answer(message.id)
            saved = Saved(chat.id, message.parent_id, message.id)
            turn = Turn(self.history, self.client, saved, info, message)
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
        submit = self._submit(chat, self.history.path(chat.id, question_id), options, "answer")
        info = answer_info(loaded, submit)
        answer = self.history.begin_answer(chat.id, question_id, info)
        saved = Saved(chat.id, question_id, answer.id)
        notices = placed.notices if placed is not None else ()
        turn = Turn(self.history, self.client, saved, info, notices=notices)
        question = self._question(chat, question_id, submit, options, text)
        if placed is not None:
            question = replace(question, attached=placed.searched)
        yield from self._run(turn, question)

    def _question(
        self, chat: Chat, question_id: int, submit: Submit, options: Options, text: str = ""
    ) -> Question:
        return Question(
            chat=chat,
            message_id=question_id,
            text=text.strip() or written(self.history.message(question_id)),
            submit=submit,
            loaded=self._require_model(),
            settings=options.documents or self.settings.kb,
            kb=options.kb,
        )

    def _placed(self, text: str, options: Options) -> Placed:
        """Short attached text before the question, long text aside, to be searched."""
        if not options.attached:
            return Placed(text)
        choice = (options.documents or self.settings.kb).attach
        context = self._require_model().ctx

        def count(text: str) -> int:
            counted = self.client.count(text)
            return estimate(text) if counted is None else counted

        return place(text, options.attached, count, context, choice, options.as_written)

    def _run(self, turn: Turn, question: Question) -> Events:
        request_id = question.submit.request_id
        with self._requests.running(request_id, question.chat.id) as running:
            events = self._asking.steps(question, running)
            yield from turn.run(request_id, events, running.cancelled.is_set)

    def base(self, name: str) -> KnowledgeBase:
        """The knowledge base of that name, open until the session closes. NoSuchBase."""
        return self.knowledge.get(name)

    def _collect(self, submit: Submit, chat_id: int) -> Result:
        with self._requests.running(submit.request_id, chat_id):
            for event in self.client.submit(submit):
                if isinstance(event, Finished):
                    return event.result
                if isinstance(event, Failed):
                    raise as_error(event.cause)
        raise LocalchatError("The engine gave no answer.")

    def _submit(
        self, chat: Chat, path: list[Message], options: Options, kind: SubmitKind
    ) -> Submit:
        sampling = self.settings.sampling
        if self.private:
            self._private_chats.add(chat.id)
        return Submit(
            request_id=uuid.uuid4().hex,
            conversation=self.conversation(chat.id),
            messages=chat_messages(chat, path),
            kind=kind,
            sampling=merged(sampling_overrides(self.settings), options.sampling),
            max_tokens=sampling.max_tokens if options.max_tokens is None else options.max_tokens,
            stop=options.stop or sampling.stop,
            priority=options.priority,
            date=chat.date,
            stop_after=options.stop_after,
        )

    def _require_model(self) -> Loaded:
        if self.loaded is None:
            raise ModelNotFound("No model is loaded.", "", "Choose one: localchat models list.")
        return self.loaded

    def _lock(self, chat_id: int) -> AbstractContextManager[object]:
        if self.private:
            return ExitStack()
        return conversation_lock(self.paths.locks, chat_id)

    def _as_events(self, events: Events) -> Events:
        try:
            # Not `yield from`: what goes wrong while the front end goes away has no one to go to.
            for event in events:  # noqa: UP028  (see above)
                yield event
        except (LocalchatError, OSError) as error:
            yield Failed(None, to_error_info(error))
        finally:
            with suppress(LocalchatError, OSError):
                events.close()
