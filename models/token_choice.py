"""The next token of rows whose candidates were chosen on the device, drawn there too; see
`kernels/token_choice.py`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.token_choice import RULES
from models.ops import Ops

__all__ = ["RULES", "TokenChooser"]


class TokenChooser:
    """Draws for at most `rows` rows at a time; a later choice overwrites an earlier one."""

    def __init__(self, ops: Ops, count: int, rows: int, device: torch.device) -> None:
        """`count`: candidates of a row."""
        self._run = ops.token_choice(count).run
        self.chosen = torch.zeros(rows, dtype=torch.int64, device=device)
        """[rows]: what was drawn last."""

    def choose(self, packed: Tensor, rules: Tensor) -> Tensor:
        """Candidates [R, count + 1], rules float64 [R, 5] -> ids [R]."""
        found: Tensor = self._run(packed, rules, out=self.chosen[: len(packed)])
        return found
