"""Raises when an interpreted kernel touches memory outside the tensors it was given.

A device reads whatever lies there, and so does the interpreter: the result is then right by luck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import numpy as np
import torch
from triton.runtime.interpreter import GridExecutor, InterpreterBuilder, TensorHandle

ACCESSES = ("create_masked_load", "create_masked_store", "create_atomic_rmw", "create_atomic_cas")
POINTERS = {"create_atomic_rmw": 1}
"""Which argument holds the pointers, where it is not the first."""
MASKS = {"create_masked_load": 1, "create_masked_store": 2, "create_atomic_rmw": 3}


class OutOfBounds(IndexError):
    """An enabled lane lies outside every tensor of the launch."""


class Bounds:
    """Storages of the launch in progress: [start, end) in bytes, sorted."""

    def __init__(self) -> None:
        self._starts = np.empty(0, np.uint64)
        self._ends = np.empty(0, np.uint64)

    def install(self) -> None:
        """Once a process, before the first kernel runs."""
        GridExecutor.__call__ = self._noting(GridExecutor.__call__)
        for name in ACCESSES:
            method = getattr(InterpreterBuilder, name)
            setattr(InterpreterBuilder, name, self._checking(method, name))

    def note(self, tensors: Iterable[torch.Tensor]) -> None:
        storages = (one.untyped_storage() for one in tensors)
        pairs = sorted({(one.data_ptr(), one.data_ptr() + one.nbytes()) for one in storages})
        self._starts = np.array([start for start, _ in pairs], np.uint64)
        self._ends = np.array([end for _, end in pairs], np.uint64)

    def check(self, pointers: TensorHandle, mask: np.ndarray | None, where: str) -> None:
        size = pointers.get_element_ty().primitive_bitwidth // 8
        first = np.atleast_1d(pointers.data).astype(np.uint64)
        if mask is not None:
            first = first[np.broadcast_to(mask, first.shape)]
        index = np.searchsorted(self._starts, first, side="right").astype(np.int64) - 1
        inside = index >= 0
        inside &= first + np.uint64(size) <= self._ends[np.maximum(index, 0)]
        if not inside.all():
            raise OutOfBounds(f"{where}: {int((~inside).sum())} lanes outside every tensor")

    def _noting(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def noted(executor: GridExecutor, *args: Any, **options: Any) -> Any:
            self.note(one for one in (*args, *options.values()) if isinstance(one, torch.Tensor))
            return call(executor, *args, **options)

        return noted

    def _checking(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        @wraps(method)
        def checked(builder: InterpreterBuilder, *args: Any) -> Any:
            mask = args[MASKS[name]].data if name in MASKS else None
            self.check(args[POINTERS.get(name, 0)], mask, name)
            return method(builder, *args)

        return checked
