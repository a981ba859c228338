"""`localchat cache`: conversation states that outlive the program: nothing is read twice."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from app.arguments import nearest
from engine.errors import UsageError

if TYPE_CHECKING:
    from app.console import Console

DESCRIPTION = """\
Saved conversation states and tuning results; all can be computed again.

  localchat cache [status]    how much there is
  localchat cache clear       delete all saved states
"""

EXAMPLES = """\
examples:
  localchat cache
  localchat cache clear
"""

ACTIONS = ("status", "clear")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", default="status", metavar="status|clear")


def run(args: argparse.Namespace, console: Console) -> int:
    from app.listing import size
    from app.paths import Paths

    if args.action not in ACTIONS:
        guess = nearest(args.action, ACTIONS) or "status"
        raise UsageError(f"There is no `cache {args.action}`.", "", f"Did you mean `{guess}`?")
    folder = Paths.default().cache
    files = list(saved_states(folder))
    total = sum(path.stat().st_size for path in files)
    if args.action == "clear":
        for path in files:
            path.unlink(missing_ok=True)
    if args.json:
        console.json({"folder": str(folder), "states": len(files), "bytes": total})
    else:
        verb = "deleted" if args.action == "clear" else "saved"
        console.line(f"{len(files)} conversation states {verb}, {size(total)}, in {folder}")
    return 0


def saved_states(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*.state") if path.is_file())
