"""The sources of one answer: what it cites, what was read and not cited, what was found and not
read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.knowledge.passage import Passage
from app.knowledge.sources import Citation, Sources
from app.sanitize import clean, single_line
from app.screens.page import Page
from app.widgets.sources import UNSUPPORTED

PREVIEW = 160


@dataclass(frozen=True, slots=True)
class AnswerSources:
    """The documents of one answer."""

    sources: Sources
    passages: tuple[Passage, ...]
    """What `[1]`, `[2]`, ... mean."""
    citations: tuple[Citation, ...] = ()

    def passage(self, number: int) -> Passage | None:
        return self.passages[number - 1] if 0 < number <= len(self.passages) else None


class SourcesPage(Page[None]):
    """Opens a passage over itself."""

    def __init__(self, shown: AnswerSources, open_passage: Callable[[Passage], None]) -> None:
        super().__init__()
        self.shown, self._open = shown, open_passage
        self._passages: list[Passage] = []

    def compose(self) -> ComposeResult:
        sources = self.shown.sources
        panel = Vertical(classes="panel")
        panel.border_title = Content(
            f"sources · {single_line(sources.base, 60) or 'attached text'}"
        )
        panel.border_subtitle = "enter opens · esc back"
        notes = [clean(note) for note in (sources.reason, *sources.notices) if note]
        with panel:
            if notes:
                yield Static(Content("\n".join(notes)), classes="notices", markup=False)
            yield OptionList(*self._options(), classes="one-line")

    def on_mount(self) -> None:
        options = self.query_one(OptionList)
        options.focus()
        options.action_first()

    def _options(self) -> Iterator[Option]:
        shown = self.shown
        cited = {citation.number: citation for citation in shown.citations}
        yield from self._group(
            "cited", [(number, shown.passage(number)) for number in sorted(cited)], cited
        )
        rest = [(n, p) for n, p in enumerate(shown.passages, 1) if n not in cited]
        yield from self._group("read, not cited", rest, cited)
        yield from self._group("found, not read", [(0, p) for p in shown.sources.unused], cited)
        if not self._passages:
            yield Option(Content.styled("no passage was read", "$faint"), disabled=True)

    def _group(
        self,
        title: str,
        found: list[tuple[int, Passage]] | list[tuple[int, Passage | None]],
        cited: dict[int, Citation],
    ) -> Iterator[Option]:
        passages = [(number, passage) for number, passage in found if passage is not None]
        if passages:
            yield Option(Content.styled(title, "$faint"), disabled=True)
        for number, passage in passages:
            self._passages.append(passage)
            citation = cited.get(number)
            is_doubtful = citation is not None and not citation.supported
            yield Option(
                passage_words(number, passage, is_doubtful), id=str(len(self._passages) - 1)
            )

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._open(self._passages[int(event.option_id or 0)])


def passage_words(number: int, passage: Passage, is_doubtful: bool) -> Content:
    """Number and place; below, how it begins."""
    mark = f"[{number}] " if number else "    "
    parts: list[tuple[str, str]] = [
        (mark, "$accent"),
        (single_line(passage.place, 200), "bold"),
    ]
    if passage.reason and passage.score:
        parts.append((f"  {single_line(passage.reason, 60)}", "$faint"))
    if is_doubtful:
        # Behind a long name it would be cut off.
        parts.append((f"\n    {UNSUPPORTED}", "$warning"))
    parts.append((f"\n    {single_line(passage.text[: 2 * PREVIEW], PREVIEW)}", "$faint"))
    return Content.assemble(*parts)
