"""Whatever happened to a folder, the index that followed it equals one that is made anew."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from app.knowledge import base as base_module
from app.knowledge.base import KnowledgeBase
from app.knowledge.bases import KnowledgeBases
from app.paths import Paths
from tests.app.knowledge.base_laws import seen
from tests.app.knowledge.hash_embedder import HashEmbedder
from tests.app.knowledge.local_reading import LocalReading

ROUNDS = 6
CHANGES = 12
TEXTS = ("alpha", "beta gamma", "# Part\n\nshared alpha ", "长城 shared", "", "note " * 500)
NAMES = ("a.md", "b.md", "note.txt", "note", "c.py", ".env", "bin.md", "ü.md", "A.MD")
FOLDERS = (".", "one", "one/two", "three", ".hidden")


class Chaos:
    """Changes a folder in all ways that people and programs do."""

    def __init__(self, root: Path, seed: int) -> None:
        self._root = root
        self._chance = random.Random(seed)

    def strike(self) -> None:
        files = [self.write] * 3 + [self.move, self.delete, self.copy, self.touch, self.link]
        others = [self.overwrite_in_secret, self.drop_folder, self.move_folder, self.swap]
        kinds = [self.file_for_folder, self.link_for_folder, self.root_anew]
        self._chance.choice([*files, *others, *kinds])()

    def write(self) -> None:
        path = self.place()
        if path.name == "bin.md":
            path.write_bytes(bytes(range(256)) * 4)
        else:
            path.write_text(self._chance.choice(TEXTS) + str(self._chance.randrange(3)))

    def move(self) -> None:
        target, path = self.place(), self.some_file()
        if path is not None:
            os.replace(path, target)

    def delete(self) -> None:
        if (path := self.some_file()) is not None:
            path.unlink()

    def copy(self) -> None:
        target, path = self.place(), self.some_file()
        if path is not None and path != target:
            shutil.copy2(path, target)

    def touch(self) -> None:
        if (path := self.some_file()) is not None:
            os.utime(path, (self._chance.randrange(2**31), self._chance.randrange(2**31)))

    def overwrite_in_secret(self) -> None:
        """Same size, same time."""
        if (path := self.some_file()) is not None:
            times = path.stat()
            path.write_bytes(path.read_bytes()[::-1])
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def drop_folder(self) -> None:
        shutil.rmtree(self._root / self._chance.choice(FOLDERS[1:]), ignore_errors=True)

    def move_folder(self) -> None:
        source, target = self._root / "one", self._root / "three" / "moved"
        if source.is_dir() and not target.exists() and not target.parent.is_file():
            target.parent.mkdir(exist_ok=True)
            source.rename(target)

    def link(self) -> None:
        target, path = self.place(), self.some_file()
        if path is not None and not target.exists():
            self._chance.choice([os.link, os.symlink])(path, target)

    def swap(self) -> None:
        """Each has the name of the other, or another case of its own."""
        one, two = self.some_file(), self.some_file()
        if one is None or two is None:
            return
        waiting = one.with_name("waiting.tmp")
        one.rename(waiting)
        if one == two:
            os.replace(waiting, one.with_name(one.name.swapcase()))
        else:
            two.rename(one)
            waiting.rename(two)

    def file_for_folder(self) -> None:
        path = self._root / self._chance.choice(FOLDERS[1:])
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
            path.write_text("shared file for a folder")

    def link_for_folder(self) -> None:
        path, away = self._root / "one", self._root / f"away {self._chance.randrange(3)}"
        if path.is_dir() and not path.is_symlink() and not away.exists():
            path.rename(away)
            path.symlink_to(away)

    def root_anew(self) -> None:
        """At once, with the number of the old one on some disks."""
        if self._chance.random() < 0.3:
            shutil.rmtree(self._root)
            self._root.mkdir()

    def place(self) -> Path:
        path = self._root / self._chance.choice(FOLDERS) / self._chance.choice(NAMES)
        for folder in (path.parent.parent, path.parent):
            if folder != self._root and (folder.is_symlink() or folder.is_file()):
                folder.unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        return path

    def some_file(self) -> Path | None:
        files = sorted(path for path in self._root.rglob("*") if path.is_file())
        files = [path for path in files if not path.is_symlink()]
        return self._chance.choice(files) if files else None


@pytest.mark.parametrize("seed", range(int(os.environ.get("LOCALCHAT_CHAOS_SEEDS", "2"))))
def test_an_index_that_followed_all_changes_equals_a_new_one(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KnowledgeBase, "_calibrate", lambda *arguments: None)
    monkeypatch.setattr(base_module, "ReadingChild", LocalReading)
    docs = tmp_path / "docs"
    docs.mkdir()
    chaos = Chaos(docs, seed)
    bases = KnowledgeBases(Paths.under(tmp_path / "home"), HashEmbedder())
    with bases.create("followed", [docs]) as followed:
        for number in range(ROUNDS):
            for _ in range(CHANGES):
                chaos.strike()
            followed.sync()
            with bases.create(f"new {number}", [docs]) as new:
                new.sync()
                expected, got = seen(new), seen(followed)
            # A vector outlives a rename, so its numbers may be of the text under its old name.
            assert got.pop("vectors").keys() == expected.pop("vectors").keys()
            assert got == expected
