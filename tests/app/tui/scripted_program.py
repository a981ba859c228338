"""The whole program on a real terminal, over a scripted engine: `python -m … FOLDER [KIND]`.

Kinds: `slow` and `markdown` are answers; `warn` warns, `crash` raises in a handler, `crash-early`
before there is a screen.
"""

from __future__ import annotations

import logging
import sys
import warnings
from functools import partial
from pathlib import Path

import app.session
import app.terminal
from app.application import LocalchatApp
from app.paths import Paths
from app.session import Session
from app.settings import Settings
from app.terminal import run_guarded
from app.tui import driver_class, prepare_log
from tests.app.tui.fakes import Script, ScriptedClient, make_session
from tests.patience import PATIENCE_S

EVIL = "A \x1b]52;c;eA==\x07 \x1b[2J \x1b]0;owned\x07 \x9b31m [bold]b[/] \x1b[?1049l end."


def scripts(kind: str) -> list[Script]:
    if kind == "slow":
        return [Script(pieces=tuple(f"word{number} " for number in range(2_000)), pause_s=0.02)]
    if kind == "markdown":
        return [Script(pieces=tuple(markdown_pieces()), pause_s=0.1)]
    return [Script(pieces=(EVIL,))]


def markdown_pieces() -> list[str]:
    """About 1,500 tokens, ten at a time, as 100 tokens a second arrive at 10 Hz."""
    section = (
        "## A heading\n\nSome **bold** and `code` words in a paragraph that goes on for a while "
        "so that it wraps over more than one line of the screen.\n\n"
        "- first point of the list with words\n- second point, *slanted*\n  - nested point\n\n"
        "| a | b | c |\n|---|---|---|\n| 1 | 2 | 3 |\n| 4 | 5 | 6 |\n\n"
        "```python\ndef f(n: int) -> int:\n    return n * f(n - 1) if n else 1\n```\n\n"
    )
    text = section * 12
    return [text[index : index + 40] for index in range(0, len(text), 40)]


class Misbehaving(LocalchatApp):
    """Does what its kind says once there is a file `now` in its folder."""

    CSS_PATH = str(Path(app.session.__file__).with_name("app.tcss"))
    kind = ""
    folder = Path()

    def on_mount(self) -> None:
        self.set_interval(0.05, self._look)

    def _look(self) -> None:
        if not (self.folder / "now").exists():
            return
        (self.folder / "now").unlink()
        if self.kind == "warn":
            warnings.warn("a warning of Python", stacklevel=1)
            logging.getLogger("somebody").warning("a record of a logger")
            self.chat_screen.tell("It has warned.")
        else:
            secret = "the text of a chat"
            self.title = str(len(secret) // 0)


def program(folder: Path, kind: str) -> int:
    """What the parent guards."""
    if kind == "crash-early":
        raise ZeroDivisionError("before there is a screen")
    settings = Settings()
    model = folder / "model.gguf"
    model.write_bytes(b"GGUF")
    setattr(app.session, "choose_model", lambda *_: model)  # noqa: B010  no model file is needed

    def open_session() -> Session:
        return make_session(folder, ScriptedClient(scripts(kind)), settings)

    screen = Misbehaving(open_session, settings, None, driver_class())
    screen.kind, screen.folder = kind, folder
    screen.run()
    return screen.return_code or 0


if __name__ == "__main__":
    app.terminal.GRACE_S = int(PATIENCE_S)  # a busy machine is no front end that hangs
    place, what = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    prepare_log(Paths.under(place))
    sys.exit(run_guarded(partial(program, place, what), Paths.under(place).log))
