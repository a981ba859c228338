"""The best tokens of rows of logits, chosen on the device; see `kernels/sampling_candidates.py`."""

from __future__ import annotations

import importlib

import torch
from torch import Tensor

from kernels.sampling_candidates import HostCandidates, unpacked
from models.ops import Ops

__all__ = ["CandidateChooser", "HostCandidates", "unpacked"]

COUNT = 64
"""What the usual settings of a sampler ask for, and half a KiB a row to the host."""


class CandidateChooser:
    """Chooses for at most `rows` rows at a time; a later choice overwrites an earlier one."""

    def __init__(self, ops: Ops, vocab_size: int, rows: int, device: torch.device) -> None:
        choice = ops.candidates(vocab_size)
        self._run, self._vocab_size = choice.run, vocab_size
        self.is_kernel = choice.is_kernel
        self.count = min(COUNT, vocab_size)
        self._out = torch.zeros(rows, self.count + 1, dtype=torch.int64, device=device)
        self._scratch: object = None
        if choice.is_kernel:
            kernel = importlib.import_module("kernels.triton.sampling_candidates")
            self._scratch = kernel.scratch_for(rows, vocab_size, self.count, device)

    def chosen(self, rows: int) -> Tensor:
        """Where the candidates of so many rows lie."""
        return self._out[:rows]

    def choose(self, logits: Tensor) -> Tensor:
        """float32 [R, V] -> int64 [R, count + 1], packed."""
        out = self.chosen(logits.shape[0])
        found: Tensor = self._run(
            logits, self._vocab_size, self.count, scratch=self._scratch, out=out
        )
        return found
