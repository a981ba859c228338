"""A device that does what it is told only when somebody waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.backends.torch_paged.graphs import Runner
from engine.backends.torch_paged.upload import Upload


class LateDevice:
    def __init__(self) -> None:
        self.told: list[Callable[[], object]] = []

    def finish(self) -> None:
        while self.told:
            self.told.pop(0)()

    def upload(self) -> type[Upload]:
        device = self

        class LateUpload(Upload):
            def start(self) -> None:
                device.told.append(super().start)

            def wait(self) -> None:
                device.finish()

        return LateUpload

    @property
    def runner(self) -> type[Runner]:
        device = self

        class LateRunner(Runner):
            def replay(self, key: Any) -> None:
                device.told.append(lambda: Runner.replay(self, key))

        return LateRunner
