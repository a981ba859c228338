"""One progress of what a load does one after the other: weights are read, then passes recorded."""

from __future__ import annotations

from engine.worker.load_parts import Progress

_RECORDING_SHARE = 5
"""Recording takes about a fifth as long as reading, once kernels are compiled."""


class LoadPhases:
    def __init__(self, progress: Progress, records: bool) -> None:
        self._progress = progress
        self._records = records
        self._read_bytes = 0

    def reading(self, done: int, total: int) -> bool:
        """Of bytes."""
        self._read_bytes = total
        return self._progress(done, self._whole(total))

    def recording(self, done: int, total: int) -> bool:
        """Of passes."""
        extra = self._whole(self._read_bytes) - self._read_bytes
        return self._progress(self._read_bytes + extra * done // total, self._read_bytes + extra)

    def _whole(self, total: int) -> int:
        return total + total // _RECORDING_SHARE if self._records else total
