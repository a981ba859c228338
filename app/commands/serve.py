"""`localchat serve`: a reserved name."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from engine.errors import UsageError

if TYPE_CHECKING:
    from app.console import Console

DESCRIPTION = """\
Not available yet.
"""

EXAMPLES = """\
instead:
  From a script: localchat chat --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)


def run(args: argparse.Namespace, console: Console) -> int:
    raise UsageError(
        "`localchat serve` is not available yet.", "", "From a script: localchat chat --json."
    )
