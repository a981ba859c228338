"""llama.cpp's log lines, as they go through Python's logging, and its initialisation."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from models.tokenizers.native_log import LOGGER, route_native_log


@functools.cache
def install() -> None:
    """Route the log and initialise the library, once per process."""
    from llama_cpp import llama_cpp

    route_native_log()
    llama_cpp.llama_backend_init()


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
    logger = logging.getLogger(LOGGER)
    logger.addHandler(collector)
    try:
        yield collector.lines
    finally:
        logger.removeHandler(collector)
