"""The command line: which subcommand, its options, its exit status.

Only the chosen subcommand's module is imported, so that `--help` costs nothing. What the
subcommands do is in `app/commands/`; this module knows their names, and nothing of engines or
chats.

Exit status: 0 ok · 1 failed · 2 usage · 3 model · 4 memory · 5 context too long · 130 interrupted ·
70 a defect of ours, on the screen only.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.arguments import (
    EXAMPLES,
    CommandParser,
    add_common,
    add_model,
    add_options,
    split_command,
    wants_json,
)
from engine.errors import LocalchatError, UsageError

if TYPE_CHECKING:
    import argparse
    from typing import TextIO

COMMANDS = {
    "ask": "one answer on standard output",
    "chat": "a conversation, line by line (or JSON lines with --json)",
    "models": "list, describe and check model files",
    "chats": "list, show, search, export, import and delete chats",
    "kb": "folders of documents made searchable, to answer from",
    "bench": "measure the engine against a bare loop",
    "serve": "an HTTP server (not available yet)",
    "doctor": "what this machine and this installation can do",
    "locate": "where settings, chats, caches, logs and models lie",
    "cache": "saved conversation states: status, clear",
    "replay": "answer a stored message again (not available yet)",
    "completion": "completion script for bash, zsh or fish",
}

BROKEN_PIPE = 141
INTERRUPTED = 130

DESCRIPTION = """\
Chat with a language model on your own machine. Without a command the chat
screen opens.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit status and never shows a traceback."""
    from app.console import prepare_streams

    prepare_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _status(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        _silence(sys.stdout)
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        return _report(error, arguments)


def _status(arguments: list[str]) -> int:
    try:
        return _run(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1


def _run(arguments: list[str]) -> int:
    name, rest = split_command(arguments)
    if name is None:
        return _run_screen(rest)
    if name not in COMMANDS:
        raise _unknown_command(name)
    return run_command(name, rest)


def run_command(name: str, rest: list[str]) -> int:
    from app.console import Console

    module = importlib.import_module(f"app.commands.{name}")
    args = command_parser(name).parse_intermixed_args(rest)
    console = Console(color=args.color, plain=args.plain)
    status: int = module.run(args, console)
    return status


def command_parser(name: str) -> CommandParser:
    """The parser of one subcommand; importing its module is all it costs."""
    module = importlib.import_module(f"app.commands.{name}")
    parser = CommandParser(
        prog=f"localchat {name}",
        description=module.DESCRIPTION,
        epilog=module.EXAMPLES,
    )
    module.add_arguments(parser)
    add_common(parser)
    return parser


def root_parser() -> CommandParser:
    commands = "\n".join(f"  {name:<12}{summary}" for name, summary in COMMANDS.items())
    parser = CommandParser(
        prog="localchat",
        usage="localchat [options] [command] ...",
        description=DESCRIPTION + "\ncommands:\n" + commands,
        epilog=EXAMPLES,
    )
    add_model(parser)
    add_options(parser)
    add_common(parser)
    return parser


def _run_screen(rest: list[str]) -> int:
    args = root_parser().parse_args(rest)
    if not _at_terminal() or args.plain or os.environ.get("TERM") == "dumb":
        return _run_lines(args, rest)
    # This process stays to guard the terminal: what only the screen needs is not imported here.
    from app.paths import Paths
    from app.settings import read_settings
    from app.tui import run as run_screen

    paths = Paths.default()
    return run_screen(paths, read_settings(paths.config_file, args.option), args.model)


def _run_lines(args: argparse.Namespace, rest: list[str]) -> int:
    """Without a full terminal: line mode for piped text or a plain terminal, else help."""
    if args.json or not (sys.stdin.isatty() and not sys.stdout.isatty()):
        return run_command("chat", rest)
    root_parser().print_help()
    return 0


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _unknown_command(name: str) -> UsageError:
    from app.arguments import nearest

    guess = nearest(name, COMMANDS)
    hint = f"Did you mean `localchat {guess}`?" if guess else "`localchat --help` lists them."
    if not guess and " " in name:
        hint = "To ask a question: localchat ask " + repr(name)
    return UsageError(f"There is no command {name!r}.", "", hint)


def _report(error: Exception, arguments: list[str]) -> int:
    """Say on stderr, and to a script on stdout, what went wrong."""
    from app.console import Console
    from app.errors import exit_code, to_error_info
    from app.result import error_object

    if not isinstance(error, LocalchatError):
        _log_traceback(error)
    info = to_error_info(error)
    console = Console()
    try:
        if wants_json(arguments):
            console.json(error_object(info))
        sys.stdout.flush()
    except OSError:
        _silence(sys.stdout)  # What cannot be written is what is told.
    try:
        console.error(info)
    except OSError:
        _silence(sys.stderr)  # Nobody can be told.
    return exit_code(info.code)


def _log_traceback(error: Exception) -> None:
    """The log keeps what the screen does not show of a defect, where it can be written."""
    import traceback

    from app.paths import Paths

    try:
        path = Paths.default().log
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8", opener=_private_opener) as log:
            log.write("".join(traceback.format_exception(error)))
    except OSError:
        pass


def _private_opener(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _silence(stream: TextIO) -> None:
    """It takes nothing more; what is left for it at the exit must not change how that ends."""
    place = os.open(os.devnull, os.O_WRONLY)
    os.dup2(place, stream.fileno())
    os.close(place)


if __name__ == "__main__":
    sys.exit(main())
