"""`localchat kb`: a reserved name."""

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
  Attach a text file: localchat ask -f PATH
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)


def run(args: argparse.Namespace, console: Console) -> int:
    raise UsageError(
        "`localchat kb` is not available yet.", "", "Attach a text file: localchat ask -f PATH."
    )
