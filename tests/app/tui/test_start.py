"""Laws of the start: nothing heavy before the first paint, and a light parent."""

from __future__ import annotations

import subprocess
import sys


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


def test_the_guarding_parent_holds_no_textual() -> None:
    held = imported("import app.terminal, app.tui, app.paths, app.cli")
    assert {name for name in held if name.split(".")[0] in ("textual", "rich", "asyncio")} == set()
