"""Logits of llama.cpp, by its C API and nothing of ours: an oracle for GGUF files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.tokenizers.native_log import route_native_log

F32 = 0
"""ggml's number of the type."""


class LlamaModel:
    """One file, loaded for as long as the `with` block lasts."""

    def __init__(self, path: Path) -> None:
        from llama_cpp import llama_cpp

        self._api: Any = llama_cpp
        self._log = route_native_log()
        self._api.llama_backend_init()
        params = self._api.llama_model_default_params()
        params.n_gpu_layers = 0
        self._model = self._api.llama_model_load_from_file(os.fsencode(path), params)
        assert self._model

    def __enter__(self) -> LlamaModel:
        return self

    def __exit__(self, *_: object) -> None:
        self._api.llama_model_free(self._model)

    def ids(self, words: str) -> list[int]:
        """BOS first where the model wants one."""
        vocab, raw = self._api.llama_model_get_vocab(self._model), words.encode()
        room = (self._api.llama_token * (len(raw) + 8))()
        count = self._api.llama_tokenize(vocab, raw, len(raw), room, len(room), True, False)
        assert count > 0
        return list(room[:count])

    def logits(
        self, ids: Sequence[int], wanted: Sequence[int], *, flash: bool = False
    ) -> np.ndarray:
        """float32 [wanted, vocabulary] of one pass with KV in float32, on one thread."""
        api, context = self._api, self._context(len(ids), flash)
        batch = api.llama_batch_init(len(ids), 0, 1)
        for index, token in enumerate(ids):
            batch.token[index], batch.pos[index] = token, index
            batch.n_seq_id[index], batch.seq_id[index][0] = 1, 0
            batch.logits[index] = index in wanted
        batch.n_tokens = len(ids)
        assert api.llama_decode(context, batch) == 0
        width = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self._model))
        rows = [
            np.ctypeslib.as_array(api.llama_get_logits_ith(context, index), (width,)).copy()
            for index in wanted
        ]
        api.llama_batch_free(batch)
        api.llama_free(context)
        return np.stack(rows)

    def _context(self, tokens: int, flash: bool) -> Any:
        params = self._api.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = tokens
        params.type_k = params.type_v = F32
        params.flash_attn_type = 1 if flash else 0
        params.n_threads = params.n_threads_batch = 1
        context = self._api.llama_init_from_model(self._model, params)
        assert context
        return context
