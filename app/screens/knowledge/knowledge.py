"""Documents of the chat screen: which base answers, its watch, the pages of bases and sources.

What is slow runs in threads that post messages.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from textual.message import Message as TextualMessage

from app import messages as m
from app.knowledge.states import SyncProgress
from app.screens.knowledge.bases import BaseRow, BasesPage, progress_words
from app.screens.page import AskPage, ConfirmPage
from app.widgets.path_suggester import PathSuggester

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
        self._watch: Watch | None = None
        self._watcher = ThreadPoolExecutor(1, thread_name_prefix="watch")
        self._page: BasesPage | None = None

    @property
    def _session(self) -> Session | None:
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
        if name is None:
            return ""
        progress = self.progress[name]
        if progress.phase == "embedding" and self.screen.answering.run is not None:
            return f"{name}: waits for the answer"
        return f"{name}: {progress_words(progress)}"

    # ---- which base answers

    def choose(self, name: str) -> None:
        """Empty: answers come without documents."""
        session = self._session
        if session is None:
            return
        if not name:
            self.leave()
            return

        def use() -> m.BaseUsed:
            session.base(name)
            return m.BaseUsed(name)

        self.screen.in_thread(use, "base")

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
        self.screen.show_title()
        self.screen.show_documents()
        if self._page is not None and self._page.is_attached:
            self._page.show(self._page.rows)

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
            screen.post_message(m.Told(screen.log_error(error), is_problem=True))

    def _stop_watch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()

    def _teller(self, name: str) -> Callable[[SyncProgress], None]:
        """Posts progress, not more often than it is read."""
        import time

        told_at = float("-inf")

        def tell(progress: SyncProgress) -> None:
            nonlocal told_at
            now = time.monotonic()
            if now - told_at >= TELL_EVERY_S:
                told_at = now
                self.screen.post_message(m.BaseAdvanced(name, progress))

        return tell

    def sync(self, name: str, repair: str = "") -> None:
        """Reads what has changed; asked again while it runs, it stops."""
        session = self._session
        if session is None:
            return
        if name in self._stops:
            self._stops[name].set()
            return
        stop = self._stops[name] = Event()
        self.screen.in_thread(lambda: self._sync(session, name, repair, stop), f"sync {name}")

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
            self._list()
        else:
            self.progress[event.name] = event.progress
        self.screen.show_documents()
        if self._page is not None and self._page.is_attached:
            self._page.advanced(event.name)

    def troubled(self, event: m.SyncTroubled) -> None:
        """A decision is a person's."""
        error = event.error
        page = ConfirmPage(error.title, f"{error.text}\n{error.next_step}".strip(), "Make it again")
        self.screen.app.push_screen(
            page, lambda yes: self.sync(event.name, event.repair) if yes else None
        )

    # ---- the page of bases

    def show(self) -> None:
        if self._session is None:
            return
        self._page = BasesPage(self, self.screen.overrides)
        self.screen.app.push_screen(self._page, self._chosen)
        self._list()

    def _chosen(self, name: str | None) -> None:
        self._page = None
        if name is not None:
            self.choose(name)

    def _list(self) -> None:
        session = self.screen.stored_session
        if session is not None and self._page is not None:
            self.screen.in_thread(lambda: m.BasesListed(tuple(base_rows(session))), "bases")

    def listed(self, event: m.BasesListed) -> None:
        if self._page is not None and self._page.is_attached:
            self._page.show(event.rows)

    def ask_new(self) -> None:
        """The folder first: it mostly gives the name."""
        hint = "A folder or file with documents, such as ~/Documents. It is only read."
        self._ask_place("new knowledge base", hint, self._ask_name)

    def _ask_place(self, title: str, hint: str, take: Callable[[Path], None]) -> None:
        """A path that exists; asked again where it does not."""

        def check(place: str | None) -> None:
            if place is None or not place.strip():
                return
            path = Path(place.strip()).expanduser().absolute()
            if path.exists():
                take(path)
            else:
                self.screen.tell(f"There is no {path}.")
                ask(place)

        def ask(value: str) -> None:
            page = AskPage(title, f"{hint} → takes what is offered.", value, PathSuggester())
            self.screen.app.push_screen(page, check)

        ask("")

    def _ask_name(self, folder: Path) -> None:
        page = AskPage("new knowledge base", f"A name for {folder}:", name_for(folder))
        self.screen.app.push_screen(
            page, lambda name: self._create(name.strip(), folder) if name else None
        )

    def _create(self, name: str, folder: Path) -> None:
        session = self._session
        if session is None:
            return

        def create() -> m.BaseMade:
            session.knowledge.all.create(name, [folder]).close()
            return m.BaseMade(name)

        self.screen.in_thread(create, "base")

    def made(self, name: str) -> None:
        if self._page is not None:
            self._page.wanted = name
        self._list()
        self.sync(name)

    def ask_folder(self, name: str) -> None:
        hint = f"A folder or file more for {name}."
        self._ask_place("one folder more", hint, lambda place: self._add(name, place))

    def _add(self, name: str, place: Path) -> None:
        session = self._session
        if session is None:
            return

        def add() -> m.BaseMade:
            session.base(name).add(place)
            return m.BaseMade(name)

        self.screen.in_thread(add, "base")

    def ask_remove(self, name: str) -> None:
        page = ConfirmPage(
            f"Forget {name}?",
            "Its index goes. The documents stay where they are, answers keep what they cite.",
            "Forget it",
        )
        self.screen.app.push_screen(page, lambda yes: self._remove(name) if yes else None)

    def _remove(self, name: str) -> None:
        session = self._session
        if session is None:
            return
        if self.name == name:
            self.leave()
        if name in self._stops:
            self._stops[name].set()

        def remove() -> None:
            session.knowledge.release(name)
            session.knowledge.all.remove(name)
            self.screen.post_message(m.BaseAdvanced(name, None))

        # Behind the end of its watch.
        self._watcher.submit(self.screen.guarded, lambda: remove())

    def show_files(self, name: str) -> None:
        self.screen.sources.show_files(name)

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


def base_rows(session: Session) -> list[BaseRow]:
    """All bases; what is wrong with one does not hide the others."""
    from app.errors import to_error_info
    from engine.errors import LocalchatError

    rows = []
    for name in session.knowledge.all.names():
        try:
            rows.append(BaseRow(name, session.base(name).status()))
        except (LocalchatError, OSError) as error:
            info = to_error_info(error)
            rows.append(BaseRow(name, problem=f"{info.title} {info.text}".strip()))
    return rows


def name_for(folder: Path) -> str:
    """The folder's own name, as far as a base can have it."""
    kept = "".join(c if c.isalnum() or c in "-_ " else " " for c in folder.stem)
    return " ".join(kept.split())[:60] or "documents"
