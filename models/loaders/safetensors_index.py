"""Which tensors a safetensors folder holds and in which files: headers only, no torch.

A folder has either `model.safetensors` or `model.safetensors.index.json` with the shards it names.
Other files beside them (other formats of the same weights) are not looked at.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.errors import ModelFileError, ModelNotFound
from models.loaders.safetensors_header import Shard, StoredTensor, read_shard
from models.sizes import show_name, show_text

SINGLE_NAME = "model.safetensors"
INDEX_NAME = "model.safetensors.index.json"
MAX_INDEX_BYTES = 100_000_000
MAX_SHARDS = 10_000
_SAMPLES = 32
_SAMPLE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class SafetensorsFolder:
    path: Path
    shards: tuple[Shard, ...]
    tensors: Mapping[str, StoredTensor]
    """By name, over all shards."""

    @property
    def weights_bytes(self) -> int:
        return sum(tensor.byte_count for tensor in self.tensors.values())

    @property
    def file_bytes(self) -> int:
        return sum(shard.byte_count for shard in self.shards)

    @property
    def parameters(self) -> int:
        """Values of all tensors, scales included."""
        return sum(_values(tensor.shape) for tensor in self.tensors.values())

    @property
    def dtype(self) -> str:
        """The dtype with the most bytes, for showing: `BF16`, `F8_E4M3`."""
        sizes: dict[str, int] = {}
        for tensor in self.tensors.values():
            sizes[tensor.dtype] = sizes.get(tensor.dtype, 0) + tensor.byte_count
        return max(sizes, key=lambda name: sizes[name])

    def fingerprint(self) -> str:
        """Names, sizes, headers and evenly spread samples of the weights of every shard."""
        digest = hashlib.sha256()
        for shard in self.shards:
            _hash_shard(digest, shard)
        return digest.hexdigest()[:32]


def is_safetensors_folder(path: Path) -> bool:
    """Whether there is something that `read_safetensors` would read, right or wrong."""
    return (path / SINGLE_NAME).is_file() or (path / INDEX_NAME).is_file()


def read_safetensors(path: Path) -> SafetensorsFolder:
    """The headers of all shards, checked against each other and the index.

    Raises:
        ModelNotFound: the folder, its weights or one of the shards is missing.
        ModelFileError: something is damaged, incomplete or contradicts the index.
        UnsupportedModel: a dtype is not known.
    """
    single, index = path / SINGLE_NAME, path / INDEX_NAME
    if index.is_file():
        return _read_sharded(path, _read_index(index))
    if single.is_file():
        return _folder(path, (read_shard(single),))
    raise _no_weights(path)


def _read_sharded(path: Path, weight_map: dict[str, str]) -> SafetensorsFolder:
    names = sorted(set(weight_map.values()))
    stray = path / SINGLE_NAME
    if SINGLE_NAME not in names and stray.exists():
        raise ModelFileError(
            f"{show_name(path)} holds two sets of weights.",
            f"{SINGLE_NAME} lies beside an index that names other files.",
            f"Remove {SINGLE_NAME}, or {INDEX_NAME} with its files.",
        )
    missing = [name for name in names if not (path / name).is_file()]
    if missing:
        raise _missing(path, missing, len(names))
    folder = _folder(path, tuple(read_shard(path / name) for name in names))
    _compare(path, folder, weight_map)
    return folder


def _folder(path: Path, shards: tuple[Shard, ...]) -> SafetensorsFolder:
    tensors: dict[str, StoredTensor] = {}
    for shard in shards:
        for tensor in shard.tensors:
            if tensor.name in tensors:
                first = show_name(tensors[tensor.name].file)
                raise _contradiction(
                    shard.path, f"It holds the tensor {tensor.name}, and so does {first}."
                )
            tensors[tensor.name] = tensor
    if not tensors:
        raise _contradiction(shards[0].path, "It holds no tensors.")
    return SafetensorsFolder(path, shards, tensors)


def _compare(path: Path, folder: SafetensorsFolder, weight_map: dict[str, str]) -> None:
    for name, file in weight_map.items():
        tensor = folder.tensors.get(name)
        if tensor is None or tensor.file.name != file:
            raise _contradiction(
                path / file, f"The index looks for the tensor {name} in it; it is not there."
            )
    for name, tensor in folder.tensors.items():
        if name not in weight_map:
            raise _contradiction(
                tensor.file, f"It holds the tensor {name}, of which the index knows nothing."
            )


def _read_index(index: Path) -> dict[str, str]:
    try:
        if index.stat().st_size > MAX_INDEX_BYTES:
            raise ValueError("too long")
        values = json.loads(index.read_bytes(), object_pairs_hook=_no_doubles)
        weight_map = values["weight_map"]
        if not isinstance(weight_map, dict) or not weight_map:
            raise ValueError("no weight_map")
    except OSError as error:
        raise ModelFileError(
            f"{INDEX_NAME} cannot be read.",
            f"The system says: {show_text(error.strerror or str(error))}.",
            "Check the file's permissions.",
        ) from error
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _damaged_index("It does not say which file holds which tensor.") from None
    for name, file in weight_map.items():
        _check_entry(name, file)
    if len(set(weight_map.values())) > MAX_SHARDS:
        raise _damaged_index(f"It names more than {MAX_SHARDS:,} files.")
    return weight_map


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key twice")
    return values


def _check_entry(name: str, file: Any) -> None:
    """Only plain names of files in the same folder are followed."""
    if not name.isprintable():
        raise _damaged_index("It holds a tensor name that is not readable text.")
    plain = isinstance(file, str) and file.isprintable() and not set(file) & set('/\\:"')
    if not plain or not file.endswith(".safetensors") or len(file) > 255:
        raise _damaged_index(
            f"For {name[:80]} it names {show_text(str(file)[:80])}, no file of this folder."
        )


def _damaged_index(text: str) -> ModelFileError:
    return ModelFileError(f"{INDEX_NAME} is damaged.", text, "Download it again.")


def _missing(path: Path, names: list[str], count: int) -> ModelNotFound:
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
    verb = "is" if len(names) == 1 else "are"
    return ModelNotFound(
        f"{show_name(path)} is not complete.",
        f"Of its {count} files of weights {shown} {verb} missing.",
        "Download what is missing into the same folder.",
    )


def _no_weights(path: Path) -> ModelNotFound:
    others = sorted(file.name for file in path.glob("*.safetensors")) if path.is_dir() else []
    if others:
        text = f"There is {show_text(others[0])}, but neither {SINGLE_NAME} nor {INDEX_NAME}."
    else:
        text = f"There is neither {SINGLE_NAME} nor {INDEX_NAME} in it."
    return ModelNotFound(
        f"{show_name(path)} holds no safetensors weights.", text, "Download what is missing."
    )


def _contradiction(file: Path, text: str) -> ModelFileError:
    return ModelFileError(
        f"{show_name(file)} does not fit together with the rest of the folder.",
        text,
        "Download the folder again, or remove what does not belong to it.",
    )


def _values(shape: tuple[int, ...]) -> int:
    count = 1
    for dimension in shape:
        count *= dimension
    return count


def _hash_shard(digest: hashlib._Hash, shard: Shard) -> None:
    digest.update(f"{shard.path.name}\0{shard.byte_count}\0".encode("utf-8", "surrogateescape"))
    with shard.path.open("rb") as stream:
        digest.update(stream.read(shard.data_offset))
        room = max(shard.byte_count - shard.data_offset - _SAMPLE_BYTES, 0)
        for index in range(_SAMPLES):
            stream.seek(shard.data_offset + room * index // (_SAMPLES - 1))
            digest.update(stream.read(_SAMPLE_BYTES))
