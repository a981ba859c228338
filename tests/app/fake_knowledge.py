"""Knowledge bases without an index: what they hold, find and report is set by the test."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.knowledge.base import KnowledgeBase, Report
from app.knowledge.bases import KnowledgeBases
from app.knowledge.errors import BadBaseName, NoSuchBase
from app.knowledge.passage import Passage, Retrieved
from app.knowledge.states import FileState, Status, SyncProgress, SyncReport
from app.knowledge.stored import VectorSearch
from engine.errors import LocalchatError
from tests.app.fake_base import FakeIndex
from tests.patience import PATIENCE_S


@dataclass
class FakeBase(KnowledgeBase):
    """One base; `steps` is what a sync reports on its way."""

    name: str = "work"
    folders: list[Path] = field(default_factory=list)
    missing: tuple[Path, ...] = ()
    states: list[FileState] = field(default_factory=list)
    steps: tuple[SyncProgress, ...] = ()
    report: SyncReport = field(default_factory=SyncReport)
    found: Retrieved = field(default_factory=lambda: Retrieved(()))
    trouble: LocalchatError | None = None
    """What the next sync raises."""
    gate: threading.Event | None = None
    """Each step but the first waits for it."""
    syncs: list[tuple[bool, bool]] = field(default_factory=list)
    """`lexical_only` and `replace_embedder` of each."""
    questions: list[tuple[str, int]] = field(default_factory=list)
    is_closed: bool = False
    is_syncing: bool = False
    """In another process."""
    index: Any = field(default_factory=FakeIndex)
    vector_search: VectorSearch | None = None

    @property
    def roots(self) -> tuple[Path, ...]:
        return tuple(self.folders)

    def add(self, root: Path) -> None:
        if not root.exists():
            raise BadBaseName(f"There is no folder {root}.")
        self.folders.append(root)

    def drop(self, root: Path) -> None:
        self.folders.remove(root)

    def sync(
        self,
        report: Report | None = None,
        *,
        lexical_only: bool = False,
        replace_embedder: bool = False,
    ) -> SyncReport:
        self.syncs.append((lexical_only, replace_embedder))
        trouble, self.trouble = self.trouble, None
        if trouble is not None and not replace_embedder:
            raise trouble
        for number, step in enumerate(self.steps):
            if number and self.gate is not None:
                self.gate.wait(PATIENCE_S)
            if report is not None and report(step) is False:
                return SyncReport(is_complete=False)
        return self.report

    def rescan(self) -> bool:
        return self.sync(lexical_only=True).is_complete

    def query(
        self, text: str, budget_characters: int = 8000, history_terms: Sequence[str] = ()
    ) -> Retrieved:
        self.questions.append((text, budget_characters))
        return self.found

    def status(self) -> Status:
        indexed = [file for file in self.states if file.state == "indexed"]
        chunks = sum(file.chunks for file in self.states)
        return Status(
            name=self.name,
            roots=self.roots,
            missing_roots=self.missing,
            files=len(self.states),
            indexed_files=len(indexed),
            chunks=chunks,
            embedded_chunks=chunks,
            embedder="small",
            index_bytes=1_234_567,
            is_syncing=self.is_syncing,
            synced=1_764_000_000.0,
            vector_search=self.vector_search,
        )

    def files(self) -> list[FileState]:
        return self.states

    def export(self, path: Path) -> None:
        path.write_text("{}\n")

    def close(self) -> None:
        self.is_closed = True


class FakeBases(KnowledgeBases):
    """All bases of a test."""

    def __init__(self, *bases: FakeBase) -> None:
        self.embedder = None
        self.bases = {base.name: base for base in bases}

    def names(self) -> list[str]:
        return sorted(self.bases)

    def create(self, name: str, roots: Sequence[Path] = ()) -> FakeBase:
        if name in self.bases:
            raise BadBaseName(f"There is a knowledge base {name} already.")
        self.bases[name] = base = FakeBase(name)
        for root in roots:
            base.add(root)
        return base

    def open(self, name: str) -> FakeBase:
        if name not in self.bases:
            raise NoSuchBase(f"There is no knowledge base {name}.")
        return self.bases[name]

    def rebuild(self, name: str) -> FakeBase:
        return self.open(name)

    def remove(self, name: str) -> tuple[str, ...]:
        self.open(name)
        del self.bases[name]
        return ()


def file_state(name: str, state: str = "indexed", chunks: int = 3) -> FileState:
    return FileState(name, Path("/docs") / name, state, 1_200, chunks)


def passage(name: str = "notes.md", text: str = "The lease ends in May.") -> Passage:
    return Passage(
        path=Path("/docs") / name,
        name=name,
        text=text,
        start=120,
        end=120 + len(text),
        headings=("Flat",),
        first_line=40,
        last_line=41,
        score=0.9,
        reason="words .81 + meaning .42",
    )
