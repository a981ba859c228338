"""Whatever state the files are in: nothing is overwritten, what is readable is kept."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.errors import Busy, DiskFull, StorageError
from app.paths import Paths
from app.store import migrations, opening
from app.store.draft import KeptDraft
from app.store.history import History
from app.store.locks import conversation_lock, folder_lock
from tests.app.store.conftest import OpenHistory

PAGE = 4096


def fill(history: History, chats: int = 12, mark: str = "text") -> None:
    for number in range(chats):
        chat = history.new_chat(title=f"{mark} chat {number}")
        parent = None
        for turn in range(4):
            question = history.add_user(chat.id, parent, f"{mark} question {number}.{turn} " * 20)
            answer = history.begin_answer(chat.id, question.id)
            parent = answer.id
            history.finish_answer(
                answer.id, "complete", f"{mark} answer {number}.{turn} " * 300, "", tuple(range(50))
            )
        history.save_draft(chat.id, KeptDraft(f"draft {number}"))


def everything(history: History) -> dict[str, list[str]]:
    return {
        chat.title: [message.text for message in history.path(chat.id)] for chat in history.chats()
    }


@pytest.fixture
def whole(open_history: OpenHistory) -> dict[str, list[str]]:
    """What a closed, healthy database holds."""
    history = open_history()
    fill(history)
    content = everything(history)
    history.close()
    return content


def snapshot(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def set_aside(paths: Paths) -> list[Path]:
    return sorted(paths.data.glob("*.damaged-*"))


def root_page(database: Path, name: str) -> int:
    connection = sqlite3.connect(database)
    (page,) = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)
    ).fetchone()
    connection.close()
    return int(page)


def overwrite(database: Path, offset: int, data: bytes) -> None:
    with database.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def truncate(database: Path, pages: int) -> None:
    os.truncate(database, database.stat().st_size - pages * PAGE)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "the file's first bytes": lambda file: overwrite(file, 0, b"\xff" * 60),
    "the table of tables": lambda file: overwrite(file, 100, b"\xff" * 200),
    "all of page 1": lambda file: overwrite(file, 0, b"\0" * PAGE),
    "page 3": lambda file: overwrite(file, 2 * PAGE, b"\x55" * 64),
    "the root of the messages": lambda file: overwrite(
        file, (root_page(file, "messages") - 1) * PAGE, b"\xaa" * PAGE
    ),
    "an index page": lambda file: overwrite(
        file, (root_page(file, "messages_by_chat") - 1) * PAGE + 8, b"\x77" * 100
    ),
    "an entry of an index": lambda file: overwrite(
        file, root_page(file, "messages_by_parent") * PAGE - 3, b"\x11\x22\x33"
    ),
    "the last page is missing": lambda file: truncate(file, 1),
    "half of the file is missing": lambda file: os.truncate(file, file.stat().st_size // 2 + 7),
    "only the header is left": lambda file: os.truncate(file, 100),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_set_aside_and_its_chats_are_recovered(
    name: str, open_history: OpenHistory, paths: Paths, whole: dict[str, list[str]]
) -> None:
    DAMAGE[name](paths.database)
    before = paths.database.read_bytes()
    history = open_history()
    (aside,) = set_aside(paths)
    assert aside.read_bytes() == before
    assert any(str(aside) in notice for notice in history.notices)
    recovered = list(everything(history).values())
    if "missing" not in name and "left" not in name:
        assert len([texts for texts in whole.values() if texts in recovered]) >= len(whole) - 4
        known = {text for texts in whole.values() for text in texts}
        assert {text for texts in recovered for text in texts} <= known
    history.add_user(history.new_chat().id, None, "life goes on")
    history.close()
    again = open_history()
    assert again.notices == []
    assert len(again.chats("life")) == 1
    assert set_aside(paths) == [aside]


def test_a_damaged_page_costs_only_its_own_messages(
    open_history: OpenHistory, paths: Paths, whole: dict[str, list[str]]
) -> None:
    overwrite(paths.database, (root_page(paths.database, "messages") - 1) * PAGE, b"\xaa" * PAGE)
    history = open_history()
    assert everything(history) == whole
    assert history.draft(3).text == "draft 2"
    assert history.new_chat().id == 13
    assert len(history.chats("answer")) == 12


def test_an_empty_file_is_set_aside_and_told(open_history: OpenHistory, paths: Paths) -> None:
    paths.database.write_bytes(b"")
    history = open_history()
    (aside,) = set_aside(paths)
    assert aside.stat().st_size == 0
    assert any("empty" in notice for notice in history.notices)
    assert history.new_chat().id == 1


def test_an_emptied_file_is_recovered_from_its_log(open_history: OpenHistory, paths: Paths) -> None:
    history = open_history()
    fill(history, chats=2)
    content = everything(history)
    keep = snapshot(paths.data)
    history.close()
    (paths.data / "chats.sqlite3-wal").write_bytes(keep["chats.sqlite3-wal"])
    paths.database.write_bytes(b"")
    assert everything(open_history()) == content
    assert len(set_aside(paths)) == 2


@pytest.mark.parametrize("content", [b"hello\n" * 100, b"\0" * 10_000, os.urandom(5000)])
def test_something_else_in_its_place_is_kept(
    open_history: OpenHistory, paths: Paths, content: bytes
) -> None:
    paths.database.write_bytes(content)
    history = open_history()
    (aside,) = set_aside(paths)
    assert aside.read_bytes() == content
    assert history.chats() == []
    assert history.notices


def test_another_programs_database_is_kept(open_history: OpenHistory, paths: Paths) -> None:
    other = sqlite3.connect(paths.database)
    other.executescript("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
    other.close()
    before = paths.database.read_bytes()
    history = open_history()
    assert set_aside(paths)[0].read_bytes() == before
    assert any("not a database of localchat" in notice for notice in history.notices)


def test_a_folder_in_its_place_is_kept(open_history: OpenHistory, paths: Paths) -> None:
    (paths.database / "inside").mkdir(parents=True)
    history = open_history()
    (aside,) = set_aside(paths)
    assert (aside / "inside").is_dir()
    assert any("folder" in notice for notice in history.notices)
    assert history.new_chat().id == 1


# ---- the log beside it


def crashed_copy(paths: Paths, history: History) -> dict[str, bytes]:
    """The files as a killed process leaves them."""
    return {name: data for name, data in snapshot(paths.data).items() if not name.endswith("-shm")}


def restore(paths: Paths, files: dict[str, bytes]) -> None:
    for file in paths.data.glob("chats.sqlite3*"):
        file.unlink()
    for name, data in files.items():
        (paths.data / name).write_bytes(data)


def test_a_crashed_process_s_log_is_read(open_history: OpenHistory, paths: Paths) -> None:
    history = open_history()
    fill(history, chats=3)
    content = everything(history)
    files = crashed_copy(paths, history)
    assert files["chats.sqlite3-wal"]
    history.close()
    restore(paths, files)
    again = open_history()
    assert everything(again) == content
    assert again.notices == []
    assert set_aside(paths) == []


def test_a_lost_log_costs_what_was_in_it_and_nothing_else(
    open_history: OpenHistory, paths: Paths, whole: dict[str, list[str]]
) -> None:
    history = open_history()
    fill(history, chats=3, mark="late")
    files = crashed_copy(paths, history)
    history.close()
    del files["chats.sqlite3-wal"]
    restore(paths, files)
    again = open_history()
    assert everything(again) == whole
    assert again.notices == []


@pytest.mark.parametrize("other_chats", [1, 30])
def test_another_databases_log_is_set_aside(
    open_history: OpenHistory,
    paths: Paths,
    tmp_path: Path,
    whole: dict[str, list[str]],
    other_chats: int,
) -> None:
    elsewhere = Paths.under(tmp_path / "other").ensure()
    stranger = History.open(elsewhere.database, elsewhere.locks)
    fill(stranger, chats=other_chats, mark="foreign")
    foreign = (elsewhere.data / "chats.sqlite3-wal").read_bytes()
    stranger.close()
    (paths.data / "chats.sqlite3-wal").write_bytes(foreign)
    history = open_history()
    assert everything(history) == whole
    (aside,) = set_aside(paths)
    assert aside.read_bytes() == foreign
    assert any(str(aside) in notice for notice in history.notices)


def test_an_older_log_of_the_same_database_is_set_aside(
    open_history: OpenHistory, paths: Paths
) -> None:
    first = open_history()
    fill(first, chats=2)
    stale = (paths.data / "chats.sqlite3-wal").read_bytes()
    first.close()
    second = open_history()
    fill(second, chats=3, mark="later")
    content = everything(second)
    second.close()
    (paths.data / "chats.sqlite3-wal").write_bytes(stale)
    third = open_history()
    assert everything(third) == content
    assert len(set_aside(paths)) == 1


def test_a_log_without_a_database_is_kept(open_history: OpenHistory, paths: Paths) -> None:
    log = paths.data / "chats.sqlite3-wal"
    log.write_bytes(b"whatever")
    history = open_history()
    (aside,) = set_aside(paths)
    assert aside.read_bytes() == b"whatever"
    assert history.notices


def test_a_torn_log_ends_at_its_last_whole_change(open_history: OpenHistory, paths: Paths) -> None:
    history = open_history()
    fill(history, chats=3)
    files = crashed_copy(paths, history)
    history.close()
    for cut in range(0, 60_000, 7_919):
        restore(paths, {**files, "chats.sqlite3-wal": files["chats.sqlite3-wal"][: -cut or None]})
        again = open_history()
        assert set_aside(paths) == []
        for chat in again.chats():
            for message in again.path(chat.id):
                assert message.status in ("complete", "cut")
        again.close()


def test_a_damaged_word_index_is_made_again(
    open_history: OpenHistory, paths: Paths, whole: dict[str, list[str]]
) -> None:
    connection = sqlite3.connect(paths.database)
    connection.execute("UPDATE words_data SET block = zeroblob(20) WHERE id > 10")
    connection.commit()
    connection.close()
    history = open_history()
    assert any("search index" in notice for notice in history.notices)
    assert len(history.chats("answer")) == 12
    assert everything(history) == whole
    assert set_aside(paths) == []


def test_damage_that_shows_while_open_is_repaired_at_the_next_start(
    open_history: OpenHistory, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "WORDS_CHECK_BYTES", 0)
    first = open_history()
    fill(first, chats=2)
    with first._database.write() as connection:
        connection.execute("UPDATE words_data SET block = randomblob(20) WHERE id > 10")
    with pytest.raises(StorageError, match="damaged") as caught:
        first.chats("answer")
    assert "again" in caught.value.next_step
    first.close()
    second = open_history()
    assert len(second.chats("answer")) == 2
    assert any("search index" in notice for notice in second.notices)
    second.close()
    assert open_history().notices == []


# ---- answers of dead processes


def test_an_answer_of_a_dead_process_is_cut_and_one_of_a_living_process_is_left(
    open_history: OpenHistory, paths: Paths
) -> None:
    first = open_history()
    ids = []
    for _ in range(2):
        chat = first.new_chat()
        question = first.add_user(chat.id, None, "q")
        ids.append(first.begin_answer(chat.id, question.id).id)
        first.journal(ids[-1], "so far", "thought", (1, 2))
    with conversation_lock(paths.locks, 1):
        second = open_history()
        assert second.message(ids[0]).status == "streaming"
    cut = second.message(ids[1])
    assert (cut.status, cut.text, cut.reasoning, cut.ids) == ("cut", "so far", "thought", (1, 2))
    assert any("One answer was cut off" in notice for notice in second.notices)
    assert len(second.chats("so far")) == 1
    second.add_user(2, cut.id, "and then?")
    third = open_history()
    assert third.message(ids[0]).status == "cut"


# ---- shape


def test_a_new_database_has_the_right_header_mode_and_permissions(
    history: History, paths: Paths
) -> None:
    connection = history._database._connection
    for pragma, value in (
        ("journal_mode", "wal"),
        ("synchronous", 2),
        ("wal_autocheckpoint", 0),
        ("foreign_keys", 1),
        ("secure_delete", 1),
        ("busy_timeout", 5000),
        ("user_version", len(migrations.STEPS)),
        ("application_id", migrations.APPLICATION_ID),
    ):
        assert connection.execute(f"PRAGMA {pragma}").fetchone() == (value,)
    for file in paths.data.rglob("*"):
        assert stat.S_IMODE(file.stat().st_mode) & 0o77 == 0


def test_a_newer_shape_is_refused_by_name_and_left_alone(
    open_history: OpenHistory, paths: Paths, whole: dict[str, list[str]]
) -> None:
    connection = sqlite3.connect(paths.database)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = paths.database.read_bytes()
    with pytest.raises(StorageError, match="newer localchat") as caught:
        open_history()
    assert "99" in caught.value.text
    assert "Update" in caught.value.next_step
    assert paths.database.read_bytes() == before
    assert set_aside(paths) == []


def test_a_migration_runs_once_after_a_backup(
    open_history: OpenHistory,
    paths: Paths,
    whole: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def add_column(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE chats ADD COLUMN colour TEXT")

    version = len(migrations.STEPS)
    monkeypatch.setattr(migrations, "STEPS", (*migrations.STEPS, add_column))
    history = open_history()
    assert everything(history) == whole
    history.close()
    open_history().close()
    (backup,) = paths.data.glob(f"*.format-{version}-*")
    assert backup.stat().st_mode & 0o77 == 0
    connection = sqlite3.connect(backup)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("PRAGMA user_version").fetchone() == (version,)
    assert connection.execute("SELECT count(*) FROM chats").fetchone() == (12,)
    connection.close()
    last = open_history()
    last.purge(1)
    assert list(paths.data.glob("*.format-*")) == []


def test_a_failing_migration_changes_nothing(
    open_history: OpenHistory,
    paths: Paths,
    whole: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("DROP TABLE drafts")
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(migrations, "STEPS", (*migrations.STEPS, fail))
        with pytest.raises(ZeroDivisionError):
            open_history()
    history = open_history()
    assert everything(history) == whole
    assert history.draft(1).text == "draft 0"


# ---- surroundings


def test_a_full_disk_is_told_and_what_was_saved_stays(history: History) -> None:
    chat = history.new_chat()
    kept = history.add_user(chat.id, None, "kept")
    connection = history._database._connection
    connection.execute(
        f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}"
    )
    with pytest.raises(DiskFull) as caught:
        history.add_user(chat.id, kept.id, "too much " * 100_000)
    assert "chats.sqlite3" in caught.value.text
    assert caught.value.next_step
    connection.execute("PRAGMA max_page_count = 1000000")
    assert history.path(chat.id) == [kept]
    history.add_user(chat.id, kept.id, "fits now")


def test_a_database_that_somebody_else_locks_is_told(history: History, paths: Paths) -> None:
    other = sqlite3.connect(paths.database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    history._database._connection.execute("PRAGMA busy_timeout = 10")
    with pytest.raises(Busy, match="in use"):
        history.new_chat()
    other.close()
    assert history.new_chat().id == 1


def test_opening_waits_for_the_folder(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def impatient(locks: Path) -> object:
        return folder_lock(locks, timeout=0.05)

    monkeypatch.setattr(opening, "folder_lock", impatient)
    with folder_lock(paths.locks), pytest.raises(Busy, match="opened or closed"):
        History.open(paths.database, paths.locks)


OPEN_AS_NOBODY = """
import os, sys
from pathlib import Path
from app.errors import LocalchatError
from app.store.history import History
import sqlite3, filelock, app.store.opening
if os.geteuid() == 0:
    os.setresuid(65534, 65534, 65534)
