"""Where everything lies on this system. Nobody else composes paths of ours or asks for folders.

It does not know what is in the files. Folders are 0700, files 0600.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.errors import file_error

APP = "localchat"


@dataclass(frozen=True, slots=True)
class Paths:
    """The four folders and what lies in them."""

    config: Path
    data: Path
    state: Path
    cache: Path

    @classmethod
    def default(cls, environ: Mapping[str, str] = os.environ) -> Paths:
        """The system's folders; `LOCALCHAT_{CONFIG,DATA,STATE,CACHE}_DIR` go before."""
        from platformdirs import PlatformDirs

        system = PlatformDirs(APP, appauthor=False)
        return cls(
            config=folder(environ, "CONFIG", system.user_config_path),
            data=folder(environ, "DATA", system.user_data_path),
            state=folder(environ, "STATE", system.user_state_path),
            cache=folder(environ, "CACHE", system.user_cache_path),
        )

    @classmethod
    def under(cls, root: Path) -> Paths:
        """All four folders below one, for tests and portable use."""
        return cls(root / "config", root / "data", root / "state", root / "cache")

    @property
    def config_file(self) -> Path:
        return self.config / "config.toml"

    @property
    def database(self) -> Path:
        return self.data / "chats.sqlite3"

    @property
    def locks(self) -> Path:
        """In the data folder: whoever shares the chats must share the locks."""
        return self.data / "locks"

    @property
    def models(self) -> Path:
        return self.data / "models"

    @property
    def knowledge(self) -> Path:
        return self.data / "knowledge"

    @property
    def log(self) -> Path:
        """The front end's log file."""
        return self.state / "localchat.log"

    @property
    def engine_log(self) -> Path:
        """What the worker and native code print."""
        return self.state / "engine.log"

    @property
    def saved_states(self) -> Path:
        return self.cache / "states"

    @property
    def converted_models(self) -> Path:
        return self.cache / "models"

    def ensure(self) -> Paths:
        """Makes the four folders and the models folder, 0700; StorageError where that fails."""
        for path in (self.config, self.data, self.state, self.cache, self.models):
            make_folder(path)
        return self


def folder(environ: Mapping[str, str], kind: str, default: Path) -> Path:
    chosen = environ.get(f"LOCALCHAT_{kind}_DIR", "")
    return Path(chosen).expanduser().absolute() if chosen else default


def make_folder(path: Path) -> Path:
    """A folder that only its owner can read, parents included where they are new."""
    try:
        missing = [place for place in (path, *path.parents) if not place.exists()]
        for place in reversed(missing):
            place.mkdir(mode=0o700, exist_ok=True)
        if not path.is_dir():
            raise NotADirectoryError(20, os.strerror(20), str(path))
    except OSError as error:
        raise file_error(error, path) from error
    return path


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces a file completely or not at all: temporary file (0600), sync, rename."""
    make_folder(path.parent)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        # The temporary file's name would say nothing to a person.
        raise file_error(OSError(error.errno, error.strerror), path) from error


def sync_folder(path: Path) -> None:
    """Makes a rename survive a power cut, on systems whose folders can be opened."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
