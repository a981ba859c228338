"""Counts the bytes of all tensors that live at the same time while it is entered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class PeakBytes(TorchDispatchMode):
    """`peak`: the most that lived at once of what was made since it was entered."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._live: dict[int, tuple[StorageWeakRef, int]] = {}

    @property
    def now(self) -> int:
        """Bytes of what still lives."""
        self._live = {key: one for key, one in self._live.items() if not one[0].expired()}
        return sum(size for _, size in self._live.values())

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = {_key(one) for one in _tensors((args, kwargs))} - set(self._live)
        out = func(*args, **(kwargs or {}))
        for tensor in _tensors(out):
            storage = tensor.untyped_storage()
            if _key(tensor) not in given:
                self._live[_key(tensor)] = StorageWeakRef(storage), storage.nbytes()
        self.peak = max(self.peak, self.now)
        return out


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [one for one in tree_leaves(tree) if isinstance(one, torch.Tensor)]


def _key(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
