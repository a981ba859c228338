"""Loading a model: choose, progress, cancel, failure, the page of the first start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app import messages as m
from app.screens.models import ModelsPage
from app.widgets.bars import Load, model_words
from engine.events import ErrorInfo
from engine.messages import Loaded, LoadProgress

if TYPE_CHECKING:
    from app.screens.chat import ChatScreen
    from app.session import Session


class Loading:
    """At most one model is loaded, and one on its way."""

    def __init__(self, screen: ChatScreen) -> None:
        self.screen = screen
        self.wanted: str | None = None
        """The model named on the command line, for the first load."""
        self.is_running = False
        self.was_cancelled = False

    def words(self) -> str:
        """For the title bar."""
        loaded = self.screen.loaded
        if loaded is None:
            return "" if self.is_running else "no model"
        return f"{model_words(loaded)} · {'fits' if loaded.fits else 'does not fit'}"

    def begin(self, model: str | None) -> None:
        screen = self.screen
        session = screen.stored_session
        if session is None or self.is_running:
            return
        self.is_running, self.was_cancelled = True, False
        screen.load_bar.load = Load(model or "")
        screen.bars.show_footer()
        screen.bars.show_title()
        screen.run_worker(
            lambda: self._load(session, model), thread=True, group="load", exit_on_error=False
        )

    def _load(self, session: Session, model: str | None) -> None:
        """In a thread."""
        post = self.screen.post_message

        def progress(event: LoadProgress) -> None:
            post(m.LoadAdvanced(event.done_bytes, event.total_bytes))

        try:
            post(m.ModelLoaded(session.load(model, progress)))
        except Exception as error:
            from app.errors import to_error_info
            from engine.errors import LocalchatError, ModelNotFound

            if not isinstance(error, LocalchatError):
                self.screen.work.log_error(error)
            no_model = isinstance(error, ModelNotFound) and model is None
            post(m.LoadFailed(to_error_info(error), no_model=no_model))

    def advanced(self, event: m.LoadAdvanced) -> None:
        bar = self.screen.load_bar
        if bar.load is not None:
            bar.load = Load(bar.load.name, event.done_bytes, event.total_bytes)

    def done(self, loaded: Loaded) -> None:
        screen = self.screen
        self._end()
        screen.loaded = loaded
        screen.bars.show_title()
        screen.draft.show_used()
        for notice in loaded.notices:
            screen.tell(notice)
        if not screen.transcript.turns:
            screen.overlays.show_empty()
        screen.answering.send_pending()
        screen.draft.count(screen.prompt.whole)

    def failed(self, event: m.LoadFailed) -> None:
        screen = self.screen
        self._end()
        session = screen.stored_session
        screen.loaded = session.loaded if session is not None else None
        screen.answering.stop()
        screen.bars.show_title()
        if event.no_model:
            screen.overlays.show_first_start(event.error)
        elif self.was_cancelled:
            screen.tell(f"Loading was stopped. {screen.key('chat.models')} chooses a model.")
            screen.overlays.show_empty()
        else:
            self._show_problem(event.error)

    def _show_problem(self, error: ErrorInfo) -> None:
        hint = error.next_step or f"{self.screen.key('chat.models')} chooses another model."
        self.screen.overlays.show_problem(ErrorInfo(error.code, error.title, error.text, hint))

    def stop(self) -> bool:
        """Escape; whether a load was running."""
        session = self.screen.stored_session
        if not self.is_running or session is None or self.was_cancelled:
            return self.is_running
        self.was_cancelled = True
        self.screen.work.in_thread(session.client.cancel_load, "cancel")
        return True

    def _end(self) -> None:
        self.is_running = False
        self.screen.load_bar.load = None
        self.screen.bars.show_footer()

    # ---- choosing

    def choose(self) -> None:
        """The list of models; the search for them runs in a thread."""
        screen = self.screen
        session = screen.stored_session
        if session is None:
            return
        folder = session.paths.models
        page = ModelsPage(screen.loaded, str(folder))

        def find() -> None:
            from engine.library import default_folders, find_models

            page.post_message(m.ModelsFound(tuple(find_models(default_folders(folder)))))

        screen.app.push_screen(page, self._chosen)
        screen.work.in_thread(lambda: find(), "models")

    def _chosen(self, path: str | None) -> None:
        if path is None:
            return
        if self.screen.answering.run is not None:
            self.screen.tell("An answer is being written; the model can change when it is over.")
            return
        self.begin(path)
