"""What `localchat kb` shows of knowledge bases: the list, one base, passages for a question."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from app.commands.kb import opened, places, refuse_more
from app.sanitize import single_line
from engine.errors import LocalchatError, UsageError
from engine.events import ErrorInfo

if TYPE_CHECKING:
    from app.console import Console
    from app.knowledge.base import KnowledgeBase
    from app.knowledge.bases import KnowledgeBases
    from app.knowledge.passage import Passage
    from app.knowledge.states import FileState, Status


def list_all(
    bases: KnowledgeBases, words: list[str], args: argparse.Namespace, console: Console
) -> int:
    from app.exit_codes import OK, exit_code
    from app.knowledge.objects import status_object
    from app.knowledge.states import Status
    from app.listing import moment, table
    from app.result import error_object

    if words:
        raise UsageError("`kb list` takes no words.", "", "One base: localchat kb status NAME")
    states = list(_states(bases))
    found = [status for _, status in states if isinstance(status, Status)]
    broken = {name: error for name, error in states if isinstance(error, ErrorInfo)}
    for error in broken.values():
        console.error(error)
    if args.json:
        objects = [status_object(status) for status in found]
        failed = [{"name": name, **error_object(error)} for name, error in broken.items()]
        console.json([*objects, *failed], indent=True)
    elif not states:
        console.note("There is no knowledge base yet.")
        console.note("  For example: localchat kb create work ~/Documents/work")
    else:
        rows = [
            (
                f"{status.indexed_files:,}",
                f"{status.chunks:,}",
                "now" if status.is_syncing else moment(status.synced) if status.synced else "-",
                status.name,
            )
            for status in found
        ]
        if rows:
            console.line(table(("files", "passages", "in step", "name"), rows, "rrl"))
    return max((exit_code(error.code) for error in broken.values()), default=OK)


def _states(bases: KnowledgeBases) -> Iterator[tuple[str, Status | ErrorInfo]]:
    """All bases by name; in the place of one that cannot be opened, what is wrong with it."""
    from app.errors import to_error_info

    for name in bases.names():
        try:
            with bases.open(name) as base:
                base.rescan()
                yield name, base.status()
        except LocalchatError as error:
            yield name, to_error_info(error)


def show(
    bases: KnowledgeBases, words: list[str], args: argparse.Namespace, console: Console
) -> int:
    from app.knowledge.objects import file_object, status_object
    from app.knowledge.states import INDEXED

    refuse_more(words, "status")
    with opened(bases, words, "status") as base:
        catch_up(base, console)
        status, files = base.status(), base.files()
    if args.json:
        states = [file_object(file) for file in files]
        console.json({**status_object(status), "file_states": states}, indent=True)
        return 0
    console.line(status.name)
    for name, value in status_lines(status):
        console.line(f"  {name:<12}{value}")
    if not args.files:
        files = [file for file in files if file.state != INDEXED or file.notices]
    if files:
        console.line("\n" + files_table(files))
    return 0


def status_lines(status: Status) -> list[tuple[str, str]]:
    """What a base is, for people: names and values."""
    from app.knowledge.errors import typed
    from app.listing import moment, size

    missing = set(status.missing_roots)
    lines = [
        ("folder", single_line(str(root)) + (" (cannot be read now)" if root in missing else ""))
        for root in status.roots
    ]
    never = f"not yet: localchat kb sync {typed(status.name)}"
    lines += [
        ("files", f"{status.files:,}, of which {status.indexed_files:,} are indexed"),
        ("passages", f"{status.chunks:,}, of which {status.embedded_chunks:,} with meaning"),
        ("meaning by", status.embedder or "nothing yet: searched by words"),
        *search_lines(status),
        ("index", size(status.index_bytes)),
        ("in step", moment(status.synced) if status.synced else never),
    ]
    if status.is_syncing:
        lines.append(("now", "a process is reading the documents"))
    return lines


def search_lines(status: Status) -> list[tuple[str, str]]:
    """`graph + exact tail`, or `exact: there is no search graph yet`"""
    search = status.vector_search
    if search is None:
        return []
    return [("vectors", ": ".join(filter(None, (search.way, search.notice))))]


def files_table(files: list[FileState]) -> str:
    from app.listing import size, table

    rows = [
        (
            f"{file.chunks:,}",
            size(file.size),
            file.state,
            file.name + "".join(f" ({notice})" for notice in file.notices),
        )
        for file in files
    ]
    return table(("passages", "size", "state", "file"), rows, "rrl")


def query(
    bases: KnowledgeBases, words: list[str], args: argparse.Namespace, console: Console
) -> int:
    from app.knowledge.objects import retrieved_object

    question = " ".join(words[1:])
    if not question.strip():
        raise UsageError(
            "`kb query` needs a name and a question.",
            "",
            'For example: localchat kb query work "When does the lease end?"',
        )
    with opened(bases, words, "query") as base:
        catch_up(base, console)
        found = base.query(question, budget_characters=args.characters)
    if args.json:
        console.json(retrieved_object(base.name, question, found), indent=True)
        return 0
    taken, left = ((), found.best_first) if found.is_refused else (found.passages, found.unused)
    for number, passage in enumerate(taken, 1):
        console.line(passage_text(number, passage))
    if found.reason:
        console.note(found.reason)
    if left:
        console.note_faint(
            "The nearest, not near enough:" if found.is_refused else "Found, but not taken:"
        )
        for passage in left:
            console.note_faint(f"  {passage.place} ({passage.reason})")
    return 0


def passage_text(number: int, passage: Passage) -> str:
    """The place with its score, and the text below it, set in."""
    parts = [f"[{number}] {passage.place}"]
    if passage.reason:
        parts.append(f"({passage.reason})")
    if passage.hidden_characters:
        parts.append(f"({passage.hidden_characters:,} invisible characters taken out)")
    text = passage.text
    if passage.header and not text.startswith(passage.header):
        text = f"{passage.header}\n{text}"
    return " ".join(parts) + "\n    " + text.replace("\n", "\n    ") + "\n"


def catch_up(base: KnowledgeBase, console: Console) -> None:
    """Nothing watches while no program runs: what has changed is read before it is asked about.

    Ctrl+C ends the command.
    """
    from app.errors import Busy, DiskFull
    from app.indexing import Indexing

    indexing = Indexing(base, console)
    try:
        report = indexing.run(lexical_only=True)
    except Busy:
        console.note_faint("Another process is reading the documents; this is what it has so far.")
        return
    except DiskFull as error:
        console.note(f"{error.title}: what has changed cannot be read. What was indexed is used.")
        return
    if indexing.interrupted:
        raise KeyboardInterrupt
    for root in report.missing_roots:
        console.note(
            f"Cannot be read now: {single_line(str(root))}. What was indexed of it is used."
        )


def export(
    bases: KnowledgeBases, words: list[str], args: argparse.Namespace, console: Console
) -> int:
    if len(words) != 2:
        raise UsageError(
            "`kb export` needs a name and a file.",
            "",
            "For example: localchat kb export work work.jsonl",
        )
    from app.listing import pieces

    path = places(words[1:])[0]
    if path.is_dir():
        raise UsageError(f"{path} is a folder.", "", "Name a file.")
    if path.is_file() and not args.yes:
        raise UsageError(f"{path} exists.", "Nothing was written.", "Add --yes to replace it.")
    with opened(bases, words, "export") as base:
        catch_up(base, console)
        base.export(path)
        chunks = base.status().chunks
    if args.json:
        console.json({"name": words[0], "path": str(path), "chunks": chunks})
    else:
        console.note(f"{pieces(chunks, 'passage')} written to {path}")
    return 0
