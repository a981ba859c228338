"""A loaded model: the native weights and the facts that llama.cpp tells about them. Knows no
context.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from llama_cpp import llama_cpp


class LoadedModel:
    """Weights in memory and the facts that llama.cpp tells about them. Belongs to one thread."""

    def __init__(self, handle: Any, path: Path) -> None:
        self.handle = handle
        self.path = path
        vocab = llama_cpp.llama_model_get_vocab(handle)
        self.vocab_size = int(llama_cpp.llama_vocab_n_tokens(vocab))
        self.bos_id = int(llama_cpp.llama_vocab_bos(vocab))
        self.trained_context = int(llama_cpp.llama_model_n_ctx_train(handle))
        self.window = int(llama_cpp.llama_model_n_swa(handle))
        """Sliding window in tokens; 0: none."""
        self.recurrent = bool(llama_cpp.llama_model_is_recurrent(handle))
        """Keeps a running state in every layer and no KV cells."""
        self.hybrid = bool(llama_cpp.llama_model_is_hybrid(handle))
        """Keeps a running state in some layers."""
        self.weights_bytes = int(llama_cpp.llama_model_size(handle))
        self.head_sizes = _head_sizes(handle)

    @property
    def rolls_back(self) -> bool:
        """Whether any token can be removed from the end of a sequence at any time."""
        return not (self.window or self.recurrent or self.hybrid)

    def close(self) -> None:
        if self.handle:
            llama_cpp.llama_model_free(self.handle)
            self.handle = None


def _head_sizes(handle: Any) -> tuple[int, int]:
    """Sizes of a key and of a value of one head; (0, 0) for a model without attention."""
    arch = _metadata(handle, "general.architecture") or ""
    heads = int(llama_cpp.llama_model_n_head(handle))
    plain = int(llama_cpp.llama_model_n_embd(handle)) // heads if heads else 0
    key = _metadata(handle, f"{arch}.attention.key_length")
    value = _metadata(handle, f"{arch}.attention.value_length")
    return (int(key) if key else plain, int(value) if value else plain)


def _metadata(handle: Any, key: str) -> str | None:
    buffer = ctypes.create_string_buffer(256)
    size = llama_cpp.llama_model_meta_val_str(handle, key.encode(), buffer, len(buffer))
    return buffer.value.decode("utf-8", "replace") if size >= 0 else None
