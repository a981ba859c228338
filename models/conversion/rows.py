"""Rows of a stored matrix as float32, read by offset: a chunk at a time, whatever the dtype.

fp8 values are multiplied by the scale that lies beside them, by the block size that their shapes
and the config tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from models.errors import ModelFileError, UnsupportedModel
from models.loaders.safetensors_header import StoredTensor
from models.sizes import show_name

Floats = npt.NDArray[np.float32]
CHUNK_VALUES = 4 << 20
"""Values converted at a time: 16 MB of float32."""
_RAW = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "F8_E4M3": "u1", "F8_E5M2": "u1"}


@dataclass(frozen=True, slots=True)
class Scale:
    """Of an fp8 matrix: one number for each block of rows and columns."""

    tensor: StoredTensor
    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows first..last of a tensor seen as a matrix of its last dim; a vector has rows of one."""

    tensor: StoredTensor
    first: int
    last: int
    scale: Scale | None = None

    @property
    def columns(self) -> int:
        shape = self.tensor.shape
        return shape[-1] if len(shape) > 1 else 1

    @property
    def values(self) -> int:
        return (self.last - self.first) * self.columns


def read_rows(rows: Rows, order: npt.NDArray[np.int64] | None = None) -> Iterator[Floats]:
    """Chunks of [some rows, columns]; `order` are the rows' places in the order to be read.

    Raises UnsupportedModel for a dtype without numbers, ModelFileError when the file ends early.
    """
    matrix = _matrix(rows.tensor, rows.columns)
    places = np.arange(rows.first, rows.last) if order is None else rows.first + order
    scales = None if rows.scale is None else _scales(rows.scale)
    step = max(1, CHUNK_VALUES // rows.columns)
    for start in range(0, len(places), step):
        chosen = places[start : start + step]
        raw = matrix[int(chosen[0]) : int(chosen[-1]) + 1] if order is None else matrix[chosen]
        values = _as_float(raw, rows.tensor.dtype)
        if rows.scale is not None and scales is not None:
            values = values * _spread(scales, rows.scale, chosen, rows.columns)
        yield values


def _matrix(tensor: StoredTensor, columns: int) -> npt.NDArray[np.generic]:
    raw = _RAW.get(tensor.dtype)
    if raw is None:
        raise UnsupportedModel(
            f"{show_name(tensor.file)} cannot be converted.",
            f"The tensor {tensor.name} has the dtype {tensor.dtype}, which holds no weights.",
            "Take the model in bf16, f16 or f32.",
        )
    count = tensor.byte_count // np.dtype(raw).itemsize
    shape = (count // columns, columns)
    try:
        return np.memmap(tensor.file, raw, "r", tensor.offset, shape)
    except (OSError, ValueError) as error:
        raise ModelFileError(
            f"{show_name(tensor.file)} cannot be read.",
            f"At the tensor {tensor.name} the system says: {error}.",
            "Check the disk, or download the file again.",
        ) from error


def _as_float(raw: npt.NDArray[np.generic], dtype: str) -> Floats:
    if dtype == "BF16":
        return (raw.astype(np.uint32) << 16).view(np.float32)
    if dtype == "F8_E4M3":
        return _e4m3()[raw.astype(np.uint8)]
    if dtype == "F8_E5M2":
        return (raw.astype(np.uint16) << 8).view(np.float16).astype(np.float32)
    return raw.astype(np.float32)


@cache
def _e4m3() -> Floats:
    """All 256 values: sign, 4 bits of exponent (bias 7), 3 of fraction; no infinities."""
    codes = np.arange(256)
    exponent, fraction = (codes >> 3) & 15, codes & 7
    small = fraction / 8 * 2.0**-6
    values = np.where(exponent == 0, small, (1 + fraction / 8) * 2.0 ** (exponent - 7.0))
    values[(codes & 127) == 127] = np.nan
    return np.where(codes & 128, -values, values).astype(np.float32)


def _scales(scale: Scale) -> Floats:
    """[blocks of rows, blocks of columns]"""
    shape = scale.tensor.shape
    columns = shape[-1] if len(shape) > 1 else 1
    return _as_float(_matrix(scale.tensor, columns)[:], scale.tensor.dtype)


def _spread(scales: Floats, scale: Scale, places: npt.NDArray[np.int64], columns: int) -> Floats:
    chosen = scales[places // scale.rows]
    return chosen[:, np.arange(columns) // scale.columns]
