"""Options that several subcommands share, and a parser that suggests the nearest name.

It knows argparse and the words of the options; it opens no file and starts nothing.
"""

from __future__ import annotations

import argparse
import difflib
import shutil
from collections.abc import Iterable, Sequence
from typing import NoReturn

from engine.errors import UsageError

TAKES_VALUE = frozenset(
    ("-m", "--model", "-s", "--system", "--chat", "-f", "--file", "--kb", "-o", "--option")
) | {"--color"}
"""Shared options whose value is the next word; needed to find the command's name behind them."""

EXAMPLES = """\
examples:
  localchat                          open the chat screen
  localchat ask "Why is the sky blue?"
  git diff | localchat ask "Write a commit message."
  localchat ask -c "Shorter, please."
  localchat models list

`localchat COMMAND --help` tells more about a command.
"""


class CommandParser(argparse.ArgumentParser):
    """Raises UsageError instead of exiting, names the nearest option, helps in 80 columns."""

    def __init__(self, prog: str, description: str, epilog: str, usage: str | None = None) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            epilog=epilog,
            formatter_class=_Formatter,
            allow_abbrev=False,
            add_help=False,
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}.", "", self._hint(message))

    def _hint(self, message: str) -> str:
        unknown = next((word for word in message.split() if word.startswith("-")), "")
        if message.startswith("unrecognized arguments") and unknown:
            guess = nearest(unknown.split("=")[0], self._option_string_actions)
            if guess:
                return f"Did you mean {guess}?"
        return f"`{self.prog} --help` shows what is possible."


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        columns = shutil.get_terminal_size().columns
        super().__init__(prog, max_help_position=26, width=max(40, min(columns, 80) - 2))


class _Version(argparse.Action):
    """Reads the version only when it is asked for."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        print("localchat " + version())
        parser.exit()


def version() -> str:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("localchat")
    except PackageNotFoundError:
        return "unknown"


def add_common(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("everywhere")
    group.add_argument("-h", "--help", action="help", help="show this help and leave")
    group.add_argument("-V", "--version", action=_Version, nargs=0, help="show the version")
    group.add_argument("--json", action="store_true", help="JSON for programs")
    group.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colour on stderr"
    )
    group.add_argument("--plain", action="store_true", help="no colour, no moving lines")


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-m", "--model", metavar="MODEL", help="a model file or folder, or a listed name"
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--option",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting for this run: temperature, top_k, top_p, min_p, repeat_penalty, seed, "
        "max_tokens, stop, kv_type, ctx, threads, flash, speculate, kernels, "
        "backend, attach, kb_rewrite, kb_rerank, kb_read_all",
    )


def add_conversation(parser: argparse.ArgumentParser) -> None:
    """Which conversation, which model, and how to answer."""
    add_model(parser)
    parser.add_argument("-s", "--system", metavar="TEXT", help="system prompt of a new chat")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "-c", "--continue", dest="continue_", action="store_true", help="go on with the last chat"
    )
    which.add_argument("--chat", metavar="ID", type=positive_int, help="go on with this chat")
    parser.add_argument("--no-save", action="store_true", help="store nothing of this conversation")
    parser.add_argument("--kb", metavar="NAME", help="answer from this knowledge base")
    add_options(parser)


def positive_int(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1")
    return value


def split_command(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The command's name, and all other words in order: options may stand before the command."""
    index = 0
    while index < len(arguments):
        word = arguments[index]
        if word == "--" or not word.startswith("-") or word == "-":
            break
        index += 2 if word in TAKES_VALUE else 1
    if index >= len(arguments) or arguments[index] == "--":
        return None, list(arguments)
    return arguments[index], [*arguments[:index], *arguments[index + 1 :]]


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether `--json` is among the options, also where parsing failed."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return "--json" in arguments[:end]


def nearest(name: str, known: Iterable[str]) -> str | None:
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.55)
    return found[0] if found else None
