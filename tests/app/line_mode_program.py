"""Line mode over a scripted engine, as a process for a pseudo-terminal: `python -m … FOLDER`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from app.console import Console
from app.line_mode import LineMode
from app.paths import Paths
from app.session import Session
from app.settings import Settings
from app.store.history import History
from engine.events import Delta, Event, Finished
from engine.messages import Submit
from tests.app.fake_client import FakeClient, result
from tests.patience import becomes


def echo(submit: Submit, client: FakeClient) -> Iterator[Event]:
    """Repeats the question; one that says `slowly` stands still until it is stopped."""
    text = f"<{submit.messages[-1].content}>"
    for letter in text:
        yield Delta(submit.request_id, (1,), letter, "")
        if "slowly" in text and letter == "g":
            becomes(lambda: submit.request_id in client.cancelled)
        if submit.request_id in client.cancelled:
            yield Finished(submit.request_id, result("<", "cancelled"))
            return
    yield Finished(submit.request_id, result(text))


def main(folder: str) -> int:
    # As in a terminal's foreground, also where the tests run in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    paths = Paths.under(Path(folder)).ensure()
    history = History.open(paths.database, paths.locks)
    session = Session(history, FakeClient(script=echo), Settings(), paths)
    try:
        return LineMode(session, Console(), None).run()
    finally:
        session.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
