"""Makes Triton's interpreter right for bf16 and fp8.

The interpreter keeps such numbers as their bits, in unsigned integers, and computes with those: a
product of two bf16 numbers is one of two integers, a cast drops bits instead of rounding, and an
integer becomes its own bits. Here casts and dots go through numbers, rounded to nearest even and
fp8 saturated, as the devices do. Arithmetic in bf16 or fp8 raises: kernels widen right after a load
and narrow right before a dot or a store.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

DTYPES = {
    tl.bfloat16: torch.bfloat16,
    tl.float8e4nv: torch.float8_e4m3fn,
    tl.float8e5: torch.float8_e5m2,
}
LARGEST = {tl.float8e4nv: 448.0, tl.float8e5: 57344.0}


class LowPrecisionArithmetic(TypeError):
    """A kernel computes in a dtype that only stores."""


def install() -> None:
    """Once a process, before the first kernel runs."""
    InterpreterBuilder.cast_impl = _cast
    InterpreterBuilder.create_fp_to_fp = _round
    InterpreterBuilder.create_dot = _dot
    for name in ("binary_op", "unary_op", "create_fma", "create_clampf"):
        setattr(InterpreterBuilder, name, _refusing(getattr(InterpreterBuilder, name)))
    for kind in (interpreter.ReduceOps, interpreter.ScanOps):
        kind.apply_impl = _refusing_inputs(kind.apply_impl)
    interpreter._patch_lang_tensor = _with_index(interpreter._patch_lang_tensor)


def _with_index(patch: Callable[..., None]) -> Callable[..., None]:
    """Bounds of a loop as integers: Triton 3.6 gives NumPy arrays of one number, which NumPy 2.4
    takes for integers no more.
    """

    @wraps(patch)
    def patched(tensor: Any, *scope: Any) -> None:
        patch(tensor, *scope)
        tensor.__index__ = lambda self: int(self.handle.data.reshape(-1)[0])

    return patched


def numbers(data: np.ndarray, dtype: tl.dtype) -> np.ndarray:
    """What the bits mean: float32 of a dtype that only stores, others as they are."""
    if dtype not in DTYPES:
        return data
    return torch.from_numpy(np.ascontiguousarray(data)).view(DTYPES[dtype]).float().numpy()


def bits(data: np.ndarray, dtype: tl.dtype) -> np.ndarray:
    """Inverse of `numbers`, rounded."""
    kept = interpreter._get_np_dtype(dtype)
    if dtype not in DTYPES:
        return data.astype(kept)
    # From integers directly: two roundings would differ from one.
    exact = data.astype(np.float64) if data.dtype.kind in "ui" else data
    wide = torch.from_numpy(np.ascontiguousarray(exact))
    wide = wide.float() if wide.dtype == torch.bool else wide
    if dtype in LARGEST:
        wide = wide.clamp(-LARGEST[dtype], LARGEST[dtype])
    found = wide.to(DTYPES[dtype])
    return found.view(torch.uint16 if dtype == tl.bfloat16 else torch.uint8).numpy().view(kept)


def _cast(self: InterpreterBuilder, source: TensorHandle, target: tl.dtype) -> TensorHandle:
    wide = numbers(source.data, source.dtype.scalar)
    return TensorHandle(bits(wide, target.scalar), target.scalar)


def _round(
    self: InterpreterBuilder, source: TensorHandle, target: tl.dtype, mode: object
) -> TensorHandle:
    return _cast(self, source, target)


def _dot(
    self: InterpreterBuilder, a: TensorHandle, b: TensorHandle, start: TensorHandle, *_: object
) -> TensorHandle:
    first, second = numbers(a.data, a.dtype.scalar), numbers(b.data, b.dtype.scalar)
    product = np.matmul(first, second, dtype=start.data.dtype)
    return TensorHandle(product + start.data, start.dtype.scalar)


def _refuse(dtype: tl.dtype, where: str) -> None:
    if dtype.scalar in DTYPES:
        raise LowPrecisionArithmetic(f"{where} in {dtype.scalar}: widen to float32 first")


def _refusing(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def checked(self: InterpreterBuilder, *args: Any, **options: Any) -> Any:
        for one in args:
            if isinstance(one, TensorHandle):
                _refuse(one.dtype, method.__name__)
        return method(self, *args, **options)

    return checked


def _refusing_inputs(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def checked(self: Any, inputs: Any) -> Any:
        for one in inputs:
            _refuse(one.dtype, type(self).__name__)
        return method(self, inputs)

    return checked
