"""The small JSON files beside the weights in a Hugging Face folder, and the chat template.

Reads texts only, never weights and never code. What a file means is for others to say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.errors import ModelFileError, UnsupportedModel
from models.sizes import show_bytes, show_name

CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
TEMPLATE = "chat_template.jinja"
MAX_JSON_BYTES = 64 << 20
"""Of the small files; the largest index of a sharded model has some megabytes."""
_TEMPLATE_LIMIT = 4 << 20
_REPOSITORY = re.compile(r"^models--(?:.+--)?(.+)$")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt")


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """A file that is absent is an empty mapping."""

    path: Path
    config: Mapping[str, Any]
    generation: Mapping[str, Any]
    """generation_config.json: end ids and recommended sampling."""
    tokenizer: Mapping[str, Any]
    """tokenizer_config.json"""
    special_tokens: Mapping[str, Any]
    """special_tokens_map.json"""
    template: str | None
    """None: a model that continues text."""

    @property
    def name(self) -> str:
        return folder_name(self.path)


def is_model_folder(path: Path) -> bool:
    """Whether a folder is a model by itself: it has a config.json."""
    try:
        return (path / CONFIG).is_file()
    except (OSError, ValueError):
        return False


def folder_name(path: Path) -> str:
    """For showing; in the Hugging Face cache the model's name and not the revision's."""
    if path.parent.name == "snapshots":
        match = _REPOSITORY.match(path.parent.parent.name)
        if match:
            return show_name(match[1])
    return show_name(path)


def read_folder(path: Path) -> FolderFiles:
    """Raises ModelFileError naming the file that is missing, damaged or too large."""
    if not is_model_folder(path):
        raise ModelFileError(
            f"{show_name(path)} is no model folder.",
            f"It holds no {CONFIG}.",
            "Name the folder that holds the model's config.json and its .safetensors files.",
        )
    config = read_json(path / CONFIG)
    generation = _optional(path / "generation_config.json")
    tokenizer = _optional(path / "tokenizer_config.json")
    special = _optional(path / "special_tokens_map.json")
    return FolderFiles(
        path=path,
        config=config,
        generation=generation,
        tokenizer=tokenizer,
        special_tokens=special,
        template=_template(path, tokenizer),
    )


def weight_files(path: Path) -> tuple[Path, ...]:
    """The .safetensors files, by name. Raises UnsupportedModel when there are only pickles."""
    found = sorted(_with_suffixes(path, (".safetensors",)))
    if found:
        return tuple(found)
    pickles = sorted(_with_suffixes(path, _PICKLES))
    if pickles:
        raise UnsupportedModel(
            f"{show_name(path)} cannot be used.",
            f"Its weights are in {show_name(pickles[0])}, a Python pickle, which can run code; "
            "only safetensors files are read.",
            "Get the model as safetensors or as a GGUF file.",
        )
    raise ModelFileError(
        f"{show_name(path)} holds no weights.",
        "There is no .safetensors file in it.",
        "Download the whole folder.",
    )


def read_json(path: Path) -> dict[str, Any]:
    """An object. Raises ModelFileError."""
    try:
        size = path.stat().st_size
        if size > MAX_JSON_BYTES:
            raise _damaged(path, f"It has {show_bytes(size)}, too much for such a file.")
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise _damaged(path, f"It cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"It is no JSON: {str(error)[:200]}.") from error
    if not isinstance(value, dict):
        raise _damaged(path, "It holds no object.")
    return value


def token_ids(value: object) -> Iterator[int]:
    """The ids of a setting that is one id, a list of ids, or absent."""
    for item in value if isinstance(value, list) else [value]:
        if type(item) is int and item >= 0:
            yield item


def token_content(value: object) -> str:
    """The text of a token that is written as a text or as an object; empty when it is neither."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else ""


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _template(path: Path, tokenizer: Mapping[str, Any]) -> str | None:
    """Of its own file, else of tokenizer_config.json: one text, or several with a name each."""
    file = path / TEMPLATE
    if file.is_file():
        return _template_text(file) or None
    found = tokenizer.get("chat_template")
    if isinstance(found, list):
        named = {str(one.get("name")): one for one in found if isinstance(one, dict)}
        found = named.get("default", {}).get("template")
    return found if isinstance(found, str) and found else None


def _template_text(path: Path) -> str:
    try:
        if path.stat().st_size > _TEMPLATE_LIMIT:
            raise _damaged(path, "It is too large for a chat template.")
        return path.read_text("utf-8")
    except OSError as error:
        raise _damaged(path, f"It cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise _damaged(path, "It is no UTF-8 text.") from error


def _with_suffixes(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    try:
        return [
            file
            for file in path.iterdir()
            if file.suffix.lower() in suffixes and not file.name.startswith("._")
        ]
    except OSError as error:
        raise ModelFileError(
            f"{show_name(path)} cannot be read.", f"{error.strerror or error}.", ""
        ) from error


def _damaged(path: Path, text: str) -> ModelFileError:
    return ModelFileError(
        f"{show_name(path.parent)}: {show_name(path)} cannot be used.",
        text,
        "Download the file again.",
    )
