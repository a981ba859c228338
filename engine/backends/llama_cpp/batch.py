"""Token rows in the memory layout of `llama_batch`. Knows no sequence state."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_cpp import llama_cpp


class Batch:
    """A reusable batch of at most `capacity` tokens, each of one sequence."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._ids = np.zeros(capacity, np.int32)
        self._positions = np.zeros(capacity, np.int32)
        self._counts = np.ones(capacity, np.int32)
        self._sequences = np.zeros(capacity, np.int32)
        self._wanted = np.zeros(capacity, np.int8)
        # llama.cpp wants a pointer to the sequence list of each token; each list has one entry.
        self._lists = (self._sequences.ctypes.data + 4 * np.arange(capacity)).astype(np.uintp)
        self.native: Any = self._build()

    def _build(self) -> Any:
        integers = ctypes.POINTER(ctypes.c_int32)
        return llama_cpp.llama_batch(
            n_tokens=0,
            token=self._ids.ctypes.data_as(integers),
            embd=None,
            pos=self._positions.ctypes.data_as(integers),
            n_seq_id=self._counts.ctypes.data_as(integers),
            seq_id=self._lists.ctypes.data_as(ctypes.POINTER(integers)),
            logits=self._wanted.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )

    def __len__(self) -> int:
        return int(self.native.n_tokens)

    def clear(self) -> None:
        self.native.n_tokens = 0

    def add(
        self,
        sequence: int,
        start: int,
        ids: Sequence[int],
        wants_scores: bool,
        wants_all: bool = False,
    ) -> int:
        """Append tokens at positions start.. and return the index of the last one.

        A larger batch than the capacity ends the process inside llama.cpp, so it raises ValueError
        here.
        """
        begin = len(self)
        end = begin + len(ids)
        if not ids or end > self.capacity:
            raise ValueError(f"{end} tokens for a batch of {self.capacity}")
        if len(ids) == 1:  # a decode row: single numbers are set faster than slices
            self._ids[begin], self._positions[begin] = ids[0], start
            self._sequences[begin] = sequence
        else:
            self._ids[begin:end] = ids
            self._positions[begin:end] = np.arange(start, start + len(ids), dtype=np.int32)
            self._sequences[begin:end] = sequence
            self._wanted[begin:end] = wants_all
        self._wanted[end - 1] = wants_scores
        self.native.n_tokens = end
        return end - 1

    def want_all(self) -> None:
        """Ask for the scores after every token of the batch."""
        self._wanted[: len(self)] = 1

    def wants(self, index: int) -> bool:
        return 0 <= index < len(self) and bool(self._wanted[index])
