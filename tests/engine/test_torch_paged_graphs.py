"""How passes are recorded on a device: on one stream, and without a trace where that fails."""

from __future__ import annotations

import pytest
import torch

from engine.backends.torch_paged.device import require_alive
from engine.backends.torch_paged.graphs import Runner
from engine.backends.torch_paged.recorded_passes import RecordedPasses
from engine.errors import BackendLost
from tests.engine.fake_cuda import FakeCuda, FakeStream
from tests.engine.paged_support import feed, prompt
from tests.engine.tiny_decoders import paged_backend

DEVICE = torch.device("cuda")


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    made = FakeCuda()
    made.install(monkeypatch)
    return made


def test_all_passes_are_tried_and_recorded_on_one_stream(cuda: FakeCuda) -> None:
    """The vendor's products keep working room for each stream that they ever ran on."""
    runner, used = Runner(DEVICE), list[FakeStream]()
    for key in range(3):
        runner.capture(key, lambda: used.append(cuda.current))
    assert len(set(used)) == 1
    assert used[0] is not cuda.default
    assert cuda.pools == [None, "pool", "pool"]
    # What is written before and behind them is done in order.
    assert used[0].waits_for == [cuda.default] * 3
    assert cuda.default.waits_for == [used[0]] * 3


def test_a_recording_that_fails_gives_the_stream_back(cuda: FakeCuda) -> None:
    def broken() -> None:
        cuda.is_broken = cuda.capturing is not None

    runner = Runner(DEVICE)
    with pytest.raises(RuntimeError):
        runner.capture("a", broken)
    assert cuda.current is cuda.default
    assert "a" not in runner


def test_a_backend_goes_on_where_nothing_can_be_recorded(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> bool:
        cuda.underway = 1
        raise RuntimeError("CUDA error: operation not permitted\nsecond line")

    monkeypatch.setattr(RecordedPasses, "record", refuse)
    backend = paged_backend(records=True)
    backend.warm_up(lambda done, total: True)
    assert backend.notices == (
        "Passes cannot be recorded (CUDA error: operation not permitted): each token takes longer.",
    )
    wanted = feed(paged_backend(), 0, prompt(9))
    assert (feed(backend, 0, prompt(9)) == wanted).all()


def test_an_error_that_stays_means_that_the_device_is_lost(cuda: FakeCuda) -> None:
    require_alive(DEVICE)
    cuda.error = "CUDA error: an illegal memory access was encountered\nsecond line"
    with pytest.raises(BackendLost, match=r"illegal memory access was encountered Send"):
        require_alive(DEVICE)
