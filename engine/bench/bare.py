"""The plainest loop that llama.cpp allows: decode, take the next token, decode it.

It shares the loaded weights with the engine that it is compared with, and nothing else: no
scheduler, no cache, no events, no text.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from llama_cpp import llama_cpp

from engine.bench.chain import Chain

CALL_TOKENS = 512
GGML_TYPE_BF16 = 30


@dataclass(frozen=True, slots=True)
class BareShape:
    """What the engine's context uses as well."""

    n_ctx: int
    n_ubatch: int
    threads: int
    flash: bool
    type_k: int
    type_v: int
    sequences: int = 1


class BareLoop:
    """One context and one conversation in it."""

    def __init__(self, model_handle: Any, vocab_size: int, shape: BareShape) -> None:
        self.vocab_size = vocab_size
        self._context: Any = llama_cpp.llama_init_from_model(model_handle, _params(shape))
        if not self._context:
            raise MemoryError("llama.cpp made no context for the bare loop")
        self._memory: Any = llama_cpp.llama_get_memory(self._context)
        self._batch: Any = llama_cpp.llama_batch_init(CALL_TOKENS, 0, 1)
        self._type_k = shape.type_k
        self.length = 0

    def read(self, ids: Sequence[int]) -> int:
        """Append tokens; the most likely next one."""
        for start in range(0, len(ids), CALL_TOKENS):
            piece = ids[start : start + CALL_TOKENS]
            self.forward(piece, self.length, last=start + CALL_TOKENS >= len(ids))
            self.length += len(piece)
        return self._best(len(piece) - 1)

    def write(self, token: int, count: int, chain: Chain | None = None) -> int:
        """`count` times: append a token, take the next one: the most likely, or the chain's."""
        for _ in range(count):
            self.forward((token,), self.length, last=True)
            self.length += 1
            token = self._best(0) if chain is None else chain.sample(self._context)
        return token

    def forward(self, ids: Sequence[int], start: int, last: bool, sequence: int = 0) -> None:
        batch = self._batch
        batch.n_tokens = len(ids)
        for index, token in enumerate(ids):
            batch.token[index] = token
            batch.pos[index] = start + index
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = sequence
            batch.logits[index] = last and index == len(ids) - 1
        if llama_cpp.llama_decode(self._context, batch):
            raise RuntimeError("llama.cpp could not compute in the bare loop")

    def logits(self, index: int) -> npt.NDArray[np.float32]:
        """Scores [vocab_size] after token `index` of the last call; valid until the next."""
        pointer = llama_cpp.llama_get_logits_ith(self._context, index)
        scores: npt.NDArray[np.float32] = np.ctypeslib.as_array(pointer, (self.vocab_size,))
        return scores

    def _best(self, index: int) -> int:
        return int(self.logits(index).argmax())

    # ---- memory

    def clear(self) -> None:
        llama_cpp.llama_memory_clear(self._memory, False)
        self.length = 0

    def save(self) -> bytes:
        size = int(llama_cpp.llama_state_seq_get_size(self._context, 0))
        buffer = (ctypes.c_uint8 * size)()
        if llama_cpp.llama_state_seq_get_data(self._context, buffer, size, 0) != size:
            raise RuntimeError("llama.cpp did not write the state")
        return bytes(buffer)

    def load(self, state: bytes, length: int, sequence: int = 0) -> None:
        buffer = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        read = llama_cpp.llama_state_seq_set_data(self._context, buffer, len(state), sequence)
        if read != len(state):
            raise RuntimeError("llama.cpp did not read the state")
        self.length = length

    @property
    def can_shift(self) -> bool:
        """Not bf16 keys: llama.cpp ends the process where it would have to rotate them."""
        return self._type_k != GGML_TYPE_BF16 and bool(
            llama_cpp.llama_memory_can_shift(self._memory)
        )

    def shift(self, sequence: int, by: int) -> None:
        llama_cpp.llama_memory_seq_add(self._memory, sequence, 0, -1, by)

    def join(self, source: int, target: int) -> None:
        """Let `target` use all cells of `source`, which gives them up."""
        llama_cpp.llama_memory_seq_cp(self._memory, source, target, 0, -1)
        llama_cpp.llama_memory_seq_rm(self._memory, source, 0, -1)

    def cut(self, length: int) -> None:
        llama_cpp.llama_memory_seq_rm(self._memory, 0, length, -1)
        self.length = length

    def close(self) -> None:
        if self._context:
            llama_cpp.llama_batch_free(self._batch)
            llama_cpp.llama_free(self._context)
            self._context = None


def _params(shape: BareShape) -> Any:
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = shape.n_ctx
    params.n_batch = CALL_TOKENS
    params.n_ubatch = shape.n_ubatch
    params.n_seq_max = shape.sequences
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
