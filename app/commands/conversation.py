"""What `ask` and `chat` share: settings, session, loaded model, and the chat to go on with."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from app.console import Console
from app.interrupt import Interruption
from app.paths import Paths
from app.session import Session
from app.settings import Settings, read_settings
from app.startup import session_for
from engine.errors import UsageError
from engine.messages import LoadProgress

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Opened:
    """A session with its model loaded, and the settings that hold for this run."""

    session: Session
    settings: Settings
    model: str | None

    def start(self, args: argparse.Namespace) -> int | None:
        """The chat to go on with; None: a new one is made by the first question."""
        session = self.session
        if args.chat is not None:
            return session.history.chat(args.chat).id
        if args.continue_:
            latest = session.history.latest()
            if latest is None:
                raise UsageError(
                    "There is no chat to go on with.", "", "Ask without -c to start the first one."
                )
            return latest.id
        return session.new_chat(args.system).id if args.system is not None else None


@contextmanager
def open_conversation(args: argparse.Namespace, console: Console) -> Iterator[Opened]:
    """Raises what loading raises; closes the session in any case."""
    refuse_contradictions(args)
    paths = Paths.default()
    settings = read_settings(paths.config_file, args.option)
    with session_for(paths, settings, private=args.no_save) as session:
        for notice in session.history.notices:
            console.note(notice)
        if args.kb is not None:
            session.base(args.kb)
        load(session, args.model, console)
        yield Opened(session, settings, args.model)


def load(session: Session, model: str | None, console: Console) -> None:
    """Load with a line about the progress; ctrl+c stops it."""

    def progress(step: LoadProgress) -> None:
        total = max(step.total_bytes, 1)
        console.status(f"loading {100 * step.done_bytes // total} % · {total / MEGABYTE:,.0f} MB")

    with Interruption(session.cancel) as interruption:
        try:
            loaded = session.load(model, progress)
        except Exception:
            if interruption.asked:
                raise KeyboardInterrupt from None
            raise
    console.clear_status()
    if interruption.asked:
        raise KeyboardInterrupt
    for notice in loaded.notices:
        console.note_faint(notice)


def refuse_contradictions(args: argparse.Namespace) -> None:
    goes_on = args.continue_ or args.chat is not None
    if args.no_save and goes_on:
        raise UsageError(
            "--no-save cannot go on with a stored chat.", "", "Leave out one of the two."
        )
    if args.system is not None and goes_on:
        raise UsageError(
            "A chat keeps the system prompt it began with.",
            "",
            "Leave out -s, or start a new chat.",
        )
