"""Slow work of the chat screen, in threads: what it returns is posted, what it raises is told."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from textual.message import Message

from app.messages import Told

if TYPE_CHECKING:
    from app.screens.chat import ChatScreen

Job = Callable[[], Message | None]


class Work:
    """Work on the store runs in order in one thread, all other in threads of its own."""

    def __init__(self, screen: ChatScreen) -> None:
        self.screen = screen
        self._store = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._is_over = False

    def in_store(self, job: Job) -> None:
        if not self._is_over:
            self._store.submit(self.guarded, job)

    def in_thread(self, job: Job, group: str) -> None:
        self.screen.run_worker(lambda: self.guarded(job), thread=True, group=group)

    def guarded(self, job: Job) -> None:
        """In a thread."""
        try:
            message = job()
        except Exception as error:
            message = Told(self.log_error(error), is_problem=True)
        if message is not None and self.screen.is_attached:
            self.screen.post_message(message)

    def log_error(self, error: Exception) -> str:
        """One line for the person; a defect of ours leaves its traceback in the log."""
        from app.errors import in_one_line, to_error_info
        from engine.errors import LocalchatError

        if not isinstance(error, LocalchatError):
            import logging

            logging.getLogger("localchat").error("in a worker thread", exc_info=error)
        return in_one_line(to_error_info(error))

    def finish(self) -> None:
        """Waits for what is being written; call it last."""
        self._is_over = True
        self._store.shutdown(wait=True)
