"""One forward pass as explicit values: which tokens, where they stand, where their KV lies."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class ModelInput:
    """Tokens of several sequences, one sequence after the other; `T` tokens, `B` sequences.

    All tensors lie on the model's device.
    """

    tokens: Tensor
    """int64 [T]"""
    positions: Tensor
    """int64 [T], absolute."""
    slots: tuple[Tensor, ...]
    """Per KV group int64 [T]: block * BS + offset where the token's KV goes; -1 writes none."""
    first_row: Tensor
    """int64 [B + 1]: sequence b has the tokens first_row[b] .. first_row[b + 1] - 1."""
    lengths: Tensor
    """int64 [B]: tokens that the sequence holds after this pass."""
    tables: tuple[Tensor, ...]
    """Per KV group int64 [B, N]: the sequence's blocks in order of position. Entries that a window
    has left behind, and those beyond the length, point to block 0, which is never read.
    """
    wanted: Tensor
    """int64 [R]: rows of `tokens` whose logits are asked for."""
    new: tuple[int, ...]
    """[B]: the most new tokens that each sequence may have; what launches are sized by, as the
    device is never asked.
    """

    chosen: Tensor | None = None
    """int64 [C]: a negative token t stands for chosen[-1 - t]."""

    @property
    def device(self) -> torch.device:
        return self.tokens.device
