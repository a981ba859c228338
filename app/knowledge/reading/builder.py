"""Builds a document from blocks: text, tables and headings, in order, with exact offsets.

For formats whose text has no lines of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.knowledge.document import Document, Section
from app.knowledge.reading.cleaning import cleaned
from app.knowledge.reading.headings import Headings
from app.knowledge.reading.limits import Limits
from app.knowledge.reading.source import Refused

BETWEEN = "\n\n"
CELL_BORDER = " | "


class DocumentBuilder:
    """Blocks of one document; it stops taking them at the limit of characters."""

    def __init__(self, kind: str, limits: Limits) -> None:
        self.headings = Headings()
        self.notices: list[str] = []
        self.hidden = 0
        """Characters left out because no reader sees them; readers add what they know."""
        self._kind = kind
        self._limits = limits
        self._pieces: list[str] = []
        self._length = 0
        self._sections: list[Section] = []
        self.is_full = False

    def heading(self, level: int, text: str, page: int | None = None) -> None:
        """Its words stand in the text too, under themselves."""
        words = " ".join(self._clean(text).split())
        self.headings.enter(level, words)
        self._append(words, page, "", is_new=True)

    def text(
        self, text: str, page: int | None = None, under: tuple[str, ...] | None = None
    ) -> None:
        """`under`: the path of this block alone, instead of the headings so far."""
        self._append(self._clean(text).strip(), page, "", under=under)

    def table(
        self, rows: Iterable[Sequence[str]], has_header: bool, page: int | None = None
    ) -> None:
        """One line a row."""
        lines = [line for row in rows if (line := self._row(row)).strip(" |")]
        header = lines[0] if has_header and len(lines) > 1 else ""
        self._append("\n".join(lines), page, header, is_new=True)

    def document(self, title: str = "", fallback: str = "") -> Document:
        """`fallback`: the final state of a file without any text. Raises Refused with it."""
        if not self._sections:
            raise Refused(fallback or "skipped: empty")
        if self.is_full:
            self.notices.append(f"only the beginning was read: {self._length:,} characters")
        return Document(
            self._kind,
            "".join(self._pieces),
            tuple(self._sections),
            title=" ".join(cleaned(title).text.split())[:200],
            hidden_characters=self.hidden,
            notices=tuple(self.notices),
        )

    def _row(self, cells: Sequence[str]) -> str:
        return CELL_BORDER.join(" ".join(self._clean(cell).split()) for cell in cells).strip()

    def _clean(self, text: str) -> str:
        clean = cleaned(text)
        self.hidden += clean.hidden
        return clean.text

    def _append(
        self,
        text: str,
        page: int | None,
        header: str,
        *,
        is_new: bool = False,
        under: tuple[str, ...] | None = None,
    ) -> None:
        between = BETWEEN if self._sections else ""
        room = self._limits.characters - self._length - len(between)
        if len(text) > room:
            self.is_full = True
            text = text[: max(room, 0)].rstrip()
        if not text or len(self._sections) >= self._limits.sections:
            return
        start = self._length + len(between)
        self._pieces += (between, text)
        self._length = start + len(text)
        path = self.headings.path if under is None else under
        self._sections.append(Section(start, self._length, path, page, header))
        if not is_new:
            self._join_last()
        self.is_full |= len(self._sections) >= self._limits.sections

    def _join_last(self) -> None:
        """Blocks that stand in the same place are one section."""
        if len(self._sections) < 2:
            return
        before, last = self._sections[-2:]
        if (before.headings, before.page) == (last.headings, last.page) and not before.header:
            joined = Section(before.start, last.end, last.headings, last.page)
            self._sections[-2:] = [joined]
