"""`localchat ask`: one question, one answer on standard output."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from app.arguments import add_conversation
from engine.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.attached import Attachment
    from app.console import Console
    from app.session import Events, Session

DESCRIPTION = """\
Answer one question. The answer goes to standard output, everything else to
standard error. Piped text is read and put before the question.
"""

EXAMPLES = """\
examples:
  localchat ask "Why is the sky blue?"
  git diff | localchat ask "Write a commit message."
  localchat ask -f notes.txt "Summarise this in three lines."
  localchat ask -c "Shorter, please."
  localchat ask --kb work "How many days of leave are there?"
  localchat ask --json -o temperature=0 -o max_tokens=50 "List three colours."

exit status: 0 ok, 1 failed, 2 usage, 3 model, 4 memory, 5 context too long,
130 interrupted
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("question", nargs="*", metavar="QUESTION", help="what to ask")
    parser.add_argument(
        "-f", "--file", action="append", default=[], metavar="PATH",
        help="put this text file before the question; a long one is searched; may be repeated",
    )  # fmt: skip
    add_conversation(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    from app.commands.conversation import open_conversation
    from app.session import Options

    attached = attachments(args)
    text = question_text(args, attached)
    with open_conversation(args, console) as opened:
        options = Options(kb=args.kb, attached=attached)
        events = opened.session.send(opened.start(args), text, options)
        return answer(opened.session, events, args.json, console)


def answer(session: Session, events: Events, as_json: bool, console: Console) -> int:
    """Show one answer as it comes; returns the exit status."""
    from app.answering import Answering

    return Answering(session, console, as_json).show(events)


def attachments(args: argparse.Namespace) -> tuple[Attachment, ...]:
    """Files, then piped text."""
    from app.attached import Attachment, attached_file

    piped = Attachment("", piped_text(), is_own=True)
    files = [attached_file(Path(path)) for path in args.file]
    return tuple(one for one in (*files, piped) if one.text.strip())


def question_text(args: argparse.Namespace, attached: Sequence[Attachment]) -> str:
    """The argument; it may be missing where there is text already."""
    text = " ".join(args.question)
    if not text.strip() and not attached:
        raise UsageError(
            "There is no question.",
            "Neither an argument nor piped text was given.",
            'For example: localchat ask "Why is the sky blue?"',
        )
    return text


def piped_text() -> str:
    """Standard input where it is no terminal; bytes that are no UTF-8 are replaced visibly."""
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return ""
    return sys.stdin.buffer.read().decode("utf-8-sig", "replace")
