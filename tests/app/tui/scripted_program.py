"""The whole program on a real terminal, over a scripted engine: `python -m … FOLDER [slow]`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import app.session
from app.application import LocalchatApp
from app.paths import Paths
from app.session import Session
from app.settings import Settings
from app.terminal import run_guarded
from app.tui import driver_class, prepare_log
from tests.app.tui.fakes import Script, ScriptedClient, make_session

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


def program(folder: Path, kind: str) -> int:
    """What the parent guards."""
    prepare_log(Paths.under(folder))
    settings = Settings()
    model = folder / "model.gguf"
    model.write_bytes(b"GGUF")
    setattr(app.session, "choose_model", lambda *_: model)  # noqa: B010  no model file is needed

    def open_session() -> Session:
        return make_session(folder, ScriptedClient(scripts(kind)), settings)

    screen = LocalchatApp(open_session, settings, None, driver_class())
    screen.run()
    return screen.return_code or 0


if __name__ == "__main__":
    place, what = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    sys.exit(run_guarded(partial(program, place, what), Paths.under(place).log))
