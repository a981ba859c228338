"""All knowledge bases of a data folder, by name: each a folder in `paths.knowledge`."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.arguments import nearest
from app.errors import file_error
from app.knowledge.base import KnowledgeBase
from app.knowledge.base_file import NAME as BASE_FILE
from app.knowledge.base_file import check_root, checked_name, name_of, write_roots
from app.knowledge.errors import BadBaseName, NoSuchBase, typed
from app.knowledge.index import Index
from app.knowledge.index_file import NAME as INDEX_FILE
from app.knowledge.readings import noted_readings
from app.knowledge.sync_lock import syncing
from app.paths import Paths, make_folder

if TYPE_CHECKING:
    from app.knowledge.embedder import Embedder


class KnowledgeBases:
    """All bases of a data folder."""

    def __init__(self, paths: Paths, embedder: Embedder | None = None) -> None:
        """`embedder` None: searching by words only."""
        self._paths = paths
        self._folder = paths.knowledge
        self.embedder = embedder

    def names(self) -> list[str]:
        """In alphabetical order; a folder that cannot be a base, such as `work.bak`, is none."""
        try:
            folders = [path.parent for path in self._folder.glob(f"*/{BASE_FILE}")]
        except OSError as error:
            raise file_error(error, self._folder) from error
        found = filter(None, map(name_of, folders))
        return sorted(found, key=lambda name: (name.casefold(), name))

    def create(self, name: str, roots: Sequence[Path] = ()) -> KnowledgeBase:
        """A new, empty base; BadBaseName where the name cannot be or is taken, KnowledgeError where
        a root is no folder and no file that can be read.
        """
        name = checked_name(name)
        folder = self._folder / name
        for root in roots:
            check_root(root)
        # On disks that take `Work` for `work` too.
        if (folder / BASE_FILE).exists():
            raise BadBaseName(
                f"There is a knowledge base “{name}” already.",
                "",
                f"Add folders to it: `localchat kb add {typed(name)} FOLDER`,"
                " or choose another name.",
            )
        make_folder(folder)
        write_roots(folder, ())
        base = self.open(name)
        for root in roots:
            base.add(root)
        return base

    def open(self, name: str) -> KnowledgeBase:
        """NoSuchBase; IndexDamaged, IndexNewer."""
        folder = self._existing(name)
        ours = (self._paths.data, self._paths.state, self._paths.cache, self._paths.config)
        return KnowledgeBase(folder.name, folder, Index.open(folder), self.embedder, ours)

    def rebuild(self, name: str) -> KnowledgeBase:
        """Throws the index away, damaged or not, and opens an empty one with the same roots. Busy
        while another process is at it.
        """
        folder = self._existing(name)
        with syncing(folder, name):
            for path in [*folder.glob(f"{INDEX_FILE}*"), *folder.glob("vectors-*")]:
                remove(path)
        return self.open(name)

    def remove(self, name: str) -> tuple[str, ...]:
        """Deletes the index; documents stay. Busy while another process is at it.

        Returns what the engine keeps of the base, by name: the caller drops it.
        """
        folder = self._existing(name)
        with syncing(folder, name):
            readings = noted_readings(folder)
            # First what makes it a base: a removal that is cut short leaves none behind.
            remove(folder / BASE_FILE)
        remove(folder)
        return readings

    def _existing(self, name: str) -> Path:
        folder = self._folder / checked_name(name)
        if not (folder / BASE_FILE).is_file():
            names = self.names()
            guess = nearest(name, names)
            raise NoSuchBase(
                f"There is no knowledge base “{name}”.",
                f"Knowledge bases: {', '.join(names) or 'there are none'}.",
                f"Did you mean “{guess}”?"
                if guess
                else f"Make it: `localchat kb create {typed(name)} FOLDER`.",
            )
        return folder


def remove(path: Path) -> None:
    """A file or a folder with all that is in it; StorageError where that fails."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise file_error(error, path) from error
