"""The walk: every regular file of the folder once, nothing outside, no secrets."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from app.knowledge.folder_walk import (
    FoundFile,
    RootMissing,
    SkippedFile,
    found_from,
    root_device,
    walk,
)

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs links and pipes")


def fill(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, "utf-8")
    return root


def found(root: Path) -> list[str]:
    return [one.relative for one in walk(root) if isinstance(one, FoundFile)]


def skipped(root: Path) -> dict[str, str]:
    return {one.relative: one.reason for one in walk(root) if isinstance(one, SkippedFile)}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    return path


def test_every_file_is_found_with_what_the_system_says(root: Path) -> None:
    fill(root, "b.md", "a/c.txt", "a/b/d.pdf", "z/e f.docx", "a.md")
    files = [one for one in walk(root) if isinstance(one, FoundFile)]
    expected = sorted(
        os.path.relpath(os.path.join(folder, name), root)
        for folder, _, names in os.walk(root)
        for name in names
    )
    assert sorted(one.relative for one in files) == [name.replace(os.sep, "/") for name in expected]
    for one in files:
        status = one.path.stat()
        assert (one.size, one.mtime_ns) == (status.st_size, status.st_mtime_ns)
        assert one.inode == (status.st_dev, status.st_ino)
        assert one.path == root / one.relative
    assert found(root) == found(root)


def test_numbers_and_times_beyond_64_bits_fit_and_stay_apart() -> None:
    """Cluster and memory file systems give such, and a database does not take them."""
    inodes = [0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1]
    times = [-(2**80), -1, 0, 2**63, 2**80]
    made = [
        found_from(
            Path("a"),
            "a",
            cast(
                "os.stat_result",
                SimpleNamespace(st_size=1, st_dev=1, st_ino=n, st_mtime_ns=t, st_ctime_ns=t),
            ),
        )
        for n in inodes
        for t in times
    ]
    for one in made:
        assert all(-(2**63) <= n < 2**63 for n in (*one.inode, one.mtime_ns, one.ctime_ns))
    assert len({one.inode for one in made}) == len(inodes)
    assert [one.mtime_ns for one in made[: len(times)]] == [-(2**63), -1, 0, 2**63 - 1, 2**63 - 1]


SECRETS = [
    *(".env", ".env.local", "prod.env", "server.pem", "tls.key", "id_rsa", "id_ed25519.pub"),
    *("me.p12", "store.kdbx", "credentials.json", "Credentials", ".netrc", ".npmrc", "KEY.PEM"),
    *("client_secret_1.json", "secrets.yaml", "passwords.txt", "x.gpg", "terraform.tfstate"),
    *(".git/config", ".ssh/known", ".gnupg/ring", ".aws/config", "sub/.git/HEAD", "sub/.env"),
]


def test_secrets_are_left_out_and_listed(root: Path) -> None:
    fill(root, "notes.md", "keynotes.md", "environment.md", *SECRETS)
    assert found(root) == ["environment.md", "keynotes.md", "notes.md"]
    listed = {name: reason for name, reason in skipped(root).items() if reason == "secret"}
    inside = {".git/config", ".ssh/known", ".gnupg/ring", ".aws/config", "sub/.git/HEAD"}
    folders = {".git", ".ssh", ".gnupg", ".aws", "sub/.git"}
    assert set(listed) == set(SECRETS) - inside | folders


def test_hidden_files_and_other_programs_folders_are_left_out_and_listed(root: Path) -> None:
    fill(root, "a.md", ".hidden.md", ".config/x", "node_modules/p/README.md", "~$report.docx")
    fill(root, "src/__pycache__/m.pyc", "venv/lib/x.py", ".venv/x.py", "a.md~", ".a.md.swp")
    assert found(root) == ["a.md"]
    reasons = skipped(root)
    assert reasons[".hidden.md"] == reasons[".config"] == reasons[".venv"] == "hidden"
    assert reasons["node_modules"] == reasons["src/__pycache__"] == "made by a program"
    assert reasons["~$report.docx"] == reasons["a.md~"] == "made by a program"


def test_our_own_folders_are_left_out_wherever_they_lie(root: Path) -> None:
    fill(root, "a.md", "deep/data/chats.sqlite3")
    ours = (root / "deep" / "data", root / "never made")
    assert [one.relative for one in walk(root, ours=ours) if isinstance(one, FoundFile)] == ["a.md"]
    (inside,) = walk(root / "deep" / "data", ours=ours)
    assert isinstance(inside, SkippedFile)
    assert inside.reason == "localchat's own folder"


@posix
def test_links_lead_nowhere_new_and_loops_end(root: Path) -> None:
    outside = fill(root.parent / "outside", "secret.md")
    fill(root, "a/real.md")
    (root / "same.md").symlink_to(root / "a" / "real.md")
    (root / "a" / "loop").symlink_to(root)
    (root / "self").symlink_to("self")
    (root / "broken.md").symlink_to(root / "no")
    (root / "out.md").symlink_to(outside / "secret.md")
    (root / "out").symlink_to(outside)
    (root / "up").symlink_to("..")
    assert found(root) == ["a/real.md"]
    out = "a link out of the folder"
    nowhere = "a link that leads nowhere"
    assert skipped(root) == {
        **{"out.md": out, "out": out, "up": out},
        **{"self": nowhere, "broken.md": nowhere},
    }
    # A root that is itself a link is the folder that it leads to.
    (root.parent / "linked").symlink_to(root)
    assert found(root.parent / "linked") == ["a/real.md"]


@posix
def test_a_file_with_two_names_is_found_once(root: Path) -> None:
    fill(root, "b.md")
    os.link(root / "b.md", root / "a.md")
    assert found(root) == ["a.md"]
    assert skipped(root) == {"b.md": "the same file as a.md"}


def test_a_folder_mounted_at_two_places_is_found_once(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(root, "one/a.md", "two/a.md", "round/one/a.md")
    numbers = {"two": (root / "one").stat().st_ino, "round": root.stat().st_ino}
    real = Path.lstat

    def mounted(path: Path) -> os.stat_result:
        status = real(path)
        number = numbers.get(path.name, status.st_ino)
        times = {name: getattr(status, name) for name in ("st_mtime_ns", "st_ctime_ns")}
        return os.stat_result((status.st_mode, number, *status[2:]), times)

    monkeypatch.setattr(Path, "lstat", mounted)
    assert found(root) == ["one/a.md"]
    assert skipped(root) == {"two": "the same folder as one", "round": "the same folder as ."}


@posix
def test_pipes_and_sockets_are_listed_and_never_opened(root: Path) -> None:
    fill(root, "a.md")
    os.mkfifo(root / "pipe.md")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(root / "s"))
        assert found(root) == ["a.md"]
        assert skipped(root) == dict.fromkeys(("pipe.md", "s"), "not a regular file")


NAMES = [b"new\nline.md", "rtl\u202edm.md".encode(), "😀 ü 模型.md".encode(), b"x" * 252 + b".md"]
NAMES += [b"bad\xff.md", "\u00e9.md".encode(), "e\u0301.md".encode(), b"A.md", b"a.md", b"*?[x].md"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_found_and_opens(root: Path, name: bytes) -> None:
    path = os.path.join(os.fsencode(root), name)
    try:
        with open(path, "wb") as file:
            file.write(b"text")
    except OSError:
        return  # this system has no such names
    (one,) = walk(root)
    assert isinstance(one, FoundFile)
    assert one.path.read_bytes() == b"text"
    assert os.path.samefile(os.fsencode(one.path), path)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems take these for one name")
def test_names_that_look_alike_are_two_files(root: Path) -> None:
    fill(root, "\u00e9.md", "e\u0301.md", "A.md", "a.md")
    assert len(found(root)) == 4


@posix
def test_a_path_too_long_to_open_is_listed(root: Path) -> None:
    fill(root, "a.md")
    start = os.getcwd()
    try:  # deeper than a path can say
        os.chdir(root)
        for _ in range(45):
            os.mkdir("d" * 100)
            os.chdir("d" * 100)
    finally:
        os.chdir(start)
    assert found(root) == ["a.md"]
    assert list(skipped(root).values()) == ["the path is too long"]
    _remove_deep(root)


def _remove_deep(root: Path) -> None:
    """From the inside out, by short names."""
    start = os.getcwd()
    os.chdir(root)
    depth = 0
    while os.path.isdir("d" * 100):
        os.chdir("d" * 100)
        depth += 1
    for _ in range(depth):
        os.chdir("..")
        os.rmdir("d" * 100)
    os.chdir(start)


def test_a_folder_without_permission_is_listed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(root, "a.md", "shut/b.md")
    scan = os.scandir

    def refuse(path: Path) -> object:
        if Path(path).name == "shut":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert found(root) == ["a.md"]
    assert skipped(root) == {"shut": "no permission"}


def test_a_root_that_is_gone_is_missing_and_not_empty(root: Path) -> None:
    fill(root, "a.md", "b/c.md")
    with pytest.raises(RootMissing) as caught:
        list(walk(root / "no"))
    assert "no cannot be read" in caught.value.title
    with pytest.raises(RootMissing):
        list(walk(root / "a.md"))
    walking = walk(root)
    next(walking)
    shutil.rmtree(root)
    with pytest.raises(RootMissing):
        list(walking)
    with pytest.raises(RootMissing):
        root_device(root)


def test_a_root_replaced_meanwhile_is_missing(root: Path) -> None:
    fill(root, "a.md", "b/c.md")
    walking = walk(root)
    next(walking)
    root.rename(root.with_name("elsewhere"))
    root.mkdir()
    with pytest.raises(RootMissing):
        list(walking)


def test_a_mount_point_without_its_disk_is_missing(root: Path) -> None:
    device = root_device(root)
    assert list(walk(root, device=device)) == []  # a folder that was emptied
    with pytest.raises(RootMissing):
        list(walk(root, device=device + 1))
    fill(root, "a.md")
    assert len(list(walk(root, device=device + 1))) == 1  # numbers change with a restart
