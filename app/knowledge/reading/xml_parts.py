"""XML in pieces: elements of one depth after another, without their namespaces.

Declared entities are refused: nothing that a document needs declares any, and bombs are made of
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from app.knowledge.reading.source import Refused

PIECE_BYTES = 65_536
DEEPEST = 500
"""Levels of nesting."""


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def elements(file: Readable, depth: int) -> Iterator[Element]:
    """Whole elements of this depth, the root's being 1, each while the rest is still unread.

    Raises Refused for broken XML and for declared entities.
    """
    collector = _Collector(depth)
    while data := file.read(PIECE_BYTES):
        collector.feed(data)
        yield from collector.taken()
    collector.feed(b"", is_last=True)
    yield from collector.taken()


class _Collector:
    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._level = 0
        self._builder = TreeBuilder()
        self._ready: list[Element] = []
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._data
        self._parser.EntityDeclHandler = self._entity

    def feed(self, data: bytes, is_last: bool = False) -> None:
        try:
            self._parser.Parse(data, is_last)
        except expat.ExpatError as error:
            raise Refused("skipped: damaged") from error

    def taken(self) -> list[Element]:
        ready, self._ready = self._ready, []
        return ready

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._level += 1
        if self._level > DEEPEST:
            raise Refused(f"skipped: more than {DEEPEST} levels of nesting")
        if self._level >= self._depth:
            plain = {local(key): value for key, value in attributes.items()}
            self._builder.start(local(name), plain)

    def _end(self, name: str) -> None:
        if self._level >= self._depth:
            self._builder.end(local(name))
        if self._level == self._depth:
            self._ready.append(self._builder.close())
            self._builder = TreeBuilder()
        self._level -= 1

    def _data(self, text: str) -> None:
        if self._level >= self._depth:
            self._builder.data(text)

    def _entity(self, *_: object) -> None:
        raise Refused("skipped: it declares XML entities")


def local(name: str) -> str:
    return name.rpartition(" ")[2]
