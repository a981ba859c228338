"""`localchat kb`: folders of documents made searchable, and what is found in them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from app.arguments import nearest, positive_int
from engine.errors import UsageError

if TYPE_CHECKING:
    from app.console import Console
    from app.knowledge.base import KnowledgeBase
    from app.knowledge.bases import KnowledgeBases

    Action = Callable[[KnowledgeBases, list[str], argparse.Namespace, Console], int]

DESCRIPTION = """\
Knowledge bases: folders of documents that questions are answered from.

  localchat kb [list]                    all of them
  localchat kb create NAME FOLDER...     a new one; reads the documents
  localchat kb add NAME FOLDER...        folders or files more
  localchat kb sync NAME                 read what has changed
  localchat kb query NAME QUESTION       passages for a question
  localchat kb status NAME               what it holds, what it could not read
  localchat kb export NAME FILE          all passages with places, JSON lines
  localchat kb remove NAME [FOLDER...]   forget it, or folders of it

Documents are only read. Ctrl+C stops; `sync` goes on from there.
"""

EXAMPLES = """\
examples:
  localchat kb create work ~/Documents/work
  localchat kb query work "When does the lease end?"
  localchat kb query work "lease" --json
  localchat ask --kb work "When does the lease end?"
  localchat kb status work --files
  localchat kb remove work --yes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="ACTION", help="see above")
    parser.add_argument(
        "--lexical", action="store_true", help="search by words only: embed nothing now"
    )
    parser.add_argument(
        "--rebuild", action="store_true", help="sync: make the index and its vectors again"
    )
    parser.add_argument("--files", action="store_true", help="status: every file with its state")
    parser.add_argument(
        "--characters", type=positive_int, default=8000, metavar="N",
        help="query: at most so much text (8000)",
    )  # fmt: skip
    parser.add_argument(
        "--yes", action="store_true",
        help="do not ask: remove the base, replace an exported file, or vectors of another model",
    )  # fmt: skip


def run(args: argparse.Namespace, console: Console) -> int:
    from app.commands.kb_show import export, list_all, query, show

    action, *words = args.words or ["list"]
    actions: Mapping[str, Action] = {
        "list": list_all,
        "create": _create,
        "add": _add,
        "sync": _sync,
        "query": query,
        "status": show,
        "export": export,
        "remove": _remove,
    }
    if action not in actions:
        guess = nearest(action, actions)
        hint = f"Did you mean `kb {guess}`?" if guess else f"Known: {', '.join(actions)}."
        raise UsageError(f"There is no `kb {action}`.", "", hint)
    return actions[action](bases_here(), words, args, console)


def bases_here() -> KnowledgeBases:
    from app.paths import Paths
    from app.startup import knowledge_bases

    return knowledge_bases(Paths.default())


@contextmanager
def opened(bases: KnowledgeBases, words: list[str], action: str) -> Iterator[KnowledgeBase]:
    """The base that the first word names."""
    if not words:
        raise UsageError(f"`kb {action}` needs a name.", "", "`localchat kb` lists them.")
    with bases.open(words[0]) as base:
        yield base


def places(words: list[str]) -> list[Path]:
    """Folders and files as a person names them."""
    return [Path(os.path.abspath(os.path.expanduser(word))) for word in words]


def new_roots(words: list[str]) -> list[Path]:
    """All of them are there, or none is added."""
    from app.knowledge.base_file import check_root

    return [check_root(place) for place in places(words)]


def refuse_more(words: list[str], action: str) -> None:
    if len(words) > 1:
        raise UsageError(f"`kb {action}` takes one name.", "", "A name with blanks needs quotes.")


# ---- making and keeping in step


def _create(
    bases: KnowledgeBases, words: list[str], args: argparse.Namespace, console: Console
) -> int:
    if len(words) < 2:
        raise UsageError(
            "`kb create` needs a name and a folder.",
            "",
            "For example: localchat kb create work ~/Documents/work",
        )
    with bases.create(words[0], new_roots(words[1:])) as base:
        return _index(base, args, console)


def _add(
    bases: KnowledgeBases, words: list[str], args: argparse.Namespace, console: Console
) -> int:
    if len(words) < 2:
        raise UsageError("`kb add` needs a name and a folder or file.")
    with opened(bases, words, "add") as base:
        for root in new_roots(words[1:]):
            base.add(root)
        return _index_other_roots(base, args, console)


def _sync(
    bases: KnowledgeBases, words: list[str], args: argparse.Namespace, console: Console
) -> int:
    refuse_more(words, "sync")
    if words and args.rebuild:
        with bases.rebuild(words[0]) as base:
            return _index(base, args, console)
    with opened(bases, words, "sync") as base:
        return _index(base, args, console)


def _index(base: KnowledgeBase, args: argparse.Namespace, console: Console) -> int:
    """Reads and embeds what is new; 130 where ctrl+c stopped it."""
    from app.exit_codes import OK, exit_code
    from app.indexing import Indexing, tell_report
    from app.knowledge.errors import EmbedderChanged
    from app.knowledge.objects import report_object

    indexing = Indexing(base, console)
    try:
        report = indexing.run(args.lexical, replace_embedder=args.yes)
    except EmbedderChanged as changed:
        if args.json or not sys.stdin.isatty() or not _agreed(changed.title, console):
            raise
        report = indexing.run(replace_embedder=True)
    status = base.status()
    if args.json:
        console.json(report_object(report, status), indent=True)
    else:
        tell_report(report, status, console)
    return exit_code("interrupted") if indexing.interrupted else OK


def _index_other_roots(base: KnowledgeBase, args: argparse.Namespace, console: Console) -> int:
    """Which folders there are is stored, also where another process is at the index."""
    from app.errors import Busy
    from app.knowledge.errors import typed

    try:
        return _index(base, args, console)
    except Busy as busy:
        later = f"`localchat kb sync {typed(base.name)}`"
        raise Busy(
            busy.title, busy.text, f"Its folders are changed; when that is done: {later}."
        ) from busy


def _remove(
    bases: KnowledgeBases, words: list[str], args: argparse.Namespace, console: Console
) -> int:
    if len(words) > 1:
        with opened(bases, words, "remove") as base:
            for place in places(words[1:]):
                base.drop(place)
            return _index_other_roots(base, args, console)
    from app.paths import Paths
    from engine.client import drop_saved

    held = _held(bases, words)
    if not args.yes:
        if not sys.stdin.isatty():
            raise UsageError("Removing needs --yes.", "Nothing was removed.", "Add --yes.")
        if not _agreed(f"{held}. The documents stay, the index goes.", console):
            raise UsageError("Nothing was removed.")
    for reading in bases.remove(words[0]):
        drop_saved(str(Paths.default().cache), reading)
    if args.json:
        console.json({"removed": words[0]})
    else:
        console.note(f"Removed {words[0]}. The documents are untouched.")
    return 0


def _held(bases: KnowledgeBases, words: list[str]) -> str:
    """What would go, also where it cannot be read any more."""
    from app.knowledge.errors import KnowledgeError
    from app.listing import pieces

    try:
        with opened(bases, words, "remove") as base:
            status = base.status()
    except KnowledgeError as error:
        return error.title
    return f"{words[0]}: {pieces(status.files, 'file')}, {pieces(status.chunks, 'passage')}"


def _agreed(question: str, console: Console) -> bool:
    console.note(f"{question} Go on? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
