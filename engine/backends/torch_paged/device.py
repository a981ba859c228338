"""The device itself: waiting for it, whether it still answers, and the memory that torch keeps."""

from __future__ import annotations

from contextlib import suppress

import torch

from engine.errors import BackendLost


def wait(device: torch.device) -> None:
    """Until the device has done what it was told."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


def require_alive(device: torch.device) -> None:
    """Right after something broke, on whatever stream: all of them are done when it returns.

    Raises BackendLost: some errors, such as of an illegal address, are the answer to every later
    call of a process.
    """
    if device.type != "cuda":
        return
    try:
        torch.cuda.synchronize(device)
    except RuntimeError as error:
        raise BackendLost(
            "The GPU answers nothing any more.",
            first_line(error),
            "Send the message again: the engine starts anew.",
        ) from error


def give_back_memory() -> None:
    """What torch keeps for later. Never raises: after a recording that failed torch 2.11 takes it
    for running still, and refuses.
    """
    with suppress(RuntimeError):
        torch.cuda.empty_cache()


def first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
