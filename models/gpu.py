"""Which NVIDIA device this process may use, asked of the driver's own library (NVML).

Answers in milliseconds, imports no torch and makes no CUDA context. None wherever anything is
missing.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_LIBRARIES = {"win32": "nvml.dll"}
_LINUX = "libnvidia-ml.so.1"
_NAME_BYTES = 96


@dataclass(frozen=True, slots=True)
class Gpu:
    name: str
    capability: tuple[int, int]
    total_bytes: int
    free_bytes: int


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


def find_gpu(environ: Mapping[str, str] | None = None) -> Gpu | None:
    """The first device that CUDA programs of this environment see."""
    environ = os.environ if environ is None else environ
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and not (visible := visible.split(",")[0].strip()):
        return None
    try:
        library: Any = ctypes.CDLL(_LIBRARIES.get(sys.platform, _LINUX))
        return _ask(library, visible)
    except (OSError, AttributeError, ValueError):
        return None


def _ask(library: Any, visible: str | None) -> Gpu | None:
    if library.nvmlInit_v2() != 0:
        return None
    try:
        handle = _handle(library, visible)
        return None if handle is None else _facts(library, handle)
    finally:
        library.nvmlShutdown()


def _handle(library: Any, visible: str | None) -> ctypes.c_void_p | None:
    """Of a number, or of a name like GPU-... or MIG-...; the first device without either."""
    handle = ctypes.c_void_p()
    if visible is None or visible.isdigit():
        status = library.nvmlDeviceGetHandleByIndex_v2(int(visible or 0), ctypes.byref(handle))
    else:
        status = library.nvmlDeviceGetHandleByUUID(visible.encode(), ctypes.byref(handle))
    return handle if status == 0 else None


def _facts(library: Any, handle: ctypes.c_void_p) -> Gpu | None:
    name = ctypes.create_string_buffer(_NAME_BYTES)
    major, minor, memory = ctypes.c_int(), ctypes.c_int(), _Memory()
    statuses = (
        library.nvmlDeviceGetName(handle, name, _NAME_BYTES),
        library.nvmlDeviceGetCudaComputeCapability(
            handle, ctypes.byref(major), ctypes.byref(minor)
        ),
        library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)),
    )
    if any(statuses):
        return None
    shown = name.value.decode("utf-8", "replace")
    return Gpu(shown, (major.value, minor.value), memory.total, memory.free)
