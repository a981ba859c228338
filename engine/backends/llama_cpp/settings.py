"""What a model and its context are opened with. Knows no native code."""

from __future__ import annotations

from dataclasses import dataclass

# 128 rows are as fast as 512 on a CPU, with a quarter of the compute buffer.
MICRO_BATCH = 128
# Tokens of one native call; only the micro-batch sets the size of buffers.
CALL_TOKENS = 512
START_CONTEXT = 2048
# Cells beyond the limit shown to the person, for side jobs that fork a full conversation.
FORK_CELLS = 512
# Below this limit flash attention stays off until a measurement says otherwise.
FLASH_FROM_CONTEXT = 16_384
# Of restore points, where the caller has no budget for them.
POINTS_BYTES = 4 << 30


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """How the weights are loaded."""

    mmap: bool = True
    total_bytes: int | None = None
    """Size of all parts of the model, for the progress; None: the size of the one file."""


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """How the context is made; `None` means "choose for me"."""

    context: int
    """Most tokens of one sequence."""
    kv_type: str = "auto"
    flash: bool | None = None
    threads: int | None = None
    """None: the physical cores that this process may use."""
    n_ubatch: int = MICRO_BATCH
    max_sequences: int = 8
    start_context: int = START_CONTEXT
    """Cells to begin with; the context doubles from there."""
    points_bytes: int = POINTS_BYTES
    """Most bytes of the restore points of live sequences."""
