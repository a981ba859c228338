"""Locks between processes that share a data folder; the system drops them with their owner.

One per conversation while it is answered or edited, one for the whole folder around migrations and
checkpoints. They know nothing of the database. The lock file stays; a second file beside it names
the holder's pid.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from app.errors import Busy, file_error
from app.paths import make_folder

__all__ = ["Busy", "conversation_lock", "folder_lock", "is_answered_elsewhere"]


@contextmanager
def conversation_lock(locks: Path, chat_id: int) -> Iterator[None]:
    """Holds the conversation; raises Busy at once when anyone, this process included, holds it
    already.
    """
    with hold(locks / f"chat-{chat_id}.lock", timeout=0, what=f"Chat {chat_id} is being answered"):
        yield


@contextmanager
def folder_lock(locks: Path, timeout: float = 10.0) -> Iterator[None]:
    """Holds the whole data folder; waits up to `timeout` seconds, then raises Busy."""
    with hold(locks / "folder.lock", timeout, what="The data folder is being opened or closed"):
        yield


def is_answered_elsewhere(locks: Path, chat_id: int) -> bool:
    """Whether a live process holds the conversation now."""
    if not (locks / f"chat-{chat_id}.lock").exists():
        return False
    try:
        with conversation_lock(locks, chat_id):
            return False
    except Busy:
        return True


@contextmanager
def hold(path: Path, timeout: float, what: str) -> Iterator[None]:
    make_folder(path.parent)
    lock = filelock.FileLock(path, timeout=timeout, mode=0o600, thread_local=False)
    try:
        lock.acquire(poll_interval=0.02)
    except filelock.Timeout as error:
        raise busy(path, what) from error
    except OSError as error:
        raise file_error(error, path) from error
    try:
        write_holder(path)
        yield
    finally:
        lock.release()


def busy(path: Path, what: str) -> Busy:
    pid = read_holder(path)
    if pid == os.getpid():
        return Busy(what, "This window is at it.", "Wait until it is done, or stop it.")
    holder = f"process {pid}" if pid is not None else "another process"
    return Busy(what, f"It is in the hands of {holder}.", "Wait until it is done, or end it.")


def write_holder(path: Path) -> None:
    """Names this process as the holder; only words depend on it, so a failure changes nothing."""
    try:
        descriptor = os.open(holder_file(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(str(os.getpid()))
    except OSError:
        pass


def read_holder(path: Path) -> int | None:
    try:
        return int(holder_file(path).read_text())
    except (OSError, ValueError):
        return None


def holder_file(path: Path) -> Path:
    return path.with_suffix(".pid")