data = Path(sys.argv[1])
try:
    History.open(data / "chats.sqlite3", Path(sys.argv[2])).new_chat()
except LocalchatError as error:
    print(error.title, "|", error.text, "|", error.next_step)
"""


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that other users can enter, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="localchat-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("what", ["file", "folder", "locks"])
def test_what_cannot_be_written_is_told_by_name(public_folder: Path, what: str) -> None:
    data, locks = public_folder / "data", public_folder / "locks"
    for folder in (data, locks):
        folder.mkdir()
    history = History.open(data / "chats.sqlite3", locks)
    fill(history, chats=1)
    history.close()
    for path in (data, locks, *data.iterdir(), *locks.iterdir()):
        path.chmod(0o777)
    if what == "file":
        (data / "chats.sqlite3").chmod(0o444)
    elif what == "folder":
        data.chmod(0o555)
    else:
        for path in (*locks.iterdir(), locks):
            path.chmod(0)
    done = subprocess.run(
        [sys.executable, "-c", OPEN_AS_NOBODY, str(data), str(locks)],
        capture_output=True,
        text=True,
        check=False,
    )
    for folder in (data, locks):
        folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    title, text, next_step = done.stdout.split(" | ")
    assert "written" in title or "permission" in title.lower()
    assert str(public_folder) in text
    assert next_step.strip()
    assert [file.name for file in data.iterdir() if "damaged" in file.name] == []


@pytest.mark.parametrize("name", [b"a#b?c%41", b"\xff\xfe", b"two  spaces", b"new\nline"])
def test_a_folder_of_any_name_holds_the_chats(tmp_path: Path, name: bytes) -> None:
    folder = tmp_path / os.fsdecode(name)
    for expected in ([], ["Hello."]):
        history = History.open(folder / "chats.sqlite3", folder / "locks")
        chat = history.latest() or history.new_chat()
        assert [message.text for message in history.path(chat.id)] == expected
        if not expected:
            history.add_user(chat.id, None, "Hello.")
        history.close()
    assert (folder / "chats.sqlite3").exists()
