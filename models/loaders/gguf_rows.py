"""The order of rows in Llama's q and k matrices, and how it is undone.

llama.cpp's Llama rotates neighbouring dims (2i, 2i + 1) of a head, Hugging Face's dims i and
i + D/2; the converter reorders the rows of q and k so that both mean the same. Whole rows move, so
packed blocks move with them. Only the architecture `llama` is stored like this.
"""

from __future__ import annotations

import torch
from torch import Tensor

REORDERED_FIELDS = ("q", "k", "q_bias", "k_bias")


def hugging_face_order(rows: int, head_size: int) -> Tensor:
    """int64 [rows]: row r of Hugging Face's matrix is row order[r] of the file's.

    Row (h, j D/2 + i) of a head comes from (h, 2i + j); j is 0 or 1, i below D/2.
    """
    heads = torch.arange(rows // head_size).view(-1, 1, 1) * head_size
    halves = torch.arange(2).view(1, 2, 1)
    pairs = torch.arange(head_size // 2).view(1, 1, -1) * 2
    return (heads + pairs + halves).flatten()
