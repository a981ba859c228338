"""Runs the program as a person does: a process with arguments, input and folders of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-m", "app")


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


def environment(home: Path) -> dict[str, str]:
    """All of the program's folders below `home`."""
    folders = {
        f"LOCALCHAT_{kind}_DIR": str(home / kind.lower())
        for kind in ("CONFIG", "DATA", "STATE", "CACHE")
    }
    search = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "HOME": str(home), "PYTHONPATH": os.pathsep.join(search), **folders}


def run_program(
    home: Path, *arguments: str, stdin: str | bytes = b"", timeout: float = 120, **variables: str
) -> Outcome:
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        [*COMMAND, *arguments],
        input=data,
        capture_output=True,
        env={**environment(home), **variables},
        timeout=timeout,
        check=False,
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())
