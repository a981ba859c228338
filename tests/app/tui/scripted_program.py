"""The whole program on a real terminal, over a scripted engine: `python -m … FOLDER [slow]`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import app.session
from app.paths import Paths
from app.session import Session
from app.settings import Settings
from app.terminal import run_guarded
from app.tui import LocalchatApp, driver_class, prepare_log
from tests.app.tui.fakes import Script, ScriptedClient, make_session

EVIL = "A \x1b]52;c;eA==\x07 \x1b[2J \x1b]0;owned\x07 \x9b31m [bold]b[/] \x1b[?1049l end."


def scripts(kind: str) -> list[Script]:
    if kind == "slow":
        return [Script(pieces=tuple(f"word{number} " for number in range(2_000)), pause_s=0.02)]
    return [Script(pieces=(EVIL,))]


def program(folder: Path, kind: str) -> int:
    """What the parent guards."""
    prepare_log(Paths.under(folder))
    settings = Settings()
    model = folder / "model.gguf"
    model.write_bytes(b"GGUF")
    app.session.choose_model = lambda *_: model  # type: ignore[assignment]

    def open_session() -> Session:
        return make_session(folder, ScriptedClient(scripts(kind)), settings)

    screen = LocalchatApp(open_session, settings, None, driver_class())
    screen.run()
    return screen.return_code or 0


if __name__ == "__main__":
    place, what = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    sys.exit(run_guarded(partial(program, place, what), Paths.under(place).log))
