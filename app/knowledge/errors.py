"""Errors of knowledge bases. Each names the base or the path, and says what to do.

KnowledgeError           failed (a StorageError)
├── BadRoot              usage (exit 2): no folder or file that a base can have
├── IndexDamaged         failed: the index must be made again; documents are untouched
├── IndexNewer           failed: a newer localchat wrote it
└── EmbedderChanged      failed: vectors of another embedding model, never mixed
NoSuchBase, BadBaseName  usage (exit 2)
"""

from __future__ import annotations

from app.errors import NotFound, StorageError

__all__ = [
    "BadBaseName",
    "BadRoot",
    "EmbedderChanged",
    "IndexDamaged",
    "IndexNewer",
    "KnowledgeError",
    "NoSuchBase",
    "typed",
]


class KnowledgeError(StorageError):
    """A knowledge base cannot be read, written or made."""


class BadRoot(KnowledgeError):
    """A path that is no folder and no file, or that the base has or has not."""

    code = "usage"


class IndexDamaged(KnowledgeError):
    """The index file is not whole. It holds nothing that the documents do not hold."""


class IndexNewer(KnowledgeError):
    """The index has a format that this program does not know."""


class EmbedderChanged(KnowledgeError):
    """The index holds vectors of another embedding model."""


class NoSuchBase(NotFound):
    """No knowledge base of that name."""


class BadBaseName(NotFound):
    """A name that a knowledge base cannot have."""


def typed(name: str) -> str:
    """A base's name as it stands in a command that a person may copy."""
    return f'"{name}"' if " " in name else name
