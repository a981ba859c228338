"""Which backend runs a model on this machine, and why.

A facade for the front ends and the worker: it asks the driver, not torch, so that it costs nothing
at the start of a program.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from typing import Literal

from engine.errors import ModelFileError, UsageError
from models.gpu import Gpu, find_gpu
from models.model_description import ModelDescription
from models.own_decoder import decoder_config

BackendName = Literal["llama_cpp", "torch_paged"]
LEAST_CAPABILITY = (8, 0)
_PACKAGES = ("torch", "safetensors")


@dataclass(frozen=True, slots=True)
class Machine:
    gpu: Gpu | None
    missing: tuple[str, ...] = ()
    """Packages of the GPU backend that are not installed."""
    system: str = sys.platform

    @property
    def obstacle(self) -> str | None:
        """Why our own backend does not run on a GPU here; None: it does."""
        if self.gpu is None:
            return "no NVIDIA device was found"
        if self.system == "win32":
            return "on Windows it is not available"
        if self.gpu.capability < LEAST_CAPABILITY:
            return (
                f"the {self.gpu.name} has compute capability {_shown(self.gpu.capability)}, "
                f"{_shown(LEAST_CAPABILITY)} is needed"
            )
        if self.missing:
            return f'{" and ".join(self.missing)} are missing: pip install "localchat[cuda]"'
        return None


@dataclass(frozen=True, slots=True)
class BackendChoice:
    name: BackendName
    device: Literal["cpu", "cuda"]
    reason: str
    """In words, for showing."""


def this_machine() -> Machine:
    missing = tuple(name for name in _PACKAGES if importlib.util.find_spec(name) is None)
    return Machine(find_gpu(), missing)


def choose_backend(
    wanted: str, machine: Machine, description: ModelDescription | None = None
) -> BackendChoice:
    """`wanted`: `auto` or a backend's name. Without a description: for a model that both can run.

    Raises UsageError where the wanted backend cannot run here, UnsupportedModel where it cannot run
    the model.
    """
    if wanted == "llama_cpp":
        return BackendChoice("llama_cpp", "cpu", "as asked for")
    obstacle = machine.obstacle
    if wanted == "torch_paged":
        return _own(machine, description)
    if obstacle is not None:
        return BackendChoice("llama_cpp", "cpu", obstacle)
    try:
        _require_known(description)
    except ModelFileError as error:
        return BackendChoice("llama_cpp", "cpu", f"our own decoder cannot run it: {error.text}")
    assert machine.gpu is not None
    return BackendChoice("torch_paged", "cuda", f"the {machine.gpu.name} is used")


def _own(machine: Machine, description: ModelDescription | None) -> BackendChoice:
    """Our own backend, on a CPU where there is no better: slow, and exact."""
    if machine.missing:
        raise UsageError(
            "The backend torch_paged cannot run here.",
            f"Not installed: {', '.join(machine.missing)}.",
            'Run: pip install "localchat[cuda]"',
        )
    _require_known(description)
    obstacle = machine.obstacle
    if obstacle is None:
        return BackendChoice("torch_paged", "cuda", "as asked for")
    return BackendChoice("torch_paged", "cpu", f"as asked for, slowly: {obstacle}")


def _require_known(description: ModelDescription | None) -> None:
    if description is not None:
        decoder_config(description)


def _shown(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))
