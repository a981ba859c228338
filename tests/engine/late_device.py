"""A device that does what it is told only when somebody waits for it, or when it likes to.

What torch orders by the stream stays in order; what the host reads and writes beside it does not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from engine.backends.base import Row
from engine.backends.torch_paged import backend as paged
from engine.backends.torch_paged.backend import TorchPagedBackend
from engine.backends.torch_paged.download import Arrival, Download
from engine.backends.torch_paged.graphs import Runner
from engine.backends.torch_paged.recorded_passes import RecordedPasses
from engine.backends.torch_paged.upload import Upload
from models.kv_storage import copy_blocks

CPU = torch.device("cpu")


class LateDevice:
    def __init__(self, chance: random.Random | None = None) -> None:
        """`chance`: it goes on by itself now and then; None: never."""
        self.told: list[Callable[[], object]] = []
        self._done = 0
        self._chance = chance
        self._works = False

    def tell(self, act: Callable[[], object]) -> int:
        """Its number, for `until`."""
        self.told.append(act)
        return self._done + len(self.told)

    def until(self, number: int) -> None:
        """Do what comes before, and that itself."""
        while self._done < number and self.told:
            self._works = True
            self.told.pop(0)()
            self._works = False
            self._done += 1
            if self._chance is not None and self._chance.random() < 0.3:
                number += 1

    def finish(self) -> None:
        if not self._works:
            self.until(self._done + len(self.told))

    def upload(self) -> type[Upload]:
        device = self

        class LateUpload(Upload):
            told = 0

            def start(self) -> None:
                self.told = device.tell(super().start)

            def wait(self) -> None:
                device.until(self.told)

        return LateUpload

    @property
    def runner(self) -> type[Runner]:
        device = self

        class LateRunner(Runner):
            def replay(self, key: Any) -> None:
                device.tell(lambda: Runner.replay(self, key))

        return LateRunner

    @property
    def download(self) -> type[Download]:
        device = self

        class LateDownload(Download):
            def start(self, *tensors: torch.Tensor) -> Arrival:
                self._turn = 1 - self._turn
                host, parts, first = self._hosts[self._turn], [], 0
                for tensor in tensors:
                    parts.append(host[first : first + tensor.numel()].view(tensor.shape))
                    first += tensor.numel()
                number = device.tell(_copies(parts, tensors))
                return Arrival(tuple(parts), lambda: device.until(number))

        return LateDownload


def run_on(device: LateDevice, backend: TorchPagedBackend) -> None:
    """Recorded passes of `backend` run there from now on, and what chooses behind them."""
    assert backend._recorded is not None
    place = backend.settings.ctx, backend._recorded.kinds, backend.settings.vocab_size, CPU
    parts = backend._decoder, backend._pools, backend._tables.spans
    backend._recorded = RecordedPasses(*parts, *place, device.runner(CPU), device.upload())
    assert backend._recorded.record(lambda done, total: True)
    device.finish()
    rows = backend.settings.max_sequences + backend.settings.spare
    backend._download = device.download(rows, backend._chooser.count + 2, CPU)


def run_all_on(device: LateDevice, backend: TorchPagedBackend, patch: pytest.MonkeyPatch) -> None:
    """Everything else too, in order behind it: blocks are copied late, the rest waits first."""
    run_on(device, backend)
    patch.setattr(paged, "copy_blocks", lambda *how: device.tell(lambda: copy_blocks(*how)))
    for owner, name in ((backend._decoder, "forward"), (backend, "park"), (backend, "restore")):
        patch.setattr(owner, name, _behind(device, getattr(owner, name)))
    forward = backend.forward

    def waited(rows: Sequence[Row]) -> Any:
        scores = forward(rows)
        if not any(row.follows for row in rows):
            device.finish()
        return scores

    patch.setattr(backend, "forward", waited)


def _behind(device: LateDevice, run: Callable[..., Any]) -> Callable[..., Any]:
    def behind(*given: Any, **named: Any) -> Any:
        device.finish()
        return run(*given, **named)

    return behind


def _copies(
    parts: list[torch.Tensor], tensors: tuple[torch.Tensor, ...]
) -> Callable[[], list[torch.Tensor]]:
    return lambda: [part.copy_(tensor) for part, tensor in zip(parts, tensors, strict=True)]
