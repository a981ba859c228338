"""`localchat chats`: the stored conversations, without an engine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from app.arguments import nearest, positive_int
from engine.errors import UsageError

if TYPE_CHECKING:
    from app.console import Console
    from app.session import Session
    from app.store.conversation import ChatSummary, Message
    from engine.events import ErrorInfo

DESCRIPTION = """\
Stored chats.

  localchat chats [list]           the newest first
  localchat chats show ID          the branch on screen
  localchat chats search WORDS     where all the words stand
  localchat chats export ID        all branches, JSON (--markdown: for reading)
  localchat chats import FILE      a new chat from such a document
  localchat chats delete ID...     really gone, the engine's memory too
"""

EXAMPLES = """\
examples:
  localchat chats search lyon
  localchat chats export 12 > lyon.json
  localchat chats delete 12 13 --yes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="ACTION", help="see above")
    parser.add_argument("--limit", type=positive_int, default=200, metavar="N", help="at most")
    parser.add_argument("--markdown", action="store_true", help="export for reading")
    parser.add_argument("--yes", action="store_true", help="delete without asking")


def run(args: argparse.Namespace, console: Console) -> int:
    action, *words = args.words or ["list"]
    actions: Mapping[str, Callable[[Session, list[str], argparse.Namespace, Console], int]] = {
        "list": _list,
        "show": _show,
        "search": _search,
        "export": _export,
        "import": _import,
        "delete": _delete,
    }
    if action not in actions:
        guess = nearest(action, actions)
        hint = f"Did you mean `chats {guess}`?" if guess else f"Known: {', '.join(actions)}."
        raise UsageError(f"There is no `chats {action}`.", "", hint)
    with _stored() as session:
        return actions[action](session, words, args, console)


@contextmanager
def _stored() -> Iterator[Session]:
    from app.paths import Paths
    from app.settings import read_settings
    from app.startup import session_for

    paths = Paths.default()
    with session_for(paths, read_settings(paths.config_file)) as session:
        yield session


def _list(session: Session, words: list[str], args: argparse.Namespace, console: Console) -> int:
    if words:
        raise UsageError("`chats list` takes no words.", "", "To search: localchat chats search …")
    return _print(session.history.chats(limit=args.limit), args, console)


def _search(session: Session, words: list[str], args: argparse.Namespace, console: Console) -> int:
    if not words:
        raise UsageError("`chats search` needs words.")
    return _print(session.history.search(" ".join(words), args.limit), args, console)


def _print(found: list[ChatSummary], args: argparse.Namespace, console: Console) -> int:
    from app.listing import moment, table
    from app.sanitize import single_line

    if args.json:
        console.json([asdict(chat) for chat in found], indent=True)
        return 0
    rows = [
        (
            str(chat.id),
            moment(chat.updated),
            str(chat.messages),
            single_line(chat.title, 60)
            + (f"  {single_line(chat.snippet)}" if chat.snippet else ""),
        )
        for chat in found
    ]
    console.line(table(("id", "changed", "messages", "title"), rows, "rlr"))
    return 0


def _show(session: Session, words: list[str], args: argparse.Namespace, console: Console) -> int:
    from app.knowledge.places import source_lines

    chat = session.history.chat(one_id(words, "show"))
    messages = session.history.path(chat.id)
    if args.json:
        objects = [message_object(message) for message in messages]
        console.json({**asdict(chat), "messages": objects}, indent=True)
        return 0
    console.line(f"{chat.title or 'Chat'} (chat {chat.id})")
    for message in messages:
        who = "You" if message.role == "user" else "Answer"
        state = "" if message.status == "complete" else f", {message.status}"
        console.line(f"\n[{message.id}] {who}{state}:\n{message.text}")
        for line in source_lines(message.citations):
            console.line(line)
        if (error := error_of(message)) is not None:
            reason = " ".join(part for part in (error.title, error.text, error.next_step) if part)
            console.line(f"({reason})")
    return 0


def error_of(message: Message) -> ErrorInfo | None:
    """Why an answer failed, where it did."""
    return message.info.error if message.info is not None else None


def message_object(message: Message) -> dict[str, Any]:
    from app.portable import documents_of

    error = error_of(message)
    return {
        "id": message.id,
        "parent_id": message.parent_id,
        "role": message.role,
        "text": message.text,
        "reasoning": message.reasoning,
        "status": message.status,
        "created": message.created,
        "error": None if error is None else asdict(error),
        **documents_of(message),
    }


def _export(session: Session, words: list[str], args: argparse.Namespace, console: Console) -> int:
    from app.portable import as_document, as_markdown, read_whole

    whole = read_whole(session.history, one_id(words, "export"))
    if args.markdown:
        console.write(as_markdown(whole))
    else:
        console.json(as_document(whole), indent=True)
    return 0


def _import(session: Session, words: list[str], args: argparse.Namespace, console: Console) -> int:
    from pathlib import Path

    from app.portable import read_document, store_document

    if len(words) != 1:
        raise UsageError("`chats import` needs one file.", "", "`-` reads standard input.")
    data = sys.stdin.buffer.read() if words[0] == "-" else Path(words[0]).read_bytes()
    chat = store_document(session.history, read_document(data))
    if args.json:
        console.json({"chat_id": chat.id, "title": chat.title})
    else:
        console.line(f"chat {chat.id}: {chat.title}")
    return 0


def _delete(session: Session, words: list[str], args: argparse.Namespace, console: Console) -> int:
    ids = [chat_id(word) for word in words]
    if not ids:
        raise UsageError("`chats delete` needs the numbers of chats.")
    chats = [session.history.chat(number) for number in ids]
    if not args.yes:
        _confirm([f"{chat.id}: {chat.title}" for chat in chats], console)
    for chat in chats:
        session.purge(chat.id)
    if args.json:
        console.json({"deleted": ids})
    else:
        console.note(f"Deleted {len(ids)} {'chat' if len(ids) == 1 else 'chats'}.")
    return 0


def _confirm(names: list[str], console: Console) -> None:
    if not sys.stdin.isatty():
        raise UsageError("Deleting needs --yes.", "Nothing was deleted.", "Add --yes.")
    for name in names:
        console.note(name)
    console.note("Delete for good? [y/N]")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("Nothing was deleted.")


def one_id(words: list[str], action: str) -> int:
    if len(words) != 1:
        raise UsageError(f"`chats {action}` needs the number of one chat.")
    return chat_id(words[0])


def chat_id(word: str) -> int:
    try:
        return positive_int(word)
    except argparse.ArgumentTypeError as error:
        raise UsageError(
            f"{word!r} is no number of a chat.", "", "See `localchat chats`."
        ) from error
