"""EPUB books: the chapters in reading order, under their headings."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from app.knowledge.document import Document
from app.knowledge.reading.archive import Archive, is_outside
from app.knowledge.reading.builder import DocumentBuilder
from app.knowledge.reading.formats.html import add_html, page_text
from app.knowledge.reading.source import Refused, Source
from app.knowledge.reading.xml_parts import elements

CONTAINER = "META-INF/container.xml"
RIGHTS = "META-INF/encryption.xml"
PAGES = frozenset(("application/xhtml+xml", "text/html"))


def read_epub(source: Source) -> Document:
    archive = Archive(source)
    builder = DocumentBuilder("epub", source.limits)
    package = _root(archive, _package_name(archive))
    folder = posixpath.dirname(_package_name(archive))
    chapters = list(_chapters(package, folder))
    locked = _encrypted(archive)
    if chapters and all(name in locked for name in chapters):
        raise Refused("encrypted")
    for number, name in enumerate(chapters):
        if builder.is_full:
            break
        source.progress(number, len(chapters))
        if name in archive and name not in locked:
            builder.headings.enter(1, "")
            add_html(builder, page_text(archive.read(name)))
    return builder.document(_title(package))


def _root(archive: Archive, name: str) -> Element:
    with archive.part(name) as file:
        for root in elements(file, 1):
            return root
    raise Refused("skipped: damaged")


def _package_name(archive: Archive) -> str:
    for entry in _root(archive, CONTAINER).iter("rootfile"):
        return entry.get("full-path", "")
    raise Refused("skipped: damaged")


def _chapters(package: Element, folder: str) -> list[str]:
    """Names of parts in reading order."""
    places = {
        item.get("id", ""): item.get("href", "")
        for item in package.iter("item")
        if item.get("media-type") in PAGES
    }
    order = [places.get(item.get("idref", ""), "") for item in package.iter("itemref")]
    return [name for place in order if place and (name := _part_name(folder, place))]


def _part_name(folder: str, place: str) -> str:
    """A link of the package as a name in the archive; empty when it leads out."""
    name = posixpath.normpath(posixpath.join(folder, unquote(place.partition("#")[0])))
    return "" if is_outside(name) else name


def _encrypted(archive: Archive) -> frozenset[str]:
    """Parts that only another program can read."""
    if RIGHTS not in archive:
        return frozenset()
    entries = _root(archive, RIGHTS).iter("CipherReference")
    return frozenset(unquote(entry.get("URI", "")) for entry in entries)


def _title(package: Element) -> str:
    return next((part.text or "" for part in package.iter("title")), "")
