"""Laws of loading a model: what is told of it is what was found before the load."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import OutOfMemory
from engine.messages import Load, LoadOptions
from engine.worker.load_parts import context_notices
from engine.worker.loading import load
from models.description import describe
from models.memory import choose_context
from tests.models.gguf_bytes import tiny_llama


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


@pytest.mark.model
def test_a_saved_state_is_bound_to_all_that_it_depends_on(
    starter_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fingerprint(**options: Any) -> str:
        wanted = LoadOptions(self_tune=False, threads=2, **options)
        model = load(Load(str(starter_model), wanted), go_on)
        model.close()
        return model.fingerprint

    plain = fingerprint(ctx=512)
    assert fingerprint(ctx=1024, cache_bytes=0) == plain
    assert fingerprint(ctx=512, kv_type="f16", flash=False) == plain
    others = [
        fingerprint(ctx=512, kv_type="k8"),
        fingerprint(ctx=512, kv_type="bf16"),
        fingerprint(ctx=512, flash=True),
        fingerprint(ctx=512, kv_type="k8", flash=True),
    ]
    found = describe(starter_model)
    for changed in (
        replace(found, template_hash="another"),
        replace(found, tokenizer="another"),
        replace(found, fingerprint="another"),
    ):
        monkeypatch.setattr("engine.worker.loading.describe", lambda _path, it=changed: it)
        others.append(fingerprint(ctx=512))
    assert len({plain, *others}) == 1 + len(others)


def test_a_context_that_a_conversion_cut_is_told(tmp_path: Path) -> None:
    whole = describe(tiny_llama().write(tmp_path / "m.gguf"))
    choice = choose_context(whole, "f16", 8 << 30, None)
    assert context_notices(whole, choice, LoadOptions()) == ()
    cut = replace(whole, context_before_conversion=32_768)
    (told,) = context_notices(cut, choice, LoadOptions())
    assert "32,768" in told
    assert f"{whole.ctx_train:,}" in told
