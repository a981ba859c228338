"""The flag by which another thread stops a running computation. Knows no context."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llama_cpp import llama_cpp


class Interruption:
    """`interrupt` has an effect only while a computation runs, so that none is lost and none is
    left over.

    llama.cpp asks its abort callback at every node of the graph, hundreds of times a token. The C
    library's `strlen` answers without the interpreter: the length of the flag's string is 0 or 1.
    """

    def __init__(self) -> None:
        self._flag = ctypes.create_string_buffer(2)
        self._lock = threading.Lock()
        self._running = False
        self._callback = _string_length() or llama_cpp.ggml_abort_callback(self._is_set)

    def abort_callback(self) -> tuple[Any, int]:
        """The C callback and the address of its user data; both live as long as this object."""
        return self._callback, ctypes.addressof(self._flag)

    def interrupt(self) -> None:
        with self._lock:
            if self._running:
                self._flag[0] = b"\1"

    @property
    def is_set(self) -> bool:
        return bool(self._flag[0] != b"\0")

    @contextmanager
    def running(self) -> Iterator[None]:
        with self._lock:
            self._flag[0] = b"\0"
            self._running = True
        try:
            yield
        finally:
            with self._lock:
                self._running = False
                self._flag[0] = b"\0"

    def _is_set(self, _user_data: object) -> bool:
        return self.is_set


def _string_length() -> Any | None:
    """C's strlen as an abort callback; None where it cannot be found or does not answer as
    expected.
    """
    try:
        library = ctypes.CDLL("msvcrt") if sys.platform == "win32" else ctypes.CDLL(None)
        callback = ctypes.cast(library.strlen, llama_cpp.ggml_abort_callback)
    except (OSError, AttributeError, TypeError):
        return None
    probe = ctypes.create_string_buffer(2)
    if callback(ctypes.addressof(probe)):
        return None
    probe[0] = b"\1"
    return callback if callback(ctypes.addressof(probe)) else None
