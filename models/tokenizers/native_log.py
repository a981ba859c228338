"""Sends what llama.cpp prints into Python's logging, so that nothing native reaches a screen."""

from __future__ import annotations

import ctypes
import logging
from functools import cache
from typing import Any

LOGGER = "localchat.llama_cpp"

_LEVELS = {1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}
"""ggml's debug, info, warn and error."""


@cache
def route_native_log() -> Any:
    """Install the callback, once per process. The result keeps it alive."""
    from llama_cpp import llama_cpp

    logger = logging.getLogger(LOGGER)
    logger.addHandler(logging.NullHandler())

    def write(level: int, text: bytes, _user_data: ctypes.c_void_p) -> None:
        line = text.decode("utf-8", "replace").rstrip("\n")
        if line.strip(" ."):
            logger.log(_LEVELS.get(level, logging.DEBUG), "%s", line)

    callback = llama_cpp.llama_log_callback(write)
    llama_cpp.llama_log_set(callback, ctypes.c_void_p(0))
    return callback
