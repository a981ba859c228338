"""Draws one top-level Markdown block into lines of one width.

Textual's own Markdown makes a widget of every paragraph and list item; an answer of 1,500 tokens
then costs a layout of 200 widgets, about 40 ms, for every piece that arrives. Lines cost nothing
to lay out. Imported with the first answer: Rich's Markdown is not needed for the first paint.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from copy import copy

from markdown_it.token import Token
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import (
    BlockQuote,
    CodeBlock,
    Heading,
    HorizontalRule,
    Markdown,
    TableElement,
)
from rich.rule import Rule
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme
from textual.strip import Strip

NARROWEST = 12
"""Columns below which nothing can be laid out; narrower views see the left part."""

COLOURED_CHARACTERS = 12_000
"""Longer code stays without colours: it is coloured again with every piece that arrives."""


class PlainHeading(Heading):
    """Bold, at the left margin."""

    LEVEL_ALIGN = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class Rules(HorizontalRule):
    """One thin line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style=console.get_style("markdown.hr"), characters="─")


class Code(CodeBlock):
    """Code on a quiet ground; long lines wrap."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip("\n")
        ground = console.get_style("markdown.code_block").bgcolor
        yield Syntax(
            code,
            self.lexer_name if len(code) <= COLOURED_CHARACTERS else "text",
            theme=self.theme,
            word_wrap=True,
            padding=(0, 1),
            background_color=ground.name if ground else "default",
        )


class Quote(BlockQuote):
    """A thin line at the left."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(options.max_width - 2, NARROWEST)
        lines = console.render_lines(self.elements, options.update(width=width), style=self.style)
        for line in lines:
            yield Segment("▏ ", self.style)
            yield from line
            yield Segment("\n")


class Cells(TableElement):
    """A table whose cells fold instead of losing words."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(
            box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, style="markdown.table.border"
        )
        header = self.header.row.cells if self.header and self.header.row else []
        for cell in header:
            heading = cell.content.copy()
            heading.stylize("markdown.table.header")
            table.add_column(heading, overflow="fold", justify=cell.justify)
        for row in self.body.rows if self.body else []:
            table.add_row(*[cell.content for cell in row.cells])
        yield table


class Block(Markdown):
    """One block of tokens that were read by our own parser."""

    elements = {
        **Markdown.elements,
        "heading_open": PlainHeading,
        "fence": Code,
        "code_block": Code,
        "blockquote_open": Quote,
        "hr": Rules,
        "table_open": Cells,
    }

    def of(self, tokens: list[Token]) -> Block:
        """This look on other tokens. Rich makes a parser, 0.7 ms, for each block made anew."""
        block = copy(self)
        block.parsed = tokens
        return block


class BlockRenderer:
    """Blocks to lines, for one width and one set of colours."""

    def __init__(self, width: int, colours: Mapping[str, str], dark: bool) -> None:
        self.width = max(width, NARROWEST)
        self._look = Block("", code_theme="nord" if dark else "friendly", hyperlinks=False)
        self._console = Console(
            file=io.StringIO(),
            width=self.width,
            force_terminal=True,
            color_system="truecolor",
            theme=theme_of(colours),
            highlight=False,
            emoji=False,
            markup=False,
        )

    def lines(self, tokens: list[Token]) -> list[Strip]:
        """The block's lines, without blank ones at its ends."""
        segments = self._console.render_lines(self._look.of(tokens), pad=False, new_lines=False)
        strips = [Strip(line) for line in segments]
        while strips and not strips[-1].text.strip():
            strips.pop()
        while strips and not strips[0].text.strip():
            strips.pop(0)
        return strips

    def plain(self, text: str) -> list[Strip]:
        """Text as it is, wrapped."""
        segments = self._console.render_lines(Text(text), pad=False, new_lines=False)
        return [Strip(line) for line in segments]


def theme_of(colours: Mapping[str, str]) -> Theme:
    """Rich's names for the program's colours."""
    primary, faint, rule = colours["primary"], colours["faint"], colours["rule"]
    accent, panel, foreground = colours["accent"], colours["panel"], colours["foreground"]
    headings = {f"markdown.h{level}": f"bold {primary}" for level in range(1, 7)}
    return Theme(
        {
            **headings,
            "markdown.code": f"{foreground} on {panel}",
            "markdown.code_block": f"{foreground} on {panel}",
            "markdown.block_quote": faint,
            "markdown.hr": rule,
            "markdown.item.bullet": faint,
            "markdown.item.number": faint,
            "markdown.link": accent,
            "markdown.link_url": f"underline {faint}",
            "markdown.table.border": rule,
            "markdown.table.header": primary,
        }
    )
