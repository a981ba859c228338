"""`localchat completion`: a script that lets a shell complete commands, options and names."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from app.arguments import nearest
from engine.errors import UsageError

if TYPE_CHECKING:
    from app.console import Console

DESCRIPTION = """\
Print a completion script for bash, zsh or fish.
"""

EXAMPLES = """\
examples:
  source <(localchat completion bash)
  localchat completion fish > ~/.config/fish/completions/localchat.fish
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", nargs="?", metavar="SHELL", help="bash, zsh or fish")
    parser.add_argument("--names", choices=("models", "chats", "knowledge"), help=argparse.SUPPRESS)


def run(args: argparse.Namespace, console: Console) -> int:
    from app.completion import SHELLS, names

    if args.names:
        for name in names(args.names):
            console.line(name)
        return 0
    if args.shell not in SHELLS:
        guess = nearest(args.shell or "", SHELLS)
        hint = f"Did you mean {guess}?" if guess else f"Known: {', '.join(SHELLS)}."
        raise UsageError("Which shell?", "", hint)
    console.write(SHELLS[args.shell]())
    console.end_text()
    return 0
