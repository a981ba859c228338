"""A GGUF embedding model in llama.cpp: a text's tokens to one unit vector.

Belongs to one thread, apart from `interrupt`. The pooling is the file's own.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llama_cpp import llama_cpp

from engine.backends.llama_cpp import native_log
from engine.backends.llama_cpp.batch import Batch
from engine.backends.llama_cpp.interruption import Interruption
from engine.embedding.header import MOST_TOKENS, NEXT_STEP, EmbeddingHeader
from engine.error_values import EngineStopped
from engine.errors import LocalchatError, ModelFileError

CJK_SAMPLE = "今天的天气怎么样我们去公园散步吧这里有很多树和花"


class EmbeddingModel:
    def __init__(
        self, header: EmbeddingHeader, threads: int, progress: Callable[[int, int], bool]
    ) -> None:
        """Raises ModelFileError; EngineStopped when `progress` said no."""
        native_log.install()
        self._header = header
        self._interruption = Interruption()
        self._model = self._load(progress)
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        trained = int(llama_cpp.llama_model_n_ctx_train(self._model)) or MOST_TOKENS
        self.ctx = min(trained, MOST_TOKENS)
        self._context = self._open(threads)
        self._memory: Any = llama_cpp.llama_get_memory(self._context)
        self._batch = Batch(self.ctx)
        self.size = int(llama_cpp.llama_model_n_embd_out(self._model))

    def embed(self, text: str, is_query: bool) -> npt.NDArray[np.float32]:
        """[size]. Raises EngineStopped after `interrupt`, LocalchatError where it fails."""
        prefixes = self._header.prefixes
        ids = self.tokens((prefixes.query if is_query else prefixes.passage) + text)
        self._batch.clear()
        self._batch.add(0, 0, self._shortened(ids), wants_scores=True, wants_all=True)
        with self._interruption.running():
            code = self._compute()
            stopped = self._interruption.is_set
        if stopped:
            raise EngineStopped("Embedding was stopped.")
        pointer = llama_cpp.llama_get_embeddings_seq(self._context, 0) if code == 0 else None
        if not pointer:
            raise LocalchatError("A text could not be embedded.", f"llama.cpp said {code}.")
        return _unit(np.ctypeslib.as_array(pointer, (self.size,)))

    def tokens(self, text: str) -> list[int]:
        """With the model's own marks around them; nothing in the text becomes a control token."""
        data = text.encode("utf-8", "replace")
        room = len(data) + 8
        buffer = (ctypes.c_int32 * room)()
        count = llama_cpp.llama_tokenize(self._vocab, data, len(data), buffer, room, True, False)
        return list(buffer[: max(count, 0)]) or [
            max(int(llama_cpp.llama_vocab_bos(self._vocab)), 0)
        ]

    def speaks_cjk(self, unknown_id: int | None) -> bool:
        """Whether its vocabulary was made for Chinese too: no more tokens than characters."""
        ids = self.tokens(CJK_SAMPLE)
        return len(ids) <= len(CJK_SAMPLE) + 3 and unknown_id not in ids

    def interrupt(self) -> None:
        """From any thread: the text that is being computed is given up."""
        self._interruption.interrupt()

    def close(self) -> None:
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)

    def _shortened(self, ids: list[int]) -> list[int]:
        """The end mark stays: some models pool at it."""
        return ids if len(ids) <= self.ctx else [*ids[: self.ctx - 1], ids[-1]]

    def _compute(self) -> int:
        if not self._memory:  # an encoder keeps nothing
            return int(llama_cpp.llama_encode(self._context, self._batch.native))
        llama_cpp.llama_memory_clear(self._memory, True)
        return int(llama_cpp.llama_decode(self._context, self._batch.native))

    def _load(self, progress: Callable[[int, int], bool]) -> Any:
        total = self._header.file_bytes
        stopped = False

        def report(fraction: float, _user_data: object) -> bool:
            nonlocal stopped
            stopped = stopped or not progress(min(total, int(fraction * total)), total)
            return not stopped

        params = llama_cpp.llama_model_default_params()
        callback = llama_cpp.llama_progress_callback(report)
        params.progress_callback = callback
        with native_log.error_lines() as lines:
            path = os.fsencode(self._header.path)
            model = llama_cpp.llama_model_load_from_file(path, params)
        if stopped:
            if model:
                llama_cpp.llama_model_free(model)
            raise EngineStopped("Loading was stopped.")
        if not model:
            raise self._refused(" ".join(lines[-2:]))
        return model

    def _open(self, threads: int) -> Any:
        params = llama_cpp.llama_context_default_params()
        # A text is computed in one piece: encoders see all of it at once.
        params.n_ctx = params.n_batch = params.n_ubatch = self.ctx
        params.n_threads = params.n_threads_batch = threads
        params.embeddings = True
        params.no_perf = True
        with native_log.error_lines() as lines:
            context = llama_cpp.llama_init_from_model(self._model, params)
        if not context:
            llama_cpp.llama_model_free(self._model)
            raise self._refused(" ".join(lines[-2:]))
        callback, address = self._interruption.abort_callback()
        llama_cpp.llama_set_abort_callback(context, callback, address)
        return context

    def _refused(self, reason: str) -> ModelFileError:
        return ModelFileError(
            f"llama.cpp could not load {self._header.name}.",
            reason or "It gave no reason.",
            NEXT_STEP,
        )


def _unit(vector: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    norm = float(np.linalg.norm(vector))
    if not np.isfinite(norm) or norm == 0:
        raise LocalchatError(
            "A text could not be embedded.", "The model computed no usable numbers."
        )
    return (vector / norm).astype(np.float32)
