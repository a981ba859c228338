"""Where things lie, and that only their owner can read them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from app.errors import StorageError
from app.paths import Paths, make_folder, write_atomically


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_are_the_systems_own(empty_home: Path) -> None:
    paths = Paths.default({})
    for folder in (paths.config, paths.data, paths.state, paths.cache):
        assert folder.is_relative_to(empty_home)
        assert folder.name == "localchat" or folder.parent.name == "localchat"


def test_the_environment_moves_each_folder(tmp_path: Path) -> None:
    names = ("CONFIG", "DATA", "STATE", "CACHE")
    chosen = {f"LOCALCHAT_{name}_DIR": str(tmp_path / name) for name in names}
    paths = Paths.default(chosen)
    assert (paths.config, paths.data, paths.state, paths.cache) == tuple(
        tmp_path / name for name in names
    )
    assert paths.database == tmp_path / "DATA" / "chats.sqlite3"
    assert paths.config_file == tmp_path / "CONFIG" / "config.toml"


def test_a_relative_or_home_folder_becomes_absolute(empty_home: Path) -> None:
    assert Paths.default({"LOCALCHAT_DATA_DIR": "~/x"}).data == empty_home / "x"
    assert Paths.default({"LOCALCHAT_DATA_DIR": "x"}).data.is_absolute()


def test_new_folders_and_files_are_private(tmp_path: Path) -> None:
    paths = Paths.under(tmp_path / "root").ensure()
    for folder in (tmp_path / "root", paths.config, paths.data, paths.state, paths.models):
        assert mode(folder) == 0o700
    write_atomically(paths.config_file, b"x")
    assert mode(paths.config_file) == 0o600


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        with pytest.raises(StorageError) as caught:
            make_folder(path)
        assert str(tmp_path / "a") in caught.value.text


def test_a_write_replaces_completely_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("app.paths.os.fsync", full)
    with pytest.raises(StorageError, match="full") as caught:
        write_atomically(path, b"new")
    assert str(path) in caught.value.text
    assert path.read_bytes() == b"old"
    assert list(tmp_path.glob(".file.*")) == []
