"""Markdown of a model, drawn safely: all of its text is shown, none of it acts.

HTML is text, images are their words, links are followed only through `LinkClicked` and a question,
deep nesting and endless lines are cut short on screen. It does not know where the text comes from.
"""

from __future__ import annotations

import re
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from textual.content import Content
from textual.widgets import Markdown
from textual.widgets._markdown import MarkdownFence

from app.sanitize import clean

DEEPEST = 12
"""Levels of blocks (a list counts two); deeper text stays, as one paragraph."""
LONGEST_LINE = 1_000
"""Characters of a line on screen: more is never read, and 100,000 freeze the layout."""
HIGHLIGHTED_BYTES = 12_000
"""Longer code is shown without colours: it is coloured again with every piece that arrives."""

CUT = "…"


def flatten(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Block rule: what is nested too deeply becomes one paragraph instead of vanishing."""
    if state.level < DEEPEST:
        return False
    if silent:
        return True
    content = state.getLines(start, end, state.blkIndent, False).strip()
    state.line = end
    opening = state.push("paragraph_open", "p", 1)
    opening.map = [start, end]
    inline = state.push("inline", "", 0)
    inline.content, inline.map, inline.children = content, [start, end], []
    state.push("paragraph_close", "p", -1)
    return True


def disarm(state: StateCore) -> None:
    """Core rule: pictures become their words, and only http(s) links stay links."""
    for token in state.tokens:
        if token.type == "inline" and token.children:
            token.children = disarmed(token.children)


def disarmed(children: list[Token]) -> list[Token]:
    safe: list[Token] = []
    open_links: list[str | None] = []
    for child in children:
        if child.type == "image":
            safe.append(
                text_token(f"[image: {child.content or 'no words'}] ({child.attrGet('src')})")
            )
        elif child.type == "link_open":
            target = str(child.attrGet("href") or "")
            is_web = re.match(r"https?://", target, re.IGNORECASE) is not None
            open_links.append(None if is_web else target)
            safe.extend([child] if is_web else [])
        elif child.type == "link_close":
            target_words = open_links.pop() if open_links else None
            safe.append(child if target_words is None else text_token(f" ({target_words})"))
        else:
            safe.append(child)
    return safe


def text_token(content: str) -> Token:
    token = Token("text", "", 0)
    token.content = content
    return token


def make_parser() -> MarkdownIt:
    """CommonMark with tables and strikethrough; HTML and bare addresses are ordinary text."""
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 40})
    parser.enable(["table", "strikethrough"])
    parser.block.ruler.before("table", "flatten", flatten)
    parser.core.ruler.push("disarm", disarm)
    return parser


class LineCutter:
    """Shortens endless lines of a stream, piece by piece."""

    def __init__(self) -> None:
        self._column = 0

    def feed(self, text: str) -> str:
        """The piece with each line's characters beyond `LONGEST_LINE` left out."""
        if self._column + len(text) <= LONGEST_LINE and "\n" not in text:
            self._column += len(text)
            return text
        lines = text.split("\n")
        kept = [self._cut(line, starts=index > 0) for index, line in enumerate(lines)]
        return "\n".join(kept)

    def _cut(self, line: str, starts: bool) -> str:
        if starts:
            self._column = 0
        room = LONGEST_LINE - self._column
        self._column += len(line)
        if len(line) <= room:
            return line
        return line[:room] + CUT if room >= 0 and line else ""


def drawn_whole(text: str) -> str:
    """What of a complete text goes to the screen."""
    return LineCutter().feed(clean(text))


class CodeFence(MarkdownFence):
    """A fence that never guesses a language and leaves long code uncoloured."""

    @classmethod
    def highlight(cls, code: str, language: str, ansi: bool = False, dark: bool = False) -> Content:
        words = language.split()
        if not words or len(code) > HIGHLIGHTED_BYTES:
            return Content(code)
        return super().highlight(code, words[0], ansi=ansi, dark=dark)


class ModelMarkdown(Markdown):
    """A model's text. `source` of the base class is what is drawn, not what was said."""

    BLOCKS = {**Markdown.BLOCKS, "fence": CodeFence, "code_block": CodeFence}
    BULLETS = ["• ", "◦ ", "▪ "]

    def __init__(self, text: str = "", **arguments: Any) -> None:
        self._cutter = LineCutter()
        super().__init__(
            self.drawn(text), parser_factory=make_parser, open_links=False, **arguments
        )

    def drawn(self, piece: str) -> str:
        """What of the next piece goes to the screen."""
        return self._cutter.feed(clean(piece))
