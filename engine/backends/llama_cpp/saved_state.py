"""Parked states on disk, so that a conversation goes on after a restart without reading it again.

One file a conversation: a line that names the format, a header, the token ids, the state, and a
checksum over everything. A file that does not match in everything is ignored; nothing here raises
because of what a file holds. Knows nothing of llama.cpp.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from engine.backends.base import Parked

_MAGIC = b"localchat state 1\n"
_SUFFIX = ".state"
_HEADER_SIZE = struct.Struct("<I")
_MAX_HEADER = 1 << 22
_DIGEST_BYTES = 32
# A temporary file of that age belongs to a process that died while writing.
_ABANDONED_S = 3600


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    conversation: str
    fingerprint: str
    ids: int
    length: int
    positions: tuple[int, ...] | None
    data: int


@dataclass(frozen=True, slots=True)
class SavedState:
    ids: tuple[int, ...]
    """The tokens that the state holds."""
    parked: Parked


def write_state(
    folder: Path,
    conversation: str,
    fingerprint: str,
    ids: tuple[int, ...],
    parked: Parked,
    cap_bytes: int,
) -> bool:
    """Save a state, then delete the least recently used ones beyond the cap; False if it is larger.

    `fingerprint` names everything that must be equal for the state to be usable. Raises OSError.
    """
    if parked.length != len(ids):
        raise ValueError(f"{len(ids)} ids for a state of {parked.length} tokens")
    header = msgspec.json.encode(
        _Header(
            conversation, fingerprint, len(ids), parked.length, parked.positions, len(parked.data)
        )
    )
    head = _MAGIC + _HEADER_SIZE.pack(len(header)) + header
    parts = (head, np.asarray(ids, "<i4").tobytes(), parked.data)
    if sum(map(len, parts)) + _DIGEST_BYTES > cap_bytes:
        drop_state(folder, conversation)
        return False
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(_path(folder, conversation), parts)
    enforce_cap(folder, cap_bytes)
    return True


def read_state(folder: Path, conversation: str, fingerprint: str) -> SavedState | None:
    """The conversation's state if there is one and it matches in everything; marks it as used."""
    path = _path(folder, conversation)
    try:
        content = path.read_bytes()
    except OSError:
        return None
    saved = _decode(content, conversation, fingerprint)
    if saved is not None:
        with contextlib.suppress(OSError):
            os.utime(path)
    return saved


def drop_state(folder: Path, conversation: str) -> None:
    """Delete the conversation's state. Raises OSError if there is one and it cannot be deleted."""
    _path(folder, conversation).unlink(missing_ok=True)
    for left in folder.glob(f"{_path(folder, conversation).name}.*.tmp"):
        left.unlink(missing_ok=True)


def enforce_cap(folder: Path, cap_bytes: int) -> None:
    """Delete the least recently used states until the rest takes at most `cap_bytes`."""
    _remove_abandoned(folder)
    files = sorted(
        ((info.st_mtime_ns, info.st_size, path) for path, info in _files(folder, _SUFFIX)),
        reverse=True,
    )
    total = 0
    for _, size, path in files:
        total += size
        if total > cap_bytes:
            path.unlink(missing_ok=True)


def _path(folder: Path, conversation: str) -> Path:
    return folder / (hashlib.sha256(conversation.encode()).hexdigest()[:32] + _SUFFIX)


def _write(path: Path, parts: tuple[bytes, ...]) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                digest.update(part)
                file.write(part)
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _decode(content: bytes, conversation: str, fingerprint: str) -> SavedState | None:
    start = len(_MAGIC) + _HEADER_SIZE.size
    if len(content) < start + _DIGEST_BYTES or not content.startswith(_MAGIC):
        return None
    (size,) = _HEADER_SIZE.unpack_from(content, len(_MAGIC))
    if size > min(_MAX_HEADER, len(content) - start - _DIGEST_BYTES):
        return None
    try:
        header = msgspec.json.decode(content[start : start + size], type=_Header)
    except msgspec.MsgspecError:
        return None
    if (header.conversation, header.fingerprint) != (conversation, fingerprint):
        return None
    return _body(content, start + size, header)


def _body(content: bytes, start: int, header: _Header) -> SavedState | None:
    if header.ids != header.length or min(header.ids, header.data) < 0:
        return None
    middle, end = start + 4 * header.ids, start + 4 * header.ids + header.data
    if end + _DIGEST_BYTES != len(content) or not _is_whole(content, end):
        return None
    ids = tuple(np.frombuffer(content, "<i4", header.ids, start).tolist())
    parked = Parked(content[middle:end], header.length, header.positions)
    return SavedState(ids, parked)


def _is_whole(content: bytes, end: int) -> bool:
    digest = hashlib.blake2b(memoryview(content)[:end], digest_size=_DIGEST_BYTES)
    return digest.digest() == content[end:]


def _files(folder: Path, suffix: str) -> list[tuple[Path, os.stat_result]]:
    found = []
    for path in folder.glob(f"*{suffix}"):
        with contextlib.suppress(OSError):  # another process deleted it
            found.append((path, path.stat()))
    return found


def _remove_abandoned(folder: Path) -> None:
    for path, info in _files(folder, ".tmp"):
        if time.time() - info.st_mtime > _ABANDONED_S:
            path.unlink(missing_ok=True)
