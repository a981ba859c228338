"""Reading the bit fields of ggml's blocks, on any device."""

from __future__ import annotations

import torch
from torch import Tensor


def unpack(packed: Tensor, bits: int, chunk: int) -> Tensor:
    """Fields of `bits` bits out of bytes [N, M], as uint8 [N, M * 8 / bits].

    Of every `chunk` bytes the lowest fields come first, then the next higher of the same bytes.
    """
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8, device=packed.device).unsqueeze(1)
    fields = torch.unflatten(packed, 1, (-1, 1, chunk)) >> shifts
    return (fields & ((1 << bits) - 1)).flatten(1)


def reinterpret(packed: Tensor, dtype: torch.dtype) -> Tensor:
    """Bytes [N, M] as numbers of `dtype`; copied, as the bytes may begin at an odd address."""
    return packed.clone(memory_format=torch.contiguous_format).view(dtype)


def half(packed: Tensor) -> Tensor:
    """Bytes [N, 2 M] as fp16 numbers, float32 [N, M]."""
    return reinterpret(packed, torch.float16).float()


def words(packed: Tensor, size: int) -> Tensor:
    """Bytes [N, M] as unsigned little-endian words of 2 or 4 bytes, int64 [N, M / size]."""
    dtype = torch.int16 if size == 2 else torch.int32
    return reinterpret(packed, dtype).long() & ((1 << (8 * size)) - 1)


def signs(bits: Tensor) -> Tensor:
    """1.0 for a bit of 0, -1.0 for 1."""
    return 1.0 - 2.0 * bits.float()
