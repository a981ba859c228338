"""Writes a planned file: header, then one tensor after the other, a chunk of rows at a time.

The file appears under its name when it is complete and on the disk, or not at all.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from models.conversion.rows import Floats
from models.conversion.tensors import PlannedTensor
from models.errors import LoadingStopped, LocalchatError, ModelFileError
from models.sizes import show_name, show_sizes, show_text

Progress = Callable[[int, int], bool]
"""Bytes written and in all -> whether to go on."""
FILE_TYPES = {"F32": 0, "F16": 1, "Q8_0": 7, "BF16": 32}
"""GGUF's numbers for what most tensors of a file are."""
_FULL = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG})


def new_writer(architecture: str) -> Any:
    import gguf

    return gguf.GGUFWriter(None, architecture)


def write_header(writer: Any, path: Path, tensors: tuple[PlannedTensor, ...] = ()) -> None:
    """The file's key-values and table of tensors; the writer's file stays open."""
    import gguf

    for tensor in tensors:
        writer.add_tensor_info(
            tensor.name,
            tensor.shape,
            np.dtype(np.float32),  # not looked at beside the storage type
            byte_count(tensor),
            raw_dtype=gguf.GGMLQuantizationType[tensor.type],
        )
    if tensors:
        writer.add_size_label(gguf.size_label(*writer.get_total_parameter_count()))
    writer.write_header_to_file(path)
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()


def write_tensors(writer: Any, tensors: tuple[PlannedTensor, ...], progress: Progress) -> None:
    """Behind the header. Raises LoadingStopped, ModelFileError."""
    (file,) = writer.fout
    total, done = sum(map(byte_count, tensors)), 0
    for tensor in tensors:
        writer.write_padding(file, file.tell())
        begin = file.tell()
        for chunk in tensor.read():
            if not progress(done + file.tell() - begin, total):
                raise LoadingStopped("The conversion was stopped.")
            file.write(_stored(chunk, tensor).tobytes())
        if file.tell() - begin != byte_count(tensor):
            raise ModelFileError(f"The tensor {tensor.name} does not have its size.")
        done += byte_count(tensor)
    writer.write_padding(file, file.tell())
    progress(total, total)


def byte_count(tensor: PlannedTensor) -> int:
    """Bytes of a tensor in the file."""
    import gguf

    values, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[tensor.type]]
    count = 1
    for dimension in tensor.shape:
        count *= dimension
    return int(count // values * size)


def require_room(folder: Path, needed: int) -> None:
    """Raises LocalchatError with the figures when the disk has not so many bytes."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        has, needs = show_sizes(free, needed)
        raise LocalchatError(
            "There is not enough room on the disk for the converted model.",
            f"It needs {needs}; {show_text(os.fspath(folder))} has {has}.",
            "Free some space, or choose another folder with -o.",
        )


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder, renamed to `path` at the end; gone after an error.

    Raises LocalchatError, naming the path, for what the system refuses.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.stem[:80]}.", dir=path.parent)
        os.close(descriptor)
        temporary = Path(name)
        try:
            yield temporary
            _sync(temporary)
            temporary.replace(path)
            _sync(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise _system_error(error, path) from error


def _stored(chunk: Floats, tensor: PlannedTensor) -> npt.NDArray[Any]:
    import gguf

    if not np.isfinite(chunk).all():
        raise _not_finite(tensor, "the folder's weights")
    if tensor.type != "F16":
        kind = gguf.GGMLQuantizationType[tensor.type]
        stored: npt.NDArray[Any] = gguf.quants.quantize(np.ascontiguousarray(chunk), kind)
        return stored
    with np.errstate(over="ignore"):
        half = chunk.astype(np.float16)
    if not np.isfinite(half).all():
        raise _not_finite(tensor, "16-bit floats; take BF16")
    return half


def _not_finite(tensor: PlannedTensor, where: str) -> ModelFileError:
    return ModelFileError(
        "The model cannot be converted.",
        f"The tensor {tensor.name} holds values that are no finite numbers in {where}.",
        "Download the model again, or choose another type.",
    )


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _system_error(error: OSError, path: Path) -> LocalchatError:
    reason = error.strerror or str(error)
    next_step = "Choose another folder with -o, or change its permissions."
    if error.errno in _FULL:
        next_step = "Free some space, or choose another folder with -o."
    return LocalchatError(
        f"{show_name(path)} cannot be written.",
        f"In {show_text(os.fspath(path.parent))} the system says: {reason}.",
        next_step,
    )
