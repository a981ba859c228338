"""A saved state comes back whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from engine.backends.base import Parked
from engine.backends.llama_cpp.saved_state import (
    drop_state,
    enforce_cap,
    read_state,
    write_state,
)

IDS = (5, 6, 7)
PARKED = Parked(b"state bytes" * 9, 3, (1, 3))
CAP = 1_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "states"
    path.mkdir()
    return path


def save(folder: Path, name: str = "chat", cap: int = CAP) -> bool:
    return write_state(folder, name, "print", IDS, PARKED, cap)


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_what_was_written_is_read(folder: Path) -> None:
    assert save(folder)
    saved = read_state(folder, "chat", "print")
    assert saved is not None
    assert (saved.ids, saved.parked) == (IDS, PARKED)
    assert save(folder)
    assert len(list(folder.iterdir())) == 1


def test_any_changed_byte_and_any_cut_make_it_unusable(folder: Path) -> None:
    save(folder)
    path = only_file(folder)
    whole = path.read_bytes()
    for index in range(len(whole)):
        path.write_bytes(whole[:index] + bytes([whole[index] ^ 1]) + whole[index + 1 :])
        assert read_state(folder, "chat", "print") is None
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        assert read_state(folder, "chat", "print") is None
    path.write_bytes(whole + b"\0")
    assert read_state(folder, "chat", "print") is None
    path.write_bytes(whole)
    assert read_state(folder, "chat", "print") is not None


def test_another_model_chat_or_format_is_ignored(folder: Path) -> None:
    assert read_state(folder / "none", "chat", "print") is None
    save(folder)
    assert read_state(folder, "chat", "other") is None
    assert read_state(folder, "chat 2", "print") is None
    only_file(folder).rename(folder / "other")
    assert read_state(folder, "chat", "print") is None


def test_only_the_owner_can_read_it(folder: Path) -> None:
    folder = folder / "new"
    save(folder)
    assert stat.S_IMODE(only_file(folder).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert "chat" not in only_file(folder).name


def test_a_dropped_state_is_gone(folder: Path) -> None:
    save(folder)
    (folder / f"{only_file(folder).name}.1.tmp").write_bytes(b"half")
    drop_state(folder, "chat")
    assert list(folder.iterdir()) == []
    drop_state(folder, "chat")


def test_the_least_recently_used_go_first(folder: Path) -> None:
    for age, name in enumerate(["c", "b", "a"]):
        save(folder, name)
        newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        os.utime(newest, ns=(0, 1_000_000 * age))
    assert read_state(folder, "c", "print") is not None  # used now
    size = only_size(folder)
    enforce_cap(folder, 2 * size)
    left = [name for name in "abc" if read_state(folder, name, "print")]
    assert left == ["a", "c"]
    save(folder, "d", cap=size)
    assert [name for name in "acd" if read_state(folder, name, "print")] == ["d"]


def only_size(folder: Path) -> int:
    return max(path.stat().st_size for path in folder.iterdir())


def test_a_state_above_the_cap_is_not_written_and_the_old_one_goes(folder: Path) -> None:
    save(folder)
    assert not save(folder, cap=20)
    assert list(folder.iterdir()) == []


def test_ids_must_be_those_of_the_state(folder: Path) -> None:
    with pytest.raises(ValueError, match="2 ids"):
        write_state(folder, "chat", "print", (1, 2), PARKED, CAP)


def test_a_failed_write_leaves_the_old_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(folder)

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="space"):
        write_state(folder, "chat", "print", (1, 2, 3), PARKED, CAP)
    monkeypatch.undo()
    saved = read_state(folder, "chat", "print")
    assert saved is not None
    assert saved.ids == IDS
    assert len(list(folder.iterdir())) == 1
