"""The numbers that an 8-bit float matrix and its scale stand for.

w[r, c] = stored[r, c] * scale, of the whole matrix, of row r, or of the block that holds (r, c).
"""

from __future__ import annotations

from torch import Tensor

from models.hf_quantization import Block


def apply_scale(weight: Tensor, scale: Tensor, block: Block | None) -> Tensor:
    """weight e4m3 [out, in], scale as `check_scale` allows -> float32 [out, in]."""
    wide, scale = weight.float(), scale.float()
    rows = weight.shape[0]
    if scale.numel() == 1:
        return wide * scale.reshape(())
    if block is None or scale.shape in ((rows,), (rows, 1)):
        return wide * scale.reshape(rows, 1)
    tall = scale.repeat_interleave(block[0], 0)[:rows]
    for index in range(scale.shape[1]):
        start = index * block[1]
        wide[:, start : start + block[1]] *= tall[:, index : index + 1]
    return wide
