"""Writes safetensors files byte by byte, right or wrong, without the safetensors package."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BYTES = {"F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "I32": 4}


def entry(dtype: str, shape: list[int], start: int) -> dict[str, Any]:
    size = BYTES.get(dtype, 1)
    for dimension in shape:
        size *= dimension
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, start + size]}


@dataclass
class SafetensorsBytes:
    tensors: dict[str, tuple[str, list[int]]] = field(default_factory=dict)
    """Name -> dtype and shape, one behind the other."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Header entries that replace what would be right."""
    raw_header: bytes | None = None
    length: int | None = None
    """What the file says its header's length is."""
    missing: int = 0
    """Bytes cut off at the end."""
    extra: int = 0
    """Bytes added at the end."""

    def build(self) -> bytes:
        header, end = dict[str, Any](), 0
        for name, (dtype, shape) in self.tensors.items():
            header[name] = entry(dtype, shape, end)
            end = header[name]["data_offsets"][1]
        raw = self.raw_header or json.dumps(header | self.changes).encode()
        length = self.length if self.length is not None else len(raw)
        whole = struct.pack("<Q", length) + raw + b"\0" * (end + self.extra)
        return whole[: len(whole) - self.missing]

    def write(self, path: Path) -> Path:
        path.write_bytes(self.build())
        return path


def write_index(folder: Path, weight_map: dict[str, Any], **changes: Any) -> None:
    text = json.dumps({"metadata": {}, "weight_map": weight_map} | changes)
    (folder / "model.safetensors.index.json").write_text(text)
