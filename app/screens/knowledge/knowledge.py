"""Documents of the chat screen: which base answers, its watch, the syncs that run.

What is slow runs in threads that post messages.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING

from textual.message import Message as TextualMessage

from app import messages as m
from app.knowledge.states import SyncProgress
from app.screens.knowledge.bases import progress_words
from app.screens.page import ConfirmPage

if TYPE_CHECKING:
    from app.knowledge.base import KnowledgeBase
    from app.knowledge.watch import Watch
    from app.screens.chat import ChatScreen
    from app.session import Options, Session
    from app.store.conversation import Message

TELL_EVERY_S = 0.2
"""Progress of a sync that is shown."""
REPLACE, REBUILD = "replace", "rebuild"


class Knowledge:
    """At most one base answers; it is watched while it does."""

    def __init__(self, screen: ChatScreen) -> None:
        self.screen = screen
        self.name: str | None = None
        """The base that new questions are answered from."""
        self.progress: dict[str, SyncProgress] = {}
        """Of the syncs that run."""
        self._stops: dict[str, Event] = {}
        """Set: that sync ends."""
        self._again: set[str] = set()
        """Bases that are synced once more when their sync has ended."""
        self._watch: Watch | None = None
        self._watcher = ThreadPoolExecutor(1, thread_name_prefix="watch")

    @property
    def session(self) -> Session | None:
        if self.screen.stored_session is None:
            self.screen.tell("The chats are still being opened.")
        return self.screen.stored_session

    def options(self) -> Options:
        """For a question that is sent now."""
        from app.session import Options

        return Options(kb=self.name)

    def words(self) -> str:
        """What is being done, for the footer: the base that answers first."""
        name = self.name if self.name in self.progress else next(iter(self.progress), None)
        progress = self._attached() if name is None else self.progress[name]
        if progress is None:
            return ""
        name = name or "attached text"
        if progress.phase != "reading" and self.screen.answering.run is not None:
            return f"{name}: waits for the answer"
        return f"{name}: {progress_words(progress)}"

    def _attached(self) -> SyncProgress | None:
        """Of the text that came with the chat on screen."""
        session, chat = self.screen.session, self.screen.chat
        return None if session is None or chat is None else session.learning(chat.id)

    # ---- which base answers

    def choose(self, name: str) -> None:
        """Empty: answers come without documents."""
        session = self.session
        if session is None:
            return
        if not name:
            self.leave()
            return

        def use() -> m.BaseUsed:
            return m.BaseUsed(session.base(name).name)

        self.screen.work.in_thread(use, "base")

    def used(self, name: str) -> None:
        """It is open: it answers, and is kept in step from now on."""
        session = self.screen.stored_session
        if session is None or name == self.name:
            return
        self.leave()
        self.name = name
        self._watcher.submit(self._start_watch, session, name)
        self._show()

    def leave(self) -> None:
        if self.name is None:
            return
        self.name = None
        self._watcher.submit(self._stop_watch)
        self._show()

    def follow(self, path: tuple[Message, ...]) -> None:
        """A chat that has questions is answered as its last question was."""
        questions = [message for message in path if message.role == "user"]
        if questions:
            sources = questions[-1].sources
            name = sources.base if sources is not None else ""
            if name != (self.name or ""):
                self.choose(name)

    def _show(self) -> None:
        self.screen.bars.show_title()
        self.screen.bars.show_documents()
        self.screen.bases.redraw()

    # ---- in step

    def _start_watch(self, session: Session, name: str) -> None:
        """In the watch's own thread, as all that follows a watch."""
        from app.knowledge.watch import Watch

        screen = self.screen
        tell = self._teller(name)

        def report(_report: object) -> None:
            screen.post_message(m.BaseAdvanced(name, None))

        try:
            self._watch = Watch(
                session.base(name), report, tell, lambda text: screen.tell(f"{name}: {text}")
            )
            self._watch.start()
        except Exception as error:
            screen.post_message(m.Told(screen.work.log_error(error), is_problem=True))

    def _stop_watch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()

    def _teller(self, name: str) -> Callable[[SyncProgress], None]:
        """Posts progress, not more often than it is read; a new count at once: what follows it may
        be long.
        """
        import time

        told_at = float("-inf")
        told: tuple[str, int] | None = None

        def tell(progress: SyncProgress) -> None:
            nonlocal told_at, told
            now = time.monotonic()
            counted = (progress.phase, progress.total)
            if counted != told or now - told_at >= TELL_EVERY_S:
                told_at, told = now, counted
                self.screen.post_message(m.BaseAdvanced(name, progress))

        return tell

    def sync(self, name: str, repair: str = "") -> None:
        """Reads what has changed; asked again while it runs, it stops."""
        session = self.session
        if session is None:
            return
        if name in self._stops:
            self._stops[name].set()
            return
        stop = self._stops[name] = Event()
        self.screen.work.in_thread(lambda: self._sync(session, name, repair, stop), f"sync {name}")

    def read_again(self, name: str) -> None:
        """Its folders are others: a sync that runs makes way for a new one; a watch sees it."""
        if name in self._stops:
            self._again.add(name)
            self._stops[name].set()
        elif name != self.name:
            self.sync(name)

    def _sync(self, session: Session, name: str, repair: str, stop: Event) -> TextualMessage | None:
        """In a thread."""
        from app.knowledge.errors import EmbedderChanged, IndexDamaged

        tell = self._teller(name)

        def report(progress: SyncProgress) -> bool:
            tell(progress)
            return not stop.is_set()

        try:
            base = opened(session, name, repair)
            base.sync(report, replace_embedder=repair == REPLACE)
        except (EmbedderChanged, IndexDamaged) as error:
            from app.errors import to_error_info

            wanted = REBUILD if isinstance(error, IndexDamaged) else REPLACE
            return m.SyncTroubled(name, to_error_info(error), wanted)
        finally:
            self.screen.post_message(m.BaseAdvanced(name, None))
        return None

    def advanced(self, event: m.BaseAdvanced) -> None:
        if event.progress is None:
            self.progress.pop(event.name, None)
            self._stops.pop(event.name, None)
            self.screen.bases.reload()
            if event.name in self._again:
                self._again.discard(event.name)
                self.sync(event.name)
        else:
            before = self.progress.get(event.name)
            self.progress[event.name] = event.progress
            if event.progress.is_searchable and not (before and before.is_searchable):
                self.screen.bases.reload()  # All files are read: what it holds has changed.
        self.screen.bars.show_documents()
        self.screen.bases.advanced(event.name)

    def troubled(self, event: m.SyncTroubled) -> None:
        """A decision is a person's."""
        error = event.error
        page = ConfirmPage(error.title, f"{error.text}\n{error.next_step}".strip(), "Make it again")
        self.screen.app.push_screen(
            page, lambda yes: self.sync(event.name, event.repair) if yes else None
        )

    def forget(self, session: Session, name: str) -> None:
        """Its index goes, behind the end of its watch."""
        if self.name == name:
            self.leave()
        self._again.discard(name)
        if name in self._stops:
            self._stops[name].set()

        def remove() -> None:
            session.remove_base(name)
            self.screen.post_message(m.BaseAdvanced(name, None))

        self._watcher.submit(self.screen.work.guarded, remove)

    # ---- the end

    def close(self) -> None:
        """In a thread, before the session closes."""
        for stop in list(self._stops.values()):
            stop.set()
        if self.screen.stored_session is not None:
            self.screen.stored_session.knowledge.end_embedding()
        self._watcher.submit(self._stop_watch)
        self._watcher.shutdown(wait=True)


def opened(session: Session, name: str, repair: str) -> KnowledgeBase:
    if repair == REBUILD:
        session.knowledge.release(name)
        session.knowledge.all.rebuild(name).close()
    return session.base(name)
