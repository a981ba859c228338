"""`localchat locate`: where things lie on this system."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from app.arguments import nearest
from engine.errors import UsageError

if TYPE_CHECKING:
    from app.console import Console
    from app.paths import Paths

DESCRIPTION = """\
Where settings, chats, caches, logs, models and knowledge bases lie; with a
name that path alone.
"""

EXAMPLES = """\
examples:
  localchat locate
  "$EDITOR" "$(localchat locate config)"
  cp model.gguf "$(localchat locate models)"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="?",
        metavar="NAME",
        help="config, data, state, cache, logs, models or knowledge",
    )


def run(args: argparse.Namespace, console: Console) -> int:
    from app.paths import Paths

    places = located(Paths.default())
    if args.what is None:
        if args.json:
            console.json(places, indent=True)
        else:
            for name, place in places.items():
                console.line(f"{name:<11}{place}")
        return 0
    if args.what not in places:
        guess = nearest(args.what, places)
        hint = f"Did you mean {guess}?" if guess else f"Known: {', '.join(places)}."
        raise UsageError(f"There is no place {args.what!r}.", "", hint)
    if args.json:
        console.json({args.what: places[args.what]})
    else:
        console.line(places[args.what])
    return 0


def located(paths: Paths) -> dict[str, str]:
    return {
        "config": str(paths.config_file),
        "data": str(paths.data),
        "state": str(paths.state),
        "cache": str(paths.cache),
        "logs": str(paths.log.parent),
        "models": str(paths.models),
        "knowledge": str(paths.knowledge),
    }
