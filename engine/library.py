"""The models on this machine, for showing and choosing: what each is, and whether it fits.

A facade for the front ends: it reads headers only, loads nothing, and answers a broken file with an
entry that says what is wrong.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.backend_choice import Machine, this_machine
from engine.errors import LocalchatError, ModelFileError, ModelNotFound
from engine.model_fit import fit_of
from models.description import describe
from models.folders import Candidate, ModelFolder, candidates
from models.folders import default_folders as _default_folders
from models.free_memory import free_memory
from models.hf_folder import folder_name, is_model_folder
from models.loaders.split import part_name
from models.memory import kv_bytes_per_token
from models.model_description import ModelDescription
from models.sizes import show_bytes, show_name, show_text

__all__ = [
    "ModelEntry",
    "ModelFolder",
    "check",
    "default_folders",
    "find_model",
    "find_models",
    "free_memory",
    "inspect",
    "is_model",
    "show_bytes",
]

Folder = Path | ModelFolder


@dataclass(frozen=True, slots=True)
class ModelEntry:
    name: str
    """Printable; `find_model` takes it."""
    path: Path
    """The file or folder to load; of a split set one of its parts."""
    architecture: str
    quantization: str
    bytes: int
    """Of all its files."""
    ctx_train: int | None
    fits: bool
    memory_needed: int
    """Bytes with a context of `ctx_fit`."""
    ctx_fit: int
    """Tokens that would be chosen now."""
    source: str
    parameters: int = 0
    template: bool = False
    """Whether it has a chat template."""
    format: str = "gguf"
    """`gguf` or `safetensors`."""
    converts: bool = False
    """Whether it is converted to GGUF on its first use here."""
    error: str | None = None
    """Why it cannot be used; the other fields are then empty."""


def default_folders(
    models_folder: Path, home: Path | None = None, environ: Mapping[str, str] | None = None
) -> list[ModelFolder]:
    """Our own folder, the starter, and where other programs keep theirs; existing ones only."""
    return _default_folders(models_folder, home, environ)


def find_models(
    folders: Sequence[Folder], free_bytes: int | None = None, machine: Machine | None = None
) -> list[ModelEntry]:
    """Every model once, in the order of the folders; never raises for a file."""
    free = free_memory() if free_bytes is None else free_bytes
    machine = machine or this_machine()
    return [_entry(candidate, free, machine) for candidate in _distinct(folders)]


def is_model(path: Path) -> bool:
    """Whether there is a file, or a folder that is a model by itself."""
    return path.is_file() or is_model_folder(path)


def find_model(
    name_or_path: str,
    folders: Sequence[Folder],
    free_bytes: int | None = None,
    machine: Machine | None = None,
) -> ModelEntry:
    """A model by path, by name, or by a part of its name that only one has.

    Raises ModelNotFound naming the nearest, or the file's own error.
    """
    if not name_or_path.strip():  # as a path it would be the folder the person stands in
        raise ModelNotFound("No model was named.", "", "Give a name or a path with -m.")
    candidate = _by_path(name_or_path) or _by_name(name_or_path, list(_distinct(folders)))
    free = free_memory() if free_bytes is None else free_bytes
    return _described(candidate, describe(candidate.path), free, machine or this_machine())


def inspect(path: Path) -> dict[str, Any]:
    """Facts of one model as plain values, for showing. Raises what `describe` raises."""
    description = describe(path)
    fit = fit_of(description, free_memory(), this_machine())
    choice = fit.context
    return {
        "name": description.name,
        "path": str(description.path),
        "files": [str(file) for file in description.files],
        "title": description.title,
        "format": description.format,
        "architecture": description.architecture,
        "quantization": description.quantization,
        "parameters": description.parameters,
        "file_bytes": description.file_bytes,
        "weights_bytes": description.weights_bytes,
        "ctx_train": description.ctx_train,
        "layers": description.layers,
        "embedding": description.embedding,
        "heads": description.heads,
        "kv_heads": max(description.kv_heads, default=0),
        "key_length": description.key_length,
        "value_length": description.value_length,
        "window": description.window,
        "window_layers": sum(description.window_layers),
        "recurrent": description.recurrent,
        "vocab_size": description.vocab_size,
        "kv_bytes_per_token": kv_bytes_per_token(description, "auto"),
        "backend": fit.backend.name,
        "backend_reason": fit.backend.reason,
        "ctx": choice.ctx,
        "ctx_reason": choice.reason,
        "fits": choice.fits,
        "memory_needed": choice.estimate.total,
        "template": description.template is not None,
        "template_hash": description.template_hash,
        "tokenizer": description.tokenizer,
        "fingerprint": description.fingerprint,
        "license": description.license,
    }


def check(path: Path) -> list[str]:
    """What was checked and found right, a line each. Raises LocalchatError at the first fault."""
    description = describe(path)
    lines = [
        f"header: {len(description.files)} file(s), {show_bytes(description.file_bytes)}, complete",
        f"tensors: {description.parameters:,} values as {description.quantization}, shapes fit "
        f"the architecture {description.architecture}",
        _check_vocabulary(description),
    ]
    return [*lines, _check_template(description)]


def _check_vocabulary(description: ModelDescription) -> str:
    if description.format == "gguf":
        return f"vocabulary: {description.vocab_size:,} tokens, special ids in range"
    from models.tokenizers.hf_tokenizer import HFTokenizer

    tokenizer = HFTokenizer(description.path)
    ends = ", ".join(map(tokenizer.token_text, sorted(tokenizer.end_ids))) or "nothing"
    return f"vocabulary: {tokenizer.vocab_size:,} tokens; an answer ends with {show_text(ends)}"


def _check_template(description: ModelDescription) -> str:
    if description.template is None:
        return "chat template: none; the model continues text"
    from models.templates.trial import try_template

    notices = try_template(description.template)
    extra = f" ({' '.join(notices)})" if notices else ""
    return f"chat template: {description.template_hash}, renders a conversation{extra}"


def _distinct(folders: Sequence[Folder]) -> Iterator[Candidate]:
    """Each file once, although several folders or links lead to it."""
    seen: set[str] = set()
    for folder in folders:
        place = folder if isinstance(folder, ModelFolder) else ModelFolder(folder, "models folder")
        for candidate in candidates(place):
            key = os.path.realpath(candidate.path)
            if key not in seen:
                seen.add(key)
                yield candidate


def _entry(candidate: Candidate, free_bytes: int, machine: Machine) -> ModelEntry:
    try:
        return _described(candidate, describe(candidate.path), free_bytes, machine)
    except LocalchatError as error:
        reason = str(error)
    except OSError as error:
        reason = show_text(f"It cannot be read: {error.strerror or error}.")
    return ModelEntry(
        name=candidate.name,
        path=candidate.path,
        architecture="",
        quantization="",
        bytes=_file_bytes(candidate.path),
        ctx_train=None,
        fits=False,
        memory_needed=0,
        ctx_fit=0,
        source=candidate.source,
        error=reason,
    )


def _described(
    candidate: Candidate, description: ModelDescription, free_bytes: int, machine: Machine
) -> ModelEntry:
    fit = fit_of(description, free_bytes, machine)
    choice = fit.context
    return ModelEntry(
        name=candidate.name,
        path=description.path,
        architecture=description.architecture,
        quantization=description.quantization,
        bytes=description.file_bytes,
        ctx_train=description.ctx_train,
        fits=choice.fits,
        memory_needed=choice.estimate.total,
        ctx_fit=choice.ctx,
        source=candidate.source,
        parameters=description.parameters,
        template=description.template is not None,
        format=description.format,
        converts=fit.converts,
    )


def _file_bytes(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except (OSError, ValueError):
        return 0


def _by_path(text: str) -> Candidate | None:
    """The model that a path names; None when the text is no path."""
    path = Path(os.path.expanduser(text))
    if os.path.isdir(path) and not is_model_folder(path):
        inside = [found for found in candidates(ModelFolder(path, "path")) if found.path != path]
        if len(inside) == 1:
            return inside[0]
        if len(inside) > 1:
            raise ModelFileError(
                f"{show_name(path)} holds {len(inside)} models.",
                ", ".join(found.name for found in inside[:5]),
                "Name one of the files.",
            )
    looks_like_path = os.sep in text or (os.altsep or os.sep) in text
    if not os.path.exists(path) and not looks_like_path:
        return None
    name = folder_name(path) if is_model_folder(path) else show_name(path)
    return Candidate(path, name, "path")


def _by_name(name: str, known: list[Candidate]) -> Candidate:
    wanted = _plain(name)
    for fits in (
        lambda other: other == wanted,
        lambda other: bool(wanted) and other.startswith(wanted),
        lambda other: bool(wanted) and wanted in other,
    ):
        found = [candidate for candidate in known if fits(_plain(candidate.name))]
        if len(found) == 1 or (found and _plain(found[0].name) == wanted):
            return found[0]
        if found:
            raise ModelNotFound(
                f"{name[:80]!r} could be several models.",
                ", ".join(candidate.name for candidate in found[:5]),
                "Write more of the name.",
            )
    raise _not_found(name, known)


def _not_found(name: str, known: list[Candidate]) -> ModelNotFound:
    names = [candidate.name for candidate in known]
    near = sorted(names, key=lambda other: -_likeness(name, other))[:3]
    near = [other for other in near if _likeness(name, other) > 0.6]
    if near:
        text = f"The nearest are: {', '.join(near)}."
    elif names:
        text = f"There are: {', '.join(names[:5])}."
    else:
        text = "No model was found in any folder."
    return ModelNotFound(
        f"There is no model {name[:80]!r}.", text, "Run `localchat models` for all of them."
    )


def _likeness(name: str, other: str) -> float:
    """1 for equal beginnings; people leave out the end of a name more often than its beginning."""
    short = _plain(other)[: len(name) + 2]
    return difflib.SequenceMatcher(None, name.casefold(), short).ratio()


def _plain(name: str) -> str:
    part = part_name(Path(name)) if "\0" not in name else None
    plain = (part.stem if part else name).casefold()
    return plain.removesuffix(".gguf")
