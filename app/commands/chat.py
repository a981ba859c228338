"""`localchat chat`: a conversation in line mode, or as JSON lines."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from app.arguments import add_conversation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.console import Console

DESCRIPTION = """\
Chat line by line. A line that ends with a backslash goes on; ctrl+c stops an
answer, ctrl+d leaves, /help shows the commands.

With --json each input line is an object, and each prints one object:
  {"user": TEXT}                          ask
  {"edit": USER_MESSAGE_ID, "user": TEXT} ask differently, as a sibling
  {"regenerate": MESSAGE_ID}              another answer
  {"select": MESSAGE_ID}                  make that branch current
  {"system": TEXT}                        new chat from here
  {"title": true}                         let the model name the chat
  {"kb": NAME}                            answer from a knowledge base from here
                                          on; null: no more
Any line may carry "options": {...} (as -o) and "stop_after": N (tokens).
"""

EXAMPLES = """\
examples:
  localchat chat
  localchat chat -c
  printf '%s\\n' '{"user": "Hello"}' | localchat chat --json -o seed=1

exit status: that of the last line (see `localchat ask --help`), 130 when
interrupted
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_conversation(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    from app.commands.conversation import open_conversation

    with open_conversation(args, console) as opened:
        chat_id = opened.start(args)
        if args.json:
            from app.json_mode import JsonMode

            mode = JsonMode(
                opened.session, opened.settings, opened.model, console, chat_id, args.kb
            )
            return mode.run(standard_lines())
        from app.line_mode import LineMode

        return LineMode(opened.session, console, chat_id, args.kb).run()


def standard_lines() -> Iterator[str]:
    """Lines of standard input, each as soon as it is complete; bad UTF-8 is replaced."""
    while line := sys.stdin.buffer.readline():
        yield line.decode("utf-8-sig", "replace")
