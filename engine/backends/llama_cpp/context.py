"""One llama.cpp context behind checked calls. Knows no rows, lengths or restore points.

Everything that would end the process inside llama.cpp raises ValueError here instead.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from llama_cpp import llama_cpp

from engine.backends.llama_cpp.batch import Batch
from engine.backends.llama_cpp.model import LoadedModel

GGML_TYPE_F16 = 1
PARTIAL = llama_cpp.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
"""State of the sliding-window or recurrent part alone."""
WHOLE = llama_cpp.LLAMA_STATE_SEQ_FLAGS_NONE


class ContextRefused(Exception):
    """llama.cpp made no context: the combination is not possible, or memory is short."""


@dataclass(frozen=True, slots=True)
class ContextShape:
    n_ctx: int
    n_sequences: int
    n_batch: int
    n_ubatch: int
    type_k: int = GGML_TYPE_F16
    type_v: int = GGML_TYPE_F16
    flash: bool = False
    threads: int = 1
    outputs: int | None = None
    """Most tokens of one call with scores; None: one for each sequence, and `drafts` more."""
    drafts: int = 0


class Context:
    """Its making raises ContextRefused. `abort` is (callback, address of its user data) or None."""

    def __init__(
        self, model: LoadedModel, shape: ContextShape, abort: tuple[Any, int] | None = None
    ) -> None:
        self.shape = shape
        self._model = model
        self._abort = abort  # the C side keeps the address
        self.handle: Any = llama_cpp.llama_init_from_model(model.handle, self._params(shape))
        if not self.handle:
            raise ContextRefused
        self.n_ctx = int(llama_cpp.llama_n_ctx(self.handle))
        self.n_ubatch = int(llama_cpp.llama_n_ubatch(self.handle))
        self.batch = Batch(int(llama_cpp.llama_n_batch(self.handle)))
        self._row = ctypes.c_float * model.vocab_size
        self._memory: Any = llama_cpp.llama_get_memory(self.handle)
        if abort is not None:
            llama_cpp.llama_set_abort_callback(self.handle, abort[0], abort[1])

    @staticmethod
    def _params(shape: ContextShape) -> Any:
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = shape.n_ctx
        params.n_batch = min(shape.n_batch, shape.n_ctx)
        params.n_ubatch = min(shape.n_ubatch, params.n_batch)
        params.n_seq_max = shape.n_sequences
        params.n_outputs_max = shape.outputs or shape.n_sequences + shape.drafts
        params.n_threads = params.n_threads_batch = shape.threads
        params.type_k, params.type_v = shape.type_k, shape.type_v
        params.flash_attn_type = (
            llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
            if shape.flash
            else llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        params.kv_unified = True
        params.swa_full = False
        params.no_perf = True
        return params

    def close(self) -> None:
        if self.handle:
            llama_cpp.llama_free(self.handle)
            self.handle = self._memory = None

    def set_threads(self, count: int) -> None:
        llama_cpp.llama_set_n_threads(self._open(), count, count)

    # ---- computing

    def decode(self) -> int:
        """Run the batch; returns its code: 0 done, 1 no cells, 2 aborted, < 0 failed."""
        if not len(self.batch):
            raise ValueError("an empty batch")
        return int(llama_cpp.llama_decode(self._open(), self.batch.native))

    def logits(self, index: int) -> npt.NDArray[np.float32]:
        """A copy of the scores [vocab_size] after token `index` of the last batch."""
        if not self.batch.wants(index):
            raise ValueError(f"token {index} has no scores")
        pointer = llama_cpp.llama_get_logits_ith(self._open(), index)
        if not pointer:
            raise ValueError(f"token {index} has no scores")
        # numpy's own way from a pointer takes three times as long.
        row: Any = self._row.from_address(ctypes.addressof(pointer.contents))
        scores: npt.NDArray[np.float32] = np.frombuffer(row, np.float32)
        return scores.copy()

    # ---- memory

    def remove(self, sequence: int, start: int) -> bool:
        """Remove positions start.. of a sequence; False where the model cannot take back a part."""
        self._check(sequence)
        return bool(llama_cpp.llama_memory_seq_rm(self._memory, sequence, start, -1))

    def share(self, source: int, target: int, length: int) -> None:
        """Let an empty `target` use the cells of `source` before position `length` (all: -1)."""
        self._check(source)
        self._check(target)
        llama_cpp.llama_memory_seq_cp(self._memory, source, target, 0, length)

    def clear(self) -> None:
        self._open()
        llama_cpp.llama_memory_clear(self._memory, False)

    def first_position(self, sequence: int) -> int:
        """Smallest position held; -1 when empty; > 0 where a window has forgotten."""
        self._check(sequence)
        return int(llama_cpp.llama_memory_seq_pos_min(self._memory, sequence))

    def last_position(self, sequence: int) -> int:
        """Largest position held; -1 when empty."""
        self._check(sequence)
        return int(llama_cpp.llama_memory_seq_pos_max(self._memory, sequence))

    # ---- states

    def state_size(self, sequence: int, flags: int = WHOLE) -> int:
        self._check(sequence)
        return int(llama_cpp.llama_state_seq_get_size_ext(self.handle, sequence, flags))

    def write_state(self, sequence: int, address: int, size: int, flags: int = WHOLE) -> None:
        """Write the state to memory of `size` bytes at `address`; raises ValueError if it does not
        fit.
        """
        self._check(sequence)
        target = ctypes.cast(address, ctypes.POINTER(ctypes.c_uint8))
        written = llama_cpp.llama_state_seq_get_data_ext(self.handle, target, size, sequence, flags)
        if written != size:
            raise ValueError(f"the state of sequence {sequence} took {written} of {size} bytes")

    def read_state(self, sequence: int, address: int, size: int, flags: int = WHOLE) -> bool:
        """Load a state from memory; False (and an empty sequence, for a whole state) if it is
        refused.
        """
        self._check(sequence)
        source = ctypes.cast(address, ctypes.POINTER(ctypes.c_uint8))
        read = llama_cpp.llama_state_seq_set_data_ext(self.handle, source, size, sequence, flags)
        return bool(read == size)

    # ---- checks

    def _open(self) -> Any:
        if not self.handle:
            raise ValueError("the context is closed")
        return self.handle

    def _check(self, sequence: int) -> None:
        self._open()
        if not 0 <= sequence < self.shape.n_sequences:
            raise ValueError(f"sequence {sequence} of {self.shape.n_sequences}")


def build_name() -> str:
    """llama.cpp's version and what else outside the settings changes its numbers."""
    version = llama_cpp.llama_version().decode()
    rotation = "off" if os.environ.get("LLAMA_ATTN_ROT_DISABLE", "0") not in ("", "0") else "on"
    return f"llama.cpp {version} rotation {rotation}"
