"""The one path that every front end uses: a model loaded, questions answered, chats kept.

Answers are iterators of events; their steps are in `app/answers.py`. Errors come as `Failed`
events, never as exceptions out of the iterators. It draws and prints nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import TYPE_CHECKING

from app.answer_options import Options
from app.answers import Answers, Events
from app.asking import Asking
from app.attached_text import AttachedText
from app.errors import to_error_info
from app.folder_identity import folder_identity
from app.grounding import Found, Searching
from app.knowledge.open_bases import OpenBases
from app.model_choice import choose_model, remember_model
from app.options import load_options
from app.paths import Paths
from app.running import RunningRequests
from app.settings import Settings
from app.store.conversation import Chat
from app.store.history import History
from app.store.locks import conversation_lock
from app.turn import Answered, Saved, SessionEvent
from engine.client import EngineClient, drop_saved
from engine.errors import LocalchatError
from engine.events import Failed, Usage
from engine.messages import Loaded, LoadProgress

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
        self._pins: set[str] = set()
        self.knowledge: OpenBases = twin.knowledge if twin is not None else OpenBases(paths)
        self._collections = AttachedText(paths.cache, private, lambda: self.knowledge.all.embedder)
        asking = Asking(
            history,
            client,
            self.knowledge,
            self._requests,
            self._collections,
            self._name,
            self._pins,
            private,
        )
        self._answers = Answers(self, asking)
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
        return with_errors(self._answers.send(chat_id, text, options))

    def edit(self, user_message_id: int, text: str, options: Options = DEFAULTS) -> Events:
        """The question asked differently: a sibling of it becomes current and is answered."""
        return with_errors(self._answers.edit(user_message_id, text, options))

    def regenerate(self, message_id: int, options: Options = DEFAULTS) -> Events:
        """Another answer to a question, given by its own id or by one of its answers."""
        return with_errors(self._answers.regenerate(message_id, options))

    def continue_answer(self, message_id: int, options: Options = DEFAULTS) -> Events:
        """A cut or stopped answer goes on; the same message grows."""
        return with_errors(self._answers.go_on(message_id, options))

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
        with self.lock(chat_id):
            self.history.delete_chat(chat_id)

    def undo_delete(self, chat_id: int) -> None:
        self.history.undo_delete(chat_id)

    def purge(self, chat_id: int) -> None:
        """Really gone: text, index, and the engine's memory of it."""
        with self.lock(chat_id):
            self.history.purge(chat_id)
            self._drop(self.conversation(chat_id))

    def title(self, chat_id: int) -> Usage:
        """Let the model name a chat, at background priority; a title that a person set stays, and
        so does any when the job was stopped.

        Raises LocalchatError. Never disturbs the chat's place in the engine's cache.
        """
        return self._answers.title(chat_id)

    def lock(self, chat_id: int) -> AbstractContextManager[object]:
        """Held while a chat is written to; other programs wait for it, or are told."""
        if self.private:
            return ExitStack()
        return conversation_lock(self.paths.locks, chat_id)

    def private_twin(self) -> Session:
        """A session over the same engine whose chats are nowhere but in memory."""
        return Session(
            History.in_memory(), self.client, self.settings, self.paths, private=True, twin=self
        )

    def base(self, name: str) -> KnowledgeBase:
        """The knowledge base of that name, open until the session closes. NoSuchBase."""
        return self.knowledge.get(name)

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
        for chat_id in sorted(self._answers.chats if self.private else ()):
            self._drop(self.conversation(chat_id))
        for name in sorted(self._pins if self.private else ()):
            self._drop(name)
        self._answers.chats.clear()
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


def with_errors(events: Events) -> Events:
    """Errors as `Failed` events."""
    try:
        # Not `yield from`: what goes wrong while the front end goes away has no one to go to.
        for event in events:  # noqa: UP028  (see above)
            yield event
    except (LocalchatError, OSError) as error:
        yield Failed(None, to_error_info(error))
    finally:
        with suppress(LocalchatError, OSError):
            events.close()
