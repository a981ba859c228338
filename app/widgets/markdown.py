"""Reads a model's Markdown safely: all of its text is kept, none of it acts.

HTML is text, images are their words, only http(s) links stay links, deep nesting and endless lines
are cut short on screen. It draws nothing.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from app.sanitize import clean

DEEPEST = 12
"""Levels of blocks (a list counts two); deeper text stays, as one paragraph."""
LONGEST_LINE = 1_000
"""Characters of a line on screen: more is never read, and 100,000 freeze the layout."""
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
    """CommonMark with tables and strikethrough; HTML and bare addresses are ordinary text, and so
    is a list of sources like `[1]: notes.md`, which would vanish and take each `[1]` with it.
    """
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 40})
    parser.enable(["table", "strikethrough"]).disable("reference")
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


def blocks(tokens: list[Token]) -> list[list[Token]]:
    """The tokens of each top-level block: heading, paragraph, list, table, code, ..."""
    groups: list[list[Token]] = []
    is_open = False
    for token in tokens:
        if not is_open:
            groups.append([])
        groups[-1].append(token)
        is_open = token.nesting == 1 or (is_open and not (token.nesting == -1 and token.level == 0))
    return groups


def links(tokens: list[Token]) -> list[str]:
    """Targets of the links that may be followed, in order."""
    children = [child for token in tokens for child in token.children or ()]
    return [str(one.attrGet("href")) for one in children if one.type == "link_open"]
