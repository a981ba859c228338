"""Laws of the start: nothing heavy before the first paint, and a light parent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def imported(statement: str) -> set[str]:
    """What a fresh interpreter holds after a statement."""
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_screen_is_painted_without_engine_database_and_numbers() -> None:
    heavy = {
        "sqlite3",
        "numpy",
        "jinja2",
        "llama_cpp",
        "torch",
        "psutil",
        "rich.markdown",
        "engine.client",
        "engine.library",
        "models.description",
        "app.session",
    }
    assert imported("import app.application") & heavy == set()


UP_TO_THE_FORK = """
import app.cli, app.terminal
app.cli._at_terminal = lambda: True
app.terminal.run_guarded = lambda front_end, log: 0
assert app.cli.main(["-o", "temperature=0"]) == 0
"""


def test_the_guarding_parent_holds_only_what_it_needs_for_the_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"LOCALCHAT_{kind}_DIR", str(tmp_path))
    monkeypatch.setenv("TERM", "xterm-256color")
    (tmp_path / "config.toml").write_text("[chat]\nenter_sends = false\n")
    held = imported(UP_TO_THE_FORK)
    heavy = {"textual", "rich", "asyncio", "sqlite3", "numpy", "jinja2", "llama_cpp", "subprocess"}
    assert {name for name in held if name.split(".")[0] in heavy} == set()
    ours = {"engine.client", "engine.messages", "app.session", "app.startup", "app.store"}
    assert held & ours == set()
    assert "app.settings" in held
