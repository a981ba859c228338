"""Texts that no file holds, put into an index: what was pasted into or attached to a message."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from app.knowledge.catalogue import RULES, Catalogue, FileRecord
from app.knowledge.document import Document, Section
from app.knowledge.file_bytes import DIGEST_BYTES
from app.knowledge.reading.cleaning import cleaned
from app.knowledge.states import INDEXED, SKIPPED


def put_texts(catalogue: Catalogue, folder: Path, texts: Mapping[str, str]) -> None:
    """Each under its name, in this order; a name stands for no file."""
    catalogue.refresh_words()
    root_id = catalogue.set_roots([folder])[folder]
    for order, (name, text) in enumerate(texts.items()):
        catalogue.put(root_id, *put_text(name, text, len(texts) - order))


def put_text(name: str, text: str, age: int) -> tuple[FileRecord, Document | None]:
    """`age`: larger for what is to be named first."""
    data = text.encode("utf-8", "surrogatepass")
    document = text_document(text)
    digest = blake2b(data, digest_size=DIGEST_BYTES).digest()
    file = FileRecord(
        relative=name.replace("\0", "").encode("utf-8", "replace"),
        size=len(data),
        mtime_ns=age,
        ctime_ns=age,
        device=0,
        inode=0,
        hashed_ns=0,
        hash=digest,
        rules=RULES,
        state=INDEXED if document.text.strip() else SKIPPED + "empty",
    )
    return file, (document if document.text.strip() else None)


def text_document(text: str) -> Document:
    """Plain text, cleaned as a file's is; its lines are the text's."""
    clean = cleaned(text)
    return Document(
        "text",
        clean.text,
        (Section(0, len(clean.text)),),
        has_lines=True,
        hidden_characters=clean.hidden,
    )
