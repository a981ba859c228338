"""A model's Markdown as one widget of lines that grows at its end.

Only the last block is read and drawn again when a piece arrives; finished blocks keep their
lines until the width or the colours change. It does not know where the text comes from.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from markdown_it.token import Token
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from app.sanitize import clean
from app.widgets.extent import settled_extent
from app.widgets.markdown import LineCutter, blocks, links, make_parser

if TYPE_CHECKING:
    from app.widgets.block_renderer import BlockRenderer

LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""Lines as Markdown counts them."""
URL = re.compile(r"https?://\S+")


class AnswerText(Widget):
    """Lines of Markdown."""

    class LinkClicked(Message):
        """A click on a link's target."""

        def __init__(self, href: str) -> None:
            super().__init__()
            self.href = href

    virtual_size = settled_extent()
    DEFAULT_CSS = "AnswerText { height: auto; width: 1fr; }"

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self._parser = make_parser()
        self._cutter = LineCutter()
        self._renderer: BlockRenderer | None = None
        self._look: tuple[int, str] = (0, "")
        self._source = ""
        """What is drawn: cleaned, endless lines cut."""
        self._done = 0
        """Characters of the source whose blocks are final."""
        self._done_lines: list[Strip] = []
        self._lines: list[Strip] = []
        self._links: list[str] = []
        self._done_links: list[str] = []
        self._drawn_source = ""
        self._style: Style | None = None
        """Of the widget; asking Textual for it costs more than drawing a line."""
        self._painted: dict[int, tuple[Strip | None, Strip]] = {}
        """By line: what it was painted from, and the painted line."""
        self._painted_width = 0
        self._height_laid_out = 0
        """What Textual was last told to lay out."""
        self.add(text)

    @property
    def source(self) -> str:
        return self._source

    def add(self, piece: str) -> None:
        """More text; call `draw` to see it."""
        self._source += self._cutter.feed(clean(piece))

    def replace(self, text: str) -> None:
        """Another text."""
        self._cutter = LineCutter()
        self._source = self._cutter.feed(clean(text))
        self._forget()
        self.draw()

    def draw(self) -> None:
        """Brings what was added to the screen. Lines that did not change are not painted again."""
        before = self._lines
        self._update(self._look[0] or self.size.width)
        same, after = equal_lines(before, self._lines), len(self._lines)
        self._lines[:same] = before[:same]
        changed = Region(0, same, max(self.size.width, 1), max(len(before), after) - same)
        if changed or after != self._height_laid_out:
            self.refresh(changed, layout=after != self._height_laid_out)
            self._height_laid_out = after

    # ---- what Textual asks

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        # What was added is for `draw` to bring in: lines that came here unseen would be no change
        # to it, and Textual would keep heights of before.
        if max(width, 1) != self._look[0]:
            self._update(width)
        return len(self._lines)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Textual forgets every painted line when the widget grows; here a line that stays as it is
        is painted once, which is most of what a draw of a streaming answer costs.
        """
        if self.size.width != self._painted_width:
            self._painted_width = self.size.width
            self._painted.clear()
        lines = [self._paint_once(y) for y in crop.line_range]
        if crop.column_span != (0, self.size.width):
            lines = [line.crop(*crop.column_span) for line in lines]
        return lines

    def _paint_once(self, y: int) -> Strip:
        source = self._lines[y] if y < len(self._lines) else None
        kept = self._painted.get(y)
        if kept is None or kept[0] is not source:
            kept = self._painted[y] = source, self._filtered(self.render_line(y))
        return kept[1]

    def _filtered(self, strip: Strip) -> Strip:
        """Without colours, where they are not wanted, for example."""
        background = self.background_colors[1]
        for line_filter in self.get_line_filters():
            strip = strip.apply_filter(line_filter, background)
        return strip

    def render_line(self, y: int) -> Strip:
        style = self._style = self._style or self.rich_style
        width = self.size.width
        if y >= len(self._lines):
            return Strip.blank(width, style)
        strip = self._lines[y].crop(0, width)
        strip = self._selected(strip, y).apply_offsets(0, y)
        return strip.apply_style(style).adjust_cell_length(width, style)

    def _selected(self, strip: Strip, y: int) -> Strip:
        """The line with the part that is selected with the mouse."""
        selection = self.text_selection
        span = selection.get_span(y) if selection is not None else None
        if span is None:
            return strip
        start, end = span
        end = strip.cell_length if end == -1 else min(end, strip.cell_length)
        look = self.screen.get_component_rich_style("screen--selection")
        marked = Strip([segment._replace(style=look) for segment in strip.crop(start, end)])
        return Strip.join([strip.crop(0, start), marked, strip.crop(end)])

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        return selection.extract("\n".join(line.text.rstrip() for line in self._lines)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self._painted.clear()
        self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._style = None
        self._painted.clear()
        if self.is_attached and self.app.theme != self._look[1]:
            self.draw()

    def on_click(self, event: events.Click) -> None:
        """A click on an address asks for its whole target, also where the line breaks inside it."""
        if not 0 <= event.y < len(self._lines):
            return
        line = self._lines[event.y].text
        hit = next((m for m in re.finditer(r"\S+", line) if m.start() <= event.x < m.end()), None)
        word = hit.group().strip("()") if hit else ""
        target = next((href for href in self._links if len(word) > 3 and word in href), None)
        address = URL.search(word)
        if target is not None or address is not None:
            event.stop()
            self.post_message(self.LinkClicked(target or (address.group() if address else "")))

    # ---- lines

    def _forget(self) -> None:
        self._done, self._done_lines, self._done_links, self._drawn_source = 0, [], [], ""

    def _update(self, width: int) -> None:
        """Makes the lines true for the source, this width and the colours in use."""
        look = (max(width, 1), self.app.theme)
        if look == self._look and self._drawn_source == self._source:
            return
        if look != self._look or self._renderer is None:
            self._look = look
            self._renderer = self._make_renderer(look[0])
            self._forget()
        self._drawn_source = self._source
        if not self._source.strip():
            self._lines = []
            return
        self._draw_blocks(self._renderer)

    def _make_renderer(self, width: int) -> BlockRenderer:
        from app.widgets.block_renderer import BlockRenderer

        variables = self.app.get_css_variables()
        return BlockRenderer(width, variables, self.app.current_theme.dark)

    def _draw_blocks(self, renderer: BlockRenderer) -> None:
        """Draws what is not final, and makes final what no later text can change."""
        rest = self._source[self._done :]
        groups = blocks(self._parser.parse(rest))
        settled = settled_blocks(groups, rest.count("\n"))
        for group in groups[:settled]:
            append_block(self._done_lines, renderer.lines(group))
            self._done_links += links(group)
        if settled:
            start = first_line(groups[settled])
            self._done += sum(len(line) for line in LINE.findall(rest)[:start])
        self._lines, self._links = list(self._done_lines), list(self._done_links)
        for group in groups[settled:]:
            append_block(self._lines, renderer.lines(group))
            self._links += links(group)


def equal_lines(before: list[Strip], after: list[Strip]) -> int:
    """How many lines at the start are the same."""
    pairs = enumerate(zip(before, after, strict=False))
    changed = (at for at, (old, new) in pairs if old is not new and old != new)
    return next(changed, min(len(before), len(after)))


def settled_blocks(groups: list[list[Token]], complete_lines: int) -> int:
    """How many blocks are final: those before the last block whose first line is complete.

    While its first line grows, a block may turn out to go on with the one before: `***`, `***word`.
    """
    for index in range(len(groups) - 1, 0, -1):
        if first_line(groups[index]) < complete_lines:
            return index
    return 0


def first_line(group: list[Token]) -> int:
    return group[0].map[0] if group[0].map else 0


def append_block(lines: list[Strip], block: list[Strip]) -> None:
    """Blocks stand one blank line apart."""
    if not block:
        return
    if lines:
        lines.append(Strip([]))
    lines.extend(block)
