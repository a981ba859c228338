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

  localchat models [list]          all that were found
  localchat models info MODEL      what one file is, and what it needs
  localchat models check MODEL     whether a file is complete and can run
  localchat models convert FOLDER  a safetensors folder as one GGUF file, for
                                   machines without CUDA; kept in the cache
                                   unless -o names a place
"""

EXAMPLES = """\
examples:
  localchat models
  localchat models info ~/Downloads/model.gguf
  localchat models check model.gguf && echo fine
  localchat models convert ~/models/SmolLM2-135M
  localchat models convert ~/models/SmolLM2-135M --type f16 -o smol.gguf
  localchat models convert ~/models/SmolLM2-135M --check
  localchat models convert --list
  localchat models convert --remove SmolLM2-135M-Q8_0.gguf

exit status of check and convert: 0 done, 1 no room on the disk, 3 not found,
damaged or not supported, 130 interrupted
"""

ACTIONS = ("list", "info", "check", "convert")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", default="list", metavar="list|info|check|convert")
    parser.add_argument("model", nargs="?", metavar="MODEL", help="a path, or a listed name")
    group = parser.add_argument_group("convert")
    group.add_argument("--type", default="q8_0", metavar="TYPE", help="q8_0 (default), f16 or bf16")
    group.add_argument("-o", "--output", metavar="PATH", help="a .gguf file, or a folder")
    group.add_argument(
        "--check", action="store_true", help="measure how far the file is from the model in f16"
    )
    group.add_argument("--list", action="store_true", help="the files that are kept")
    group.add_argument("--remove", metavar="NAME", help="delete a kept file; `all` for all")


def run(args: argparse.Namespace, console: Console) -> int:
    if args.action not in ACTIONS:
        guess = nearest(args.action, ACTIONS)
        hint = f"Did you mean `models {guess}`?" if guess else f"Known: {', '.join(ACTIONS)}."
        raise UsageError(f"There is no `models {args.action}`.", "", hint)
    if args.action == "list":
        return _list(args, console)
    if args.action == "convert":
        from app.converting import run as run_convert

        return run_convert(args, console)
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
        console.note(f"  Put .gguf files or safetensors folders into {paths.models},")
        console.note("  or name one with -m PATH.")
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
        "format": entry.format,
        "converts": entry.converts,
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
