"""Sets the worker's process up: the log with times, crash dumps, the end with its parent.

Knows nothing of the engine. Standard output and error are the log file already.
"""

from __future__ import annotations

import ctypes
import faulthandler
import logging
import signal
import sys

# What a crash leaves in the log is found by the process in this head, see `engine/obituary.py`.
FORMAT = "%(asctime)s %(process)d %(name)s %(levelname)s %(message)s"
_PR_SET_PDEATHSIG = 1


def prepare_process() -> None:
    """Once, first thing in the process."""
    logging.basicConfig(level=logging.INFO, format=FORMAT, stream=sys.stderr)
    logging.captureWarnings(True)
    faulthandler.enable()
    _ignore_the_terminal()
    _end_with_parent()


def _ignore_the_terminal() -> None:
    """The front end decides what ctrl-C means; the pipe says when it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _end_with_parent() -> None:
    """Linux kills this process when the thread that started it ends, native call or not."""
    if sys.platform != "linux":
        return
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):
        pass  # the reader thread sees the end of the pipe all the same
