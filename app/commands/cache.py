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
Saved conversation states, tuning results and converted models; all can be
made again.

  localchat cache [status]    how much there is
  localchat cache clear       delete all saved states

Converted models are removed by `localchat models convert --remove`.
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
    from engine.conversion import list_converted

    if args.action not in ACTIONS:
        guess = nearest(args.action, ACTIONS) or "status"
        raise UsageError(f"There is no `cache {args.action}`.", "", f"Did you mean `{guess}`?")
    paths = Paths.default()
    folder = paths.cache
    files = list(saved_states(folder))
    total = sum(path.stat().st_size for path in files)
    if args.action == "clear":
        for path in files:
            path.unlink(missing_ok=True)
    converted = list_converted(paths.converted_models)
    made = sum(one.bytes for one in converted)
    if args.json:
        states = {"folder": str(folder), "states": len(files), "bytes": total}
        console.json(states | {"converted": len(converted), "converted_bytes": made})
        return 0
    verb = "deleted" if args.action == "clear" else "saved"
    console.line(f"{len(files)} conversation states {verb}, {size(total)}, in {folder}")
    if converted:
        noun = "model" if len(converted) == 1 else "models"
        console.line(f"{len(converted)} converted {noun} kept, {size(made)}")
    return 0


def saved_states(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*.state") if path.is_file())
