"""What the names of the KV type table mean here, and which of them a device can take."""

from __future__ import annotations

import difflib

from engine.errors import UsageError

KV_TYPES = ("auto", "f16", "bf16", "k8", "q8", "k8v4", "q4", "fp8")
PLAIN = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
"""Activations -> what stores them as they are."""
_FP8_CAPABILITY = (8, 9)
_BF16_CAPABILITY = (8, 0)


def kv_format(name: str, dtype: str, capability: tuple[int, int] | None) -> str:
    """The storage format of a kv_type. `capability`: of the CUDA device; None: a CPU.

    On a CPU, where only proofs run, `auto` and `f32` keep float32 as it is and every format is
    allowed. Raises UsageError for a name that is unknown, or not possible here.
    """
    if name == "f32" and capability is None:
        return name
    if name not in KV_TYPES:
        nearest = difflib.get_close_matches(name, KV_TYPES, n=1, cutoff=0.0)[0]
        raise UsageError(
            f"Unknown kv_type {name!r}.",
            f"Allowed: {', '.join(KV_TYPES)}.",
            f"Did you mean {nearest}?",
        )
    if name == "auto":
        return _unquantized(dtype, capability)
    if capability is not None:
        _check_device(name, capability)
    return name


def _unquantized(dtype: str, capability: tuple[int, int] | None) -> str:
    if capability is None:
        return PLAIN[dtype]
    return "bf16" if capability >= _BF16_CAPABILITY else "f16"


def _check_device(name: str, capability: tuple[int, int]) -> None:
    least = {"fp8": _FP8_CAPABILITY, "bf16": _BF16_CAPABILITY}.get(name)
    if least is not None and capability < least:
        raise UsageError(
            f"kv_type {name} needs an NVIDIA GPU of compute capability {_shown(least)} or later.",
            f"This one has {_shown(capability)}.",
            "Use kv_type q8." if name == "fp8" else "Use kv_type f16.",
        )


def _shown(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))
