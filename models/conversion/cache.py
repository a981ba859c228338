"""Converted files that are kept: found again by what they were made of, never by their name.

Each lies in a folder of its own, named by the fingerprint of its source and the type. A source that
changed has another fingerprint, so its old file is never used; it goes when the new one is made.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from models.conversion.convert import convert_folder, ignore_progress
from models.conversion.gguf_file import Progress
from models.conversion.tensors import Kind
from models.errors import LoadingStopped, LocalchatError
from models.hf_folder import read_folder
from models.loaders.gguf import read_gguf
from models.loaders.safetensors_index import read_safetensors
from models.sizes import show_text
from models.tokenizers.fingerprint import folder_fingerprint

if TYPE_CHECKING:
    from filelock import FileLock

FORMAT = 2
"""Raised when the same source gives another file."""
_NOTE = "source.json"
_LOCK = ".lock"
_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class ConvertedModel:
    path: Path
    source: str
    """The folder it was made from, as it was called then."""
    kind: str
    bytes: int


def source_fingerprint(folder: Path) -> str:
    """Changes with the weights, the config, the tokenizer, the chat template and our own format."""
    files = read_folder(folder)
    digest = hashlib.sha256(f"{FORMAT}\0{read_safetensors(folder).fingerprint()}\0".encode())
    digest.update(folder_fingerprint(files).encode())
    settings = (dict(files.config), dict(files.generation), files.template)
    digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
    return digest.hexdigest()[:24]


def find_converted(folder: Path, cache: Path, kind: Kind = "Q8_0") -> Path | None:
    """The complete file that was made from the folder as it is now; None when there is none."""
    return _complete_file(_place(folder, cache, kind))


def cached_conversion(
    folder: Path, cache: Path, kind: Kind = "Q8_0", progress: Progress = ignore_progress
) -> Path:
    """The converted file, made now where the cache has none. Other processes may ask for the same
    at once: one of them converts, the others wait.

    Raises what `convert_to` raises; LoadingStopped also while another process converts.
    """
    place = _place(folder, cache, kind)
    if found := _complete_file(place):
        return found
    with _locked(place, progress):
        if found := _complete_file(place):
            return found
        path = _fill(place, folder, kind, progress)
        _remove_stale(cache, place, folder, kind)
        return path


def list_converted(cache: Path) -> tuple[ConvertedModel, ...]:
    """Every complete file of the cache, by name."""
    found = (_described(place) for place in _places(cache))
    return tuple(sorted((one for one in found if one), key=lambda one: one.path.name))


def remove_converted(model: ConvertedModel) -> None:
    """Deletes the file; whoever has it open keeps it until they close it."""
    _remove(model.path.parent)


def _place(folder: Path, cache: Path, kind: Kind) -> Path:
    return cache / f"{source_fingerprint(folder)}-{kind}"


def _complete_file(place: Path) -> Path | None:
    """Whatever it is called: folders of the same content share it. Its header tells how long it
    must be.
    """
    for path in place.glob("*.gguf"):
        try:
            return read_gguf(path).path
        except LocalchatError:
            continue
    return None


@contextmanager
def _locked(place: Path, progress: Progress) -> Iterator[None]:
    """The lock of one place in the cache, waited for as long as `progress` allows.

    Its file stays: who deletes a lock that others wait for lets two of them in.
    """
    from filelock import FileLock

    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalchatError(
            "The converted model cannot be kept.",
            f"{show_text(os.fspath(place.parent))}: {error.strerror or error}.",
            "Change the folder's permissions, or set LOCALCHAT_CACHE_DIR to another one.",
        ) from error
    lock = FileLock(place.parent / f"{place.name}{_LOCK}")
    while not _acquired(lock):
        if not progress(0, 1):
            raise LoadingStopped("The conversion was stopped.")
    try:
        yield
    finally:
        lock.release()


def _acquired(lock: FileLock) -> bool:
    from filelock import Timeout

    try:
        lock.acquire(timeout=_POLL_SECONDS)
    except Timeout:
        return False
    return True


def _fill(place: Path, folder: Path, kind: Kind, progress: Progress) -> Path:
    """Only the holder of the lock writes there: what lies there is of a process that was killed."""
    shutil.rmtree(place)
    try:
        path = convert_folder(folder, place, kind, progress)
        note = {"source": os.fspath(folder.resolve()), "kind": kind}
        (place / _NOTE).write_text(json.dumps(note))
        return path
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def _remove_stale(cache: Path, kept: Path, folder: Path, kind: Kind) -> None:
    source = os.fspath(folder.resolve())
    for place in _places(cache):
        model = _described(place)
        if model and place != kept and (model.source, model.kind) == (source, kind):
            _remove(place)


def _places(cache: Path) -> Iterator[Path]:
    if cache.is_dir():
        yield from (path for path in cache.iterdir() if (path / _NOTE).is_file())


def _described(place: Path) -> ConvertedModel | None:
    try:
        note = json.loads((place / _NOTE).read_text())
        path = next(place.glob("*.gguf"))
        return ConvertedModel(path, str(note["source"]), str(note["kind"]), path.stat().st_size)
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        return None


def _remove(place: Path) -> None:
    """The note goes last: what is left of an interrupted removal is listed and can be removed."""
    for path in sorted(place.iterdir(), key=lambda path: path.name == _NOTE):
        path.unlink(missing_ok=True)
    place.rmdir()
