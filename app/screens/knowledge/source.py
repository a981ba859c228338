"""One passage in its document: what the answer rests on, marked at its side."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from app.knowledge.source_view import SourceView
from app.messages import SourceRead
from app.sanitize import clean, single_line
from app.screens.page import Page

ABOVE = 3
"""Lines of the document shown above a passage when it opens."""


class SourcePage(Page[None]):
    """Opens empty; the text arrives as a message."""

    BINDINGS = [
        Binding("q,enter", "leave", "back", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
        Binding("pagedown,space", "scroll(10)", show=False),
    ]

    def __init__(self, place: str) -> None:
        super().__init__()
        self._place = single_line(place, 200)
        self.view: SourceView | None = None

    def compose(self) -> ComposeResult:
        panel = Vertical(classes="panel source")
        panel.border_title = Content(self._place)
        panel.border_subtitle = "↑ ↓ scroll · esc back"
        with panel, VerticalScroll(classes="lines", can_focus=False):
            yield Static(Content.styled("opening …", "$faint"), classes="notices", markup=False)
            yield Static(classes="around before", markup=False)
            yield Static(classes="passage", markup=False)
            yield Static(classes="around after", markup=False)

    def on_source_read(self, event: SourceRead) -> None:
        """The document's text is there."""
        view = self.view = event.view
        self._fill(".notices", "\n".join(notices(view)))
        self._fill(".before", with_cut(view.cut_before, view.before, is_before=True))
        self._fill(".passage", clean(view.passage))
        self._fill(".after", with_cut(view.cut_after, view.after, is_before=False))
        self.call_after_refresh(self._show_passage)

    def _fill(self, selector: str, text: str) -> None:
        widget = self.query_one(selector, Static)
        widget.update(Content(text))
        widget.display = bool(text)

    def _show_passage(self) -> None:
        view = self.query_one(".lines")
        top = self.query_one(".passage").virtual_region.y - ABOVE
        view.scroll_to(y=max(top, 0), animate=False)

    def action_scroll(self, rows: int) -> None:
        self.query_one(".lines").scroll_relative(y=rows, animate=False)


def notices(view: SourceView) -> list[str]:
    """What a person must know of this text before they trust it."""
    lines = [clean(notice) for notice in view.notices]
    if view.hidden_characters:
        lines.append(
            f"{view.hidden_characters:,} invisible characters were taken out of this document: "
            "it may hold text that is not meant for people."
        )
    return lines


def with_cut(cut: int, text: str, is_before: bool) -> str:
    """Clean text, and how much of the document is not shown on that side."""
    shown = clean(text).strip("\n")
    if not cut:
        return shown
    note = f"… {cut:,} characters more …"
    return f"{note}\n{shown}" if is_before else f"{shown}\n{note}"
