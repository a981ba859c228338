"""What `torch.cuda` keeps in mind of streams and recordings, without a device.

As torch 2.11 does it: a recording that fails leaves its stream current, and is taken for running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch


class FakeStream:
    def __init__(self, name: str = "beside") -> None:
        self.name = name
        self.waits_for: list[FakeStream] = []

    def wait_stream(self, other: FakeStream) -> None:
        self.waits_for.append(other)


class FakeCuda:
    def __init__(self) -> None:
        self.default = self.current = FakeStream("default")
        self.capturing: FakeStream | None = None
        self.is_broken = False
        """Something was launched that cannot be recorded."""
        self.underway = 0
        self.pools: list[object] = []
        self.error: str | None = None
        """What every wait for the device raises."""

    def install(self, patch: pytest.MonkeyPatch) -> None:
        made: dict[str, Any] = {
            "Stream": FakeStream,
            "current_stream": lambda device=None: self.current,
            "stream": self.stream,
            "graph": self.graph,
            "CUDAGraph": FakeGraph,
            "empty_cache": self.empty_cache,
            "synchronize": self.synchronize,
        }
        for name, value in made.items():
            patch.setattr(torch.cuda, name, value)

    @contextmanager
    def stream(self, stream: FakeStream) -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    def synchronize(self, device: object = None) -> None:
        if self.error is not None:
            raise RuntimeError(self.error)

    def empty_cache(self) -> None:
        if self.underway:
            raise RuntimeError("captures_underway.empty() INTERNAL ASSERT FAILED")

    def graph(self, graph: FakeGraph, pool: object = None, stream: FakeStream | None = None) -> Any:
        return _Capture(self, stream or FakeStream("of torch"), pool)


class FakeGraph:
    def pool(self) -> object:
        return "pool"

    replay: Callable[[], None] = staticmethod(lambda: None)


class _Capture:
    def __init__(self, cuda: FakeCuda, stream: FakeStream, pool: object) -> None:
        self._cuda, self._stream, self._pool = cuda, stream, pool

    def __enter__(self) -> None:
        cuda = self._cuda
        cuda.empty_cache()
        self._before, cuda.current = cuda.current, self._stream
        cuda.capturing, cuda.underway = self._stream, cuda.underway + 1
        cuda.pools.append(self._pool)

    def __exit__(self, *args: object) -> None:
        cuda = self._cuda
        cuda.capturing = None
        if cuda.is_broken:
            raise RuntimeError("CUDA error: operation failed due to a previous error\nmore")
        cuda.underway -= 1
        cuda.current = self._before
