"""Writes a GGUF again with every tensor expanded to F32 by the gguf package, all keys kept."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO

import numpy as np

from models.loaders.gguf import TensorInfo, read_gguf
from tests.models.gguf_bytes import text

_ALIGNMENT = 32


def write_f32(source: Path, target: Path) -> Path:
    """Only for files of the default alignment in one part."""
    file = read_gguf(source)
    data = np.memmap(source, np.uint8, "r")
    table, end = [], 0
    for tensor in file.tensors:
        table.append(
            text(tensor.name)
            + struct.pack("<I", len(tensor.shape))
            + struct.pack(f"<{len(tensor.shape)}Q", *tensor.shape)
            + struct.pack("<IQ", 0, end)
        )
        end = _aligned(end + 4 * int(np.prod(tensor.shape)))
    with target.open("wb") as stream:
        keys_end = max(last for _first, last in file.places.values())
        stream.write(data[:keys_end].tobytes() + b"".join(table))
        for tensor in file.tensors:
            _pad(stream)
            stream.write(expanded(tensor, data).tobytes())
    return target


def expanded(tensor: TensorInfo, data: np.ndarray) -> np.ndarray:
    """float32 of a tensor's bytes, by the gguf package."""
    from gguf import GGMLQuantizationType, quants

    raw = data[tensor.offset : tensor.offset + tensor.byte_count]
    if tensor.type.name in ("F32", "F16"):
        return raw.view(f"<f{tensor.type.block_bytes}").astype(np.float32)
    rows = raw.reshape(tensor.shape[-1], -1)
    return np.asarray(quants.dequantize(rows, GGMLQuantizationType[tensor.type.name]), np.float32)


def _pad(stream: IO[bytes]) -> None:
    stream.write(b"\0" * (-stream.tell() % _ALIGNMENT))


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
