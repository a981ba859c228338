"""A knowledge base whose searches are a script: what a question finds is decided by the test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.knowledge.passage import Passage, Retrieved
from app.knowledge.stored import StoredChunk


def passage(text: str, name: str = "notes.md", first_line: int = 1, score: float = 1.0) -> Passage:
    last = first_line + text.count("\n")
    return Passage(
        Path("/docs") / name,
        name,
        text,
        0,
        len(text),
        first_line=first_line,
        last_line=last,
        score=score,
    )


@dataclass
class FakeIndex:
    """Documents that can be read whole, one chunk each; none by default."""

    texts: dict[str, str] = field(default_factory=dict)

    def content_ids(self, name: str = "") -> list[int]:
        return [number for number, one in enumerate(self.texts) if name in one]

    def document_chunks(self, content_id: int) -> list[StoredChunk]:
        name, text = list(self.texts.items())[content_id]
        last = 1 + text.count("\n")
        place = (None, None, 1, last)
        path = Path("/docs") / name
        chunk = (content_id, content_id, path, name, (), 0, text, "", (), 0, len(text), *place)
        return [StoredChunk(*chunk, embed_text=text, hidden_characters=0, title="")]


@dataclass
class FakeBase:
    found: Retrieved = field(default_factory=lambda: Retrieved(()))
    name: str = "work"
    folder: Path = Path("no such folder")
    index: FakeIndex = field(default_factory=FakeIndex)
    asked: list[tuple[str, int, tuple[str, ...]]] = field(default_factory=list)
    rescans: int = 0
    is_read: bool = True
    closed: bool = False

    def rescan(self) -> bool:
        self.rescans += 1
        return self.is_read

    def sync(self, report: object = None, *, lexical_only: bool = False) -> None:
        """Nothing is learnt."""

    def query(
        self, text: str, budget_characters: int = 8000, history_terms: Sequence[str] = ()
    ) -> Retrieved:
        self.asked.append((text, budget_characters, tuple(history_terms)))
        return self.found

    def close(self) -> None:
        self.closed = True
