"""One holder for a conversation; the lock goes with its holder, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.errors import Busy, StorageError
from app.store.locks import conversation_lock, folder_lock, is_answered_elsewhere

HOLDER = """
import sys, time
from pathlib import Path
from app.store.locks import conversation_lock
with conversation_lock(Path(sys.argv[1]), 7):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_holder_is_told_who_holds_and_the_lock_dies_with_its_owner(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Busy) as caught, conversation_lock(tmp_path, 7):
            pass
        assert f"process {holder.pid}" in caught.value.text
        assert caught.value.code == "failed"
        assert is_answered_elsewhere(tmp_path, 7)
        with conversation_lock(tmp_path, 8):
            pass
        holder.send_signal(signal.SIGKILL)
    assert not is_answered_elsewhere(tmp_path, 7)
    with conversation_lock(tmp_path, 7):
        assert is_answered_elsewhere(tmp_path, 7)


def test_the_same_process_is_refused_too_and_can_take_it_again_afterwards(tmp_path: Path) -> None:
    with (
        conversation_lock(tmp_path, 1),
        pytest.raises(Busy, match="This window"),
        conversation_lock(tmp_path, 1),
    ):
        pass
    with conversation_lock(tmp_path, 1):
        pass


def test_a_failure_inside_gives_the_lock_back(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), conversation_lock(tmp_path, 1):
        raise ZeroDivisionError
    with conversation_lock(tmp_path, 1):
        pass


def test_the_folder_is_waited_for_then_refused(tmp_path: Path) -> None:
    with folder_lock(tmp_path), pytest.raises(Busy), folder_lock(tmp_path, timeout=0.05):
        pass
    with folder_lock(tmp_path, timeout=0):
        pass


def test_lock_files_are_private_and_stay(tmp_path: Path) -> None:
    locks = tmp_path / "locks"
    with conversation_lock(locks, 1):
        pass
    assert not is_answered_elsewhere(locks, 1)
    assert not is_answered_elsewhere(locks, 2)
    for file in locks.iterdir():
        assert file.stat().st_mode & 0o77 == 0
    assert (locks / "chat-1.pid").read_text() == str(os.getpid())


def test_a_folder_that_cannot_hold_locks_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError) as caught, conversation_lock(tmp_path / "file", 1):
        pass
    assert str(tmp_path / "file") in caught.value.text
