"""Throw-away knowledge bases of text that came with a question, one a chat.

They lie in the cache folder, those of private chats in memory where the system has a place for it.
What a process that died has left there goes when the next one begins.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.attached import Attachment
from app.learning import Learning
from app.paths import make_folder

if TYPE_CHECKING:
    from app.knowledge.base import KnowledgeBase
    from app.knowledge.embedder import Embedder
    from app.knowledge.states import SyncProgress

MIDDLE = "-localchat-"
"""Of a folder's name; before it stands the process that made it."""
MEMORY = Path("/dev/shm")
"""Files there are nowhere but in memory, on systems that have it."""


class AttachedText:
    """The bases of one session. Close it."""

    def __init__(
        self, cache: Path, private: bool, embedder: Callable[[], Embedder | None] = lambda: None
    ) -> None:
        """`embedder`: what learns the meaning of texts, asked for when there is one."""
        self._home = cache / "attached"
        self._private = private
        self._embedder = embedder
        self._bases: dict[int, KnowledgeBase] = {}
        self._learning: dict[int, Learning] = {}
        self._folders: list[Path] = []
        # Also where a program ends without closing it.
        weakref.finalize(self, remove, self._folders)

    def make(self, chat_id: int, attached: Sequence[Attachment]) -> KnowledgeBase:
        """Searchable by words on return, and by meaning when that is learnt; it takes the place of
        the chat's older text.
        """
        from app.knowledge.base import KnowledgeBase

        if (old := self._bases.pop(chat_id, None)) is not None:
            old.close()
        if (learning := self._learning.pop(chat_id, None)) is not None:
            learning.join()
        folder = self._new_folder()
        texts = dict(zip(names(attached), (one.text for one in attached), strict=True))
        embedder = self._embedder()
        self._bases[chat_id] = base = KnowledgeBase.temporary(folder, texts, embedder)
        base.sync(lexical_only=True)
        if embedder is not None:
            self._learning[chat_id] = Learning(base)
        return base

    def learning(self, chat_id: int, seconds: float) -> Iterator[SyncProgress]:
        """Until a chat's text is known, or will not be so many seconds after it came."""
        if (learning := self._learning.get(chat_id)) is not None:
            yield from learning.wait(seconds)

    def progress(self, chat_id: int) -> SyncProgress | None:
        """Of the learning of a chat's text; None: there is nothing to do."""
        learning = self._learning.get(chat_id)
        return None if learning is None else learning.progress

    def get(self, chat_id: int) -> KnowledgeBase | None:
        return self._bases.get(chat_id)

    def close(self) -> None:
        """Nothing is left; more may be made."""
        for base in self._bases.values():
            base.close()
        self._bases.clear()
        for learning in self._learning.values():
            learning.join()
        self._learning.clear()
        remove(self._folders)

    def _new_folder(self) -> Path:
        in_memory = self._private and MEMORY.is_dir()
        home = MEMORY if in_memory else make_folder(self._home)
        sweep(home)
        folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}{MIDDLE}", dir=home))
        self._folders.append(folder)
        return folder


def names(attached: Sequence[Attachment]) -> list[str]:
    """A different one for each text: files of one name get numbers, `notes.txt (2)`."""
    found: list[str] = []
    for number, one in enumerate(attached, 1):
        name = again = one.name or f"text {number}"
        count = 1
        while again in found:
            count += 1
            again = f"{name} ({count})"
        found.append(again)
    return found


def remove(folders: list[Path]) -> None:
    while folders:
        shutil.rmtree(folders.pop(), ignore_errors=True)


def sweep(home: Path) -> None:
    """Removes our folders of processes that live no more."""
    import psutil

    for folder in home.glob(f"*{MIDDLE}*"):
        pid = folder.name.partition(MIDDLE)[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)
