"""Routes llama.cpp's log lines to Python's logging. Knows nothing of models or contexts."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LOGGER = logging.getLogger("localchat.llama_cpp")

# ggml_log_level: none, debug, info, warn, error, continuation of the line before.
_LEVELS = {1: logging.DEBUG, 2: logging.DEBUG, 3: logging.INFO, 4: logging.ERROR, 5: logging.DEBUG}


@functools.cache
def install() -> Any:
    """Route the log and initialise the library, once per process.

    The returned callback object stays in this function's cache: the C side keeps its address for
    ever.
    """
    from llama_cpp import llama_cpp

    def receive(level: int, text: bytes, _user_data: object) -> None:
        line = text.decode("utf-8", "replace").strip()
        if line and line != ".":
            LOGGER.log(_LEVELS.get(level, logging.DEBUG), "%s", line)

    callback = llama_cpp.llama_log_callback(receive)
    llama_cpp.llama_log_set(callback, None)
    llama_cpp.llama_backend_init()
    return callback


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def error_lines() -> Iterator[list[str]]:
    """The error lines logged inside the block, for an error's text."""
    collector = _Collector()
    LOGGER.addHandler(collector)
    try:
        yield collector.lines
    finally:
        LOGGER.removeHandler(collector)
