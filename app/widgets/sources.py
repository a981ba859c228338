"""What an answer rests on: a line a citation, and how much more was read and found."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from app.knowledge.places import COMPARED, exact_place
from app.knowledge.sources import Citation, Sources
from app.messages import SourceWanted
from app.sanitize import single_line
from app.widgets import words

UNSUPPORTED = "not supported by the text: check it"


class SourceLine(Static):
    """`[1] handbook.pdf p. 12`; a click opens the passage."""

    def __init__(self, message_id: int, citation: Citation) -> None:
        super().__init__(citation_words(citation), markup=False, classes="source")
        self._message_id = message_id
        self._number = citation.number

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(SourceWanted(self._message_id, self._number))


class SourceLines(Vertical):
    """Hidden while there is nothing to show."""

    def __init__(self, key: str = "f3") -> None:
        super().__init__()
        self._key = key
        self._message_id = 0
        self._citations: tuple[Citation, ...] = ()
        self._rest = ""

    def compose(self) -> ComposeResult:
        for citation in self._citations:
            yield SourceLine(self._message_id, citation)
        if self._rest:
            yield Static(Content.styled(self._rest, "$faint"), markup=False, classes="source")

    def show(
        self, message_id: int, citations: tuple[Citation, ...], sources: Sources | None
    ) -> None:
        rest = rest_words(sources, citations, self._key)
        if (message_id, citations, rest) == (self._message_id, self._citations, self._rest):
            return
        self._message_id, self._citations, self._rest = message_id, citations, rest
        self.display = bool(citations or rest)
        if self.children or self.display:
            self.refresh(recompose=True)

    def on_click(self, event: events.Click) -> None:
        """The line about the rest."""
        event.stop()
        self.post_message(SourceWanted(self._message_id))


def citation_words(citation: Citation) -> Content:
    parts: list[tuple[str, str]] = [
        (f"[{citation.number}] ", "$accent"),
        (single_line(exact_place(citation), 300), "$foreground"),
    ]
    if not citation.named:
        parts.append((f" · {COMPARED}", "$faint"))
    if not citation.supported:
        parts.append((f" · {UNSUPPORTED}", "$warning"))
    return Content.assemble(*parts)


def rest_words(sources: Sources | None, citations: Sequence[Citation], key: str) -> str:
    """`6 more passages of work were read, 4 found and not read · f3 shows them`"""
    if sources is None or sources.is_refused:
        return ""
    name = single_line(sources.base, 60) or "the attached text"
    if sources.is_whole:
        said = f"all of {name} was read · {key} shows it"
        return said if citations else f"no passage cited; {said}"
    read = len(sources.passages) - len({citation.number for citation in citations})
    parts = []
    if read > 0:
        more = "more passage" if citations else "passage"
        verb = "was" if read == 1 else "were"
        parts.append(f"{words.plural(read, more)} of {name} {verb} read")
    if sources.unused:
        parts.append(f"{words.count(len(sources.unused))} found and not read")
    if not parts:
        return ""
    intro = "" if citations else "no passage cited; "
    return f"{intro}{', '.join(parts)} · {key} shows them"
