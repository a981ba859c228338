"""Shows the sync of a knowledge base on a plain console while it runs, and says how it ended.

A line on stderr that moves, a note when the words can be searched, and what could not be indexed
with its reason. It decides nothing but when the person wanted to stop.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.interrupt import Interruption
from app.knowledge.errors import typed
from app.listing import fitting, pieces
from app.sanitize import single_line

if TYPE_CHECKING:
    from app.console import Console
    from app.knowledge.base import KnowledgeBase
    from app.knowledge.states import FileState, Phase, Status, SyncProgress, SyncReport

SHOWN_FILES = 20
"""Files that could not be indexed are named up to this many; `kb status` names all."""
DRAW_EVERY_S = 0.1
BAR_CELLS = 20
RATE_AFTER_S = 1.0
"""A rate of less time than this is no rate."""
NOUNS = {"reading": "file", "embedding": "passage", "graph": "passage"}
WORDS = {"reading": "reading", "embedding": "learning meaning", "graph": "linking passages"}


class Indexing:
    """One sync; `interrupted` after a ctrl+c."""

    def __init__(
        self, base: KnowledgeBase, console: Console, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._base = base
        self._console = console
        self._clock = clock
        self._phase: Phase | None = None
        self._phase_began = self._began = clock()
        self._drawn = float("-inf")
        self._total = 0
        self._told_searchable = False
        self.interrupted = False

    def run(self, lexical_only: bool = False, replace_embedder: bool = False) -> SyncReport:
        """Until the index is complete, or ctrl+c: what is done stays. Raises what `sync` raises."""
        self._began = self._clock()
        stopping = "stopping when what is at hand is done …"
        with Interruption(lambda: self._console.status(stopping)) as interruption:

            def report(progress: SyncProgress) -> bool:
                self._show(progress)
                return not interruption.asked

            try:
                done = self._base.sync(
                    report, lexical_only=lexical_only, replace_embedder=replace_embedder
                )
            finally:
                # What ends it is told on a line of its own.
                self._console.clear_status()
        self.interrupted = interruption.asked
        return done

    def _show(self, progress: SyncProgress) -> None:
        now = self._clock()
        if progress.phase != self._phase:
            self._phase, self._phase_began, self._drawn = progress.phase, now, float("-inf")
        if progress.total != self._total:
            # Drawn at once: what follows it may be long.
            self._total, self._drawn = progress.total, float("-inf")
        is_embedding = progress.phase == "embedding" and progress.total > 0
        if is_embedding and progress.is_searchable and not self._told_searchable:
            self._told_searchable = True
            self._console.note_faint(f"Search by words is ready ({now - self._began:.1f} s).")
        if now - self._drawn >= DRAW_EVERY_S:
            self._drawn = now
            columns = shutil.get_terminal_size().columns
            line = progress_words(progress, now - self._phase_began)
            self._console.status(fitting(line, columns - 1))


def progress_words(progress: SyncProgress, elapsed_s: float) -> str:
    """`reading ━━━━──── 412 of 1,000 files · 12 s left · notes/a.md`, `reading …` before it is
    known how many.
    """
    done, total = progress.done, progress.total
    if not total:
        return f"{WORDS[progress.phase]} …"
    filled = BAR_CELLS * min(done, total) // max(total, 1)
    bar = "━" * filled + "─" * (BAR_CELLS - filled)
    parts = [f"{WORDS[progress.phase]} {bar} {done:,} of {pieces(total, NOUNS[progress.phase])}"]
    if done and elapsed_s >= RATE_AFTER_S:
        rate = done / elapsed_s
        if progress.phase != "reading":
            parts.append(f"{rate:.0f} a second")
        parts.append(f"{time_words((total - done) / rate)} left")
    if progress.name:
        parts.append(progress.name)
    return " · ".join(parts)


def time_words(seconds: float) -> str:
    """`12 s`, `4 min`, `2 h`"""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"


def tell_report(report: SyncReport, status: Status, console: Console) -> None:
    """How a sync ended: the base on stdout, the trouble on stderr."""
    console.line(summary(report, status))
    for root in report.missing_roots:
        console.note(f"Cannot be read now: {single_line(str(root))}. What was indexed of it stays.")
        console.note(f"  To take it out: localchat kb remove {typed(status.name)} FOLDER")
    tell_unfinished(report.unfinished, status.name, console)
    if not report.is_complete:
        console.note(f"Stopped. Go on with: localchat kb sync {typed(status.name)}")


def summary(report: SyncReport, status: Status) -> str:
    """`work: 1,000 files, 8,312 passages, all with meaning (3 new, 1 changed)`"""
    parts = [pieces(status.indexed_files, "file"), pieces(status.chunks, "passage")]
    if status.embedded_chunks and status.embedded_chunks >= status.chunks:
        parts.append("all with meaning")
    elif status.embedded_chunks:
        parts.append(f"{status.embedded_chunks:,} of them with meaning")
    else:
        parts.append("searched by words")
    counts = {"new": report.added, "changed": report.changed, "gone": report.removed}
    changes = [f"{count:,} {word}" for word, count in counts.items() if count]
    return f"{status.name}: {', '.join(parts)} ({', '.join(changes) or 'nothing changed'})"


def tell_unfinished(files: tuple[FileState, ...], name: str, console: Console) -> None:
    """Files that are not indexed, each with its reason."""
    if not files:
        return
    console.note(f"{pieces(len(files), 'file')} not indexed:")
    for file in files[:SHOWN_FILES]:
        console.note(f"  {file.state}: {file.name}")
    if len(files) > SHOWN_FILES:
        console.note(f"  and {len(files) - SHOWN_FILES:,} more: localchat kb status {typed(name)}")
