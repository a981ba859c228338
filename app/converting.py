"""`localchat models convert`: a safetensors folder as one GGUF file, and the files that are kept.

Knows paths, words and signals; what is written is decided in the engine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.arguments import nearest
from app.interrupt import Interruption
from app.listing import size, table
from app.paths import Paths
from engine.errors import ModelNotFound, UsageError

if TYPE_CHECKING:
    from app.console import Console
    from engine.conversion import Conversion, ConvertedModel

Progress = Callable[[int, int], bool]


def run(args: argparse.Namespace, console: Console) -> int:
    cache = Paths.default().converted_models
    if args.list:
        return _list(cache, args.json, console)
    if args.remove:
        return _remove(cache, args.remove, args.json, console)
    if not args.model:
        raise UsageError("`models convert` needs a folder with config.json and .safetensors files.")
    return _convert(args, cache, console)


def _convert(args: argparse.Namespace, cache: Path, console: Console) -> int:
    from engine.conversion import convert, quality

    folder, output = _folder(args.model), Path(args.output) if args.output else None
    began = time.monotonic()
    with Interruption(lambda: None) as interruption:
        progress = _progress(console, interruption, "converting")
        done = convert(folder, cache, args.type, output, progress)
        seconds = time.monotonic() - began
        found = None
        if args.check:
            found = quality(folder, done.path, _progress(console, interruption, "comparing"))
    console.clear_status()
    result = _as_object(done, folder, args.type, seconds)
    if found is not None:
        result |= {"kld": found.divergence, "top1": found.same_best, "tokens": found.tokens}
    if args.json:
        console.json(result)
        return 0
    console.line(str(done.path))
    how = "kept from before" if done.kept else f"in {seconds:.1f} s"
    console.note(f"{args.type}, {size(done.bytes)}, {how}; the tokens of all test texts agree")
    if found is not None:
        console.note(
            f"against f16 on {found.tokens} tokens: KLD {found.divergence:.4f}, "
            f"same best token {found.same_best:.1%}"
        )
    return 0


def _progress(console: Console, interruption: Interruption, verb: str) -> Progress:
    def show(done: int, total: int) -> bool:
        console.status(f"{verb} {done / max(total, 1):.0%} of {size(total)}")
        return not interruption.asked

    return show


def _as_object(done: Conversion, folder: Path, type_name: str, seconds: float) -> dict[str, Any]:
    return {
        "path": str(done.path),
        "source": str(folder),
        "type": type_name,
        "bytes": done.bytes,
        "kept": done.kept,
        "seconds": round(seconds, 3),
    }


def _folder(name: str) -> Path:
    """A path, or the name of a folder that is listed among the models."""
    if Path(name).is_dir():
        return Path(name).absolute()
    from app.commands.models import find

    path = find(name).path
    if not path.is_dir():
        raise UsageError(f"{name} is a file; only safetensors folders are converted.")
    return path


def _list(cache: Path, as_json: bool, console: Console) -> int:
    from engine.conversion import list_converted

    kept = list_converted(cache)
    if as_json:
        console.json([_kept_object(one) for one in kept], indent=True)
    elif kept:
        rows = [(one.path.name, one.kind, size(one.bytes), one.source) for one in kept]
        console.line(table(("name", "type", "size", "made from"), rows, "llr"))
    else:
        console.note("No converted model is kept.")
    return 0


def _remove(cache: Path, name: str, as_json: bool, console: Console) -> int:
    from engine.conversion import list_converted, remove_converted

    kept = list_converted(cache)
    chosen = [one for one in kept if name in ("all", one.path.name)]
    if not chosen and name != "all":
        guess = nearest(name, [one.path.name for one in kept])
        hint = f"Did you mean {guess}?" if guess else "`models convert --list` shows them."
        raise ModelNotFound(f"No converted model {name} is kept.", "", hint)
    for one in chosen:
        remove_converted(one)
    freed = sum(one.bytes for one in chosen)
    if as_json:
        console.json({"removed": [str(one.path) for one in chosen], "bytes": freed})
    else:
        console.line(f"{len(chosen)} removed, {size(freed)} freed")
    return 0


def _kept_object(one: ConvertedModel) -> dict[str, Any]:
    return {
        "name": one.path.name,
        "path": str(one.path),
        "source": one.source,
        "type": one.kind.lower(),
        "bytes": one.bytes,
    }
