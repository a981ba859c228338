"""Laws of loading a model: what is told of it is what was found before the load."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import OutOfMemory
from engine.messages import Load, LoadOptions
from engine.worker.loading import load


def go_on(_done: int, _total: int) -> bool:
    return True


@pytest.mark.model
@pytest.mark.parametrize(("free_bytes", "fits"), [(8 << 30, True), (64 << 20, False)])
def test_a_model_tells_whether_it_fitted(
    starter_model: Path, monkeypatch: pytest.MonkeyPatch, free_bytes: int, fits: bool
) -> None:
    monkeypatch.setattr("engine.worker.loading.free_memory", lambda: free_bytes)
    path = str(starter_model)
    if not fits:
        with pytest.raises(OutOfMemory):
            load(Load(path, LoadOptions(ctx=512, self_tune=False)), go_on)
    options = LoadOptions(ctx=512, self_tune=False, ignore_memory=True)
    model = load(Load(path, options), go_on)
    try:
        assert model.loaded.fits is fits
    finally:
        model.close()
