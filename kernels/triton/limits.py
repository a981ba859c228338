"""What all kernels of attention and of its store lack, in words for a notice; None: nothing."""

from __future__ import annotations

from kernels.kv_layout import KVLayout

LEAST_CAPABILITY = (8, 0)
"""bf16 in matrix instructions, and copies that run beside them."""
LEAST_FP8 = (8, 9)
"""Conversions from and to e4m3."""

WIDEST_HEAD = 256
"""Two parts with scales of their own; more would not stay in registers."""


def lacking(head_size: int, layout: KVLayout, capability: tuple[int, int]) -> str | None:
    """For heads of `head_size` dims on a GPU of compute `capability`."""
    has = f"this GPU has compute capability {capability[0]}.{capability[1]}"
    if capability < LEAST_CAPABILITY:
        return f"{has}, and kernels need 8.0"
    if "fp8" in (layout.format.k, layout.format.v) and capability < LEAST_FP8:
        return f"{has}, and KV in fp8 needs 8.9"
    if head_size > WIDEST_HEAD:
        return f"heads of {head_size} dims are wider than {WIDEST_HEAD}"
    if head_size % 16 != 0:
        return f"heads of {head_size} dims are no multiple of 16"
    parts = layout.scale_parts
    if parts & (parts - 1) != 0:
        return f"heads of {head_size} dims have {parts} parts with scales of their own"
    return None
