"""`localchat models`: which model files there are, what one is, whether one is sound."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from app.arguments import nearest
from engine.errors import UsageError

if TYPE_CHECKING:
    from app.console import Console
    from engine.library import ModelEntry

DESCRIPTION = """\
Model files: in the models folder, and where other programs keep theirs.

  localchat models [list]        all that were found
  localchat models info MODEL    what one file is, and what it needs
  localchat models check MODEL   whether a file is complete and can run
"""

EXAMPLES = """\
examples:
  localchat models
  localchat models info ~/Downloads/model.gguf
  localchat models check model.gguf && echo fine

exit status of check: 0 sound, 3 not found, damaged or not supported
"""

ACTIONS = ("list", "info", "check")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", default="list", metavar="list|info|check")
    parser.add_argument("model", nargs="?", metavar="MODEL", help="a path, or a listed name")


def run(args: argparse.Namespace, console: Console) -> int:
    if args.action not in ACTIONS:
        guess = nearest(args.action, ACTIONS)
        hint = f"Did you mean `models {guess}`?" if guess else "Known: list, info, check."
        raise UsageError(f"There is no `models {args.action}`.", "", hint)
    if args.action == "list":
        return _list(args, console)
    if not args.model:
        raise UsageError(f"`models {args.action}` needs a model file or a listed name.")
    return _info(args, console) if args.action == "info" else _check(args, console)


def _list(args: argparse.Namespace, console: Console) -> int:
    from app.paths import Paths
    from engine.library import default_folders, find_models

    paths = Paths.default()
    entries = find_models(default_folders(paths.models))
    if args.json:
        console.json([as_object(entry) for entry in entries], indent=True)
    elif entries:
        console.line(listing(entries))
    else:
        console.note("No model was found.")
        console.note(f"  Put .gguf files into {paths.models}, or name one with -m PATH.")
        console.note('  A small one to start with: pip install "localchat[starter]"')
    return 0


def listing(entries: list[ModelEntry]) -> str:
    from app.listing import size, table, tokens

    header = ("name", "architecture", "type", "size", "context", "needs", "fits", "from")
    rows = [
        (
            entry.name,
            entry.architecture or "?",
            entry.quantization or "?",
            size(entry.bytes),
            tokens(entry.ctx_train),
            size(entry.memory_needed) if entry.error is None else "-",
            fit(entry),
            entry.source,
        )
        for entry in entries
    ]
    problems = [f"{entry.name}: {entry.error}" for entry in entries if entry.error]
    return "\n".join([table(header, rows, "lllrrrll"), *problems])


def fit(entry: ModelEntry) -> str:
    if entry.error is not None:
        return "broken"
    return "yes" if entry.fits else "no"


def as_object(entry: ModelEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "path": str(entry.path),
        "architecture": entry.architecture,
        "quantization": entry.quantization,
        "bytes": entry.bytes,
        "parameters": entry.parameters,
        "ctx_train": entry.ctx_train,
        "memory_needed": entry.memory_needed,
        "ctx_fit": entry.ctx_fit,
        "fits": entry.fits,
        "template": entry.template,
        "source": entry.source,
        "error": entry.error,
    }


def _info(args: argparse.Namespace, console: Console) -> int:
    from engine.library import inspect

    facts = inspect(find(args.model).path)
    if args.json:
        console.json(facts, indent=True)
    else:
        width = max(len(name) for name in facts)
        for name, value in facts.items():
            console.line(f"{name:<{width}}  {shown(value)}")
    return 0


def _check(args: argparse.Namespace, console: Console) -> int:
    from app.sanitize import single_line
    from engine.library import check

    path = find(args.model).path
    lines = check(path)
    if args.json:
        console.json({"path": str(path), "sound": True, "checked": lines})
    else:
        console.line("\n".join([single_line(str(path)), *lines]))
    return 0


def find(name: str) -> ModelEntry:
    from app.paths import Paths
    from engine.library import default_folders, find_model

    return find_model(name, default_folders(Paths.default().models))


def shown(value: object) -> str:
    """A fact for people: numbers with separators, no programmers' words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(shown(item) for item in value) or "-"
    return str(value)
