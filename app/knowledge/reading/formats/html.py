"""HTML: the text that a reader of the page sees, in sections at its headings.

Scripts, comments and what a style hides are left out; hidden text is counted. It opens no link.
"""

from __future__ import annotations

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from app.knowledge.document import Document
from app.knowledge.reading.builder import DocumentBuilder
from app.knowledge.reading.encoding import decode
from app.knowledge.reading.source import Source

UNSEEN = frozenset(
    ("script", "style", "noscript", "template", "iframe", "object", "svg", "canvas", "head")
)
"""Whose text belongs to no reader."""
BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd"),
        *("details", "dialog", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer"),
        *("form", "header", "hr", "html", "li", "main", "nav", "ol", "option", "p", "pre"),
        *("section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"),
    )
)
LEVELS = {f"h{level}": level for level in range(1, 7)}
DECLARED = re.compile(rb"""(?:charset|encoding)\s{0,9}=\s{0,9}["']?([\w:.-]{2,40})""", re.I)
HIDING = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0?\.?0*\s*(?:;|$|!)"
    r"|font-size\s*:\s*(?:0|1px)\s*[a-z%]{0,3}\s*(?:;|$|!)",
    re.I,
)
WHITE = re.compile(
    r"(?:^|;)\s*color\s*:\s*"
    r"(?:white|#fff(?:fff)?\b|rgba?\(\s*255\s*,\s*255\s*,\s*255)",
    re.I,
)
BACKGROUND = re.compile(r"background", re.I)


def read_html(source: Source) -> Document:
    data = source.whole(source.limits.parsed_bytes)
    builder = DocumentBuilder("html", source.limits)
    title = add_html(builder, page_text(data))
    return builder.document(title)


def page_text(data: bytes) -> str:
    """Raises Refused for what is no text."""
    declared = DECLARED.search(data[:2048])
    return decode(data, declared=declared[1].decode("ascii") if declared else "").text


def add_html(builder: DocumentBuilder, html: str) -> str:
    """Adds the page's blocks, and gives its title."""
    try:
        parser = LexborHTMLParser(html)
    except SelectolaxError as error:  # any text is a page to it: only memory was lacking
        raise MemoryError from error
    title = parser.css_first("title")
    if parser.root is not None:
        _Page(builder).add(parser.root)
    return title.text(deep=True) if title is not None else ""


class _Page:
    """Walks the tree without recursion: pages nest as deeply as they like."""

    def __init__(self, builder: DocumentBuilder) -> None:
        self._builder = builder
        self._inline: list[str] = []
        self._rows: list[list[str]] | None = None
        """Of the table that is being read; None outside of tables."""
        self._has_header = False

    def add(self, root: LexborNode) -> None:
        node: LexborNode | None = root
        while node is not None and not self._builder.is_full:
            if self._enter(node) and node.child is not None:
                node = node.child
                continue
            self._leave(node)
            while node.next is None:
                node = node.parent
                if node is None or node.mem_id == root.mem_id:
                    self._flush()
                    return
                self._leave(node)
            node = node.next
        self._flush()

    def _enter(self, node: LexborNode) -> bool:
        """Whether to look at what it holds."""
        if node.is_text_node:
            self._inline.append(node.text_content or "")
            return False
        tag = node.tag or ""
        if not node.is_element_node or tag in UNSEEN:
            return False
        if is_hidden(node):
            self._builder.hidden += len(" ".join(node.text(deep=True).split()))
            return False
        if tag in BLOCKS or tag in LEVELS:
            self._begin(tag, node)
        return True

    def _begin(self, tag: str, node: LexborNode) -> None:
        if tag in ("td", "th") and self._rows:
            self._has_header |= tag == "th" and len(self._rows) == 1
            return
        if self._rows is not None:
            if tag == "tr":
                self._rows.append([])
            else:
                self._inline.append(" ")
            return
        self._flush()
        if tag == "table" and not _is_layout(node):
            self._rows, self._has_header = [], False
        elif tag == "li":
            self._inline.append("- ")

    def _leave(self, node: LexborNode) -> None:
        tag = node.tag or ""
        if self._rows is not None:
            self._leave_in_table(tag)
        elif tag in LEVELS:
            self._builder.heading(LEVELS[tag], self._taken())
        elif tag == "pre":
            self._builder.text("".join(self._inline).strip("\n"))
            self._inline.clear()
        elif tag in BLOCKS:
            self._flush()

    def _leave_in_table(self, tag: str) -> None:
        assert self._rows is not None
        if tag in ("td", "th") and self._rows:
            self._rows[-1].append(self._taken())
        elif tag == "caption":
            self._builder.text(self._taken())
        elif tag == "table":
            rows, self._rows = self._rows, None
            self._inline.clear()
            self._builder.table(rows, self._has_header)

    def _taken(self) -> str:
        text = " ".join("".join(self._inline).split())
        self._inline.clear()
        return text

    def _flush(self) -> None:
        if self._inline:
            text = self._taken()
            if text not in ("", "-"):
                self._builder.text(text)


def is_hidden(node: LexborNode) -> bool:
    """By an attribute of its own: style sheets are not read."""
    attributes = node.attributes
    if "hidden" in attributes:
        return True
    style = attributes.get("style") or ""
    if not style:
        return False
    if HIDING.search(style):
        return True
    return WHITE.search(style) is not None and BACKGROUND.search(style) is None


def _is_layout(table: LexborNode) -> bool:
    """A table that holds another or headings orders the page, and no data."""
    inner = table.css("table, h1, h2, h3, h4")
    return any(one.mem_id != table.mem_id for one in inner)
