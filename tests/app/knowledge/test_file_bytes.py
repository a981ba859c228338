from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path

import pytest

from app.knowledge import file_bytes as module
from app.knowledge.file_bytes import file_bytes, is_doubtful, is_same_status
from app.knowledge.folder_walk import found_from


def found(path: Path):
    return found_from(path, path.name, path.lstat())


def digest(path: Path) -> bytes:
    return file_bytes(found(path)).digest


def test_equal_bytes_have_one_digest_whatever_their_name_and_time(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    a.write_bytes(b"x" * 3_000_000)
    b.write_bytes(b"x" * 3_000_000)
    c.write_bytes(b"x" * 2_999_999 + b"y")
    os.utime(b, (1, 1))
    assert digest(a) == digest(b) != digest(c)


def test_of_a_large_file_the_ends_the_size_and_the_time_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WHOLE_BYTES", 100)
    monkeypatch.setattr(module, "END_BYTES", 10)
    path = tmp_path / "large"
    seen = set()
    for data in (b"a" * 200, b"b" + b"a" * 199, b"a" * 199 + b"b", b"a" * 201):
        path.write_bytes(data)
        os.utime(path, (5, 5))
        seen.add(digest(path))
    os.utime(path, (6, 6))
    seen.add(digest(path))
    assert len(seen) == 5
    os.rename(path, tmp_path / "renamed")
    assert digest(tmp_path / "renamed") in seen


class Endless(io.BytesIO):
    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        assert size >= 0, "as much as there is"
        return bytes(size)


@pytest.mark.parametrize("size", [0, 1, 100, 3_000_000])
def test_of_a_file_that_never_ends_as_much_is_read_as_its_status_says(
    tmp_path: Path, size: int
) -> None:
    path = tmp_path / "a"
    path.write_text("")
    read = b"".join(module.telling(Endless(), replace(found(path), size=size)))
    assert read == bytes(size)


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_what_became_no_regular_file_is_not_waited_for_and_not_followed(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "was a file"
    path.write_text("text")
    before = found(path)
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        (tmp_path / "target").write_text("secret")
        path.symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="was a file"):
        file_bytes(before)


def test_a_status_of_before_is_told_from_one_of_after_a_change(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("text")
    first = found(path)
    assert is_same_status(first, found(path))
    assert is_same_status(first, replace(first, inode=(first.inode[0] + 1, first.inode[1])))
    os.utime(path, ns=(first.mtime_ns, first.mtime_ns))
    path.with_name("new").write_text("text")
    os.utime(path.with_name("new"), ns=(first.mtime_ns, first.mtime_ns))
    path.with_name("new").replace(path)
    assert not is_same_status(first, found(path)), "an editor that saves by renaming"


def test_a_file_is_in_doubt_when_it_changed_shortly_before_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("text")
    one = replace(found(path), mtime_ns=10**18, ctime_ns=10**18)
    second = 10**9
    assert is_doubtful(one, 10**18 + second)
    assert not is_doubtful(one, 10**18 + 3 * second)
    assert is_doubtful(replace(one, mtime_ns=10**18 + 9 * second), 10**18 + 3 * second)
    assert is_doubtful(replace(one, ctime_ns=10**18 + 2 * second), 10**18 + 3 * second)
