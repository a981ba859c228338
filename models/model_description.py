"""What is known of a model before it is loaded, whatever kind of file it came from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from models.layers import LayerShapes


@dataclass(frozen=True, slots=True)
class SpecialIds:
    """Ids that the header names; None where it names none."""

    bos: int | None
    eos: int | None
    eot: int | None
    eom: int | None
    add_bos: bool | None


@dataclass(frozen=True, slots=True)
class ModelDescription:
    path: Path
    """The first file; of a safetensors folder the folder."""
    files: tuple[Path, ...]
    name: str
    """The file's name, for showing."""
    title: str
    """What the header calls the model; may be empty."""
    architecture: str
    quantization: str
    parameters: int
    weights_bytes: int
    file_bytes: int
    ctx_train: int | None
    """Tokens the model was trained on; None when the header does not say or says 0."""
    layers: int
    embedding: int
    heads: int
    """Most query heads of a layer."""
    shapes: LayerShapes
    feed_forward: int
    vocab_size: int
    fingerprint: str
    tokenizer: str
    """Fingerprint of the tokenizer."""
    template: str | None
    template_hash: str
    """Empty without a template."""
    ids: SpecialIds
    license: str
    format: Literal["gguf", "safetensors"] = "gguf"
    context_before_conversion: int | None = None
    """Tokens the model was trained on, where the conversion for llama.cpp had to leave it fewer."""

    @property
    def kv_heads(self) -> tuple[int, ...]:
        """KV heads of each layer; 0 where a layer keeps no K and V."""
        return self.shapes.kv_heads

    @property
    def key_length(self) -> int:
        """Values of one K head."""
        return self.shapes.key_length

    @property
    def value_length(self) -> int:
        return self.shapes.value_length

    @property
    def window(self) -> int | None:
        """Tokens that a window layer sees; None without such layers."""
        return self.shapes.window

    @property
    def window_layers(self) -> tuple[bool, ...]:
        return self.shapes.window_layers

    @property
    def recurrent(self) -> bool:
        """Whether any layer keeps a state that cannot be cut back."""
        return self.shapes.recurrent_layers > 0


def template_hash(template: str | None) -> str:
    """Identity of a chat template; empty for none."""
    if not template:
        return ""
    return hashlib.sha256(template.encode("utf-8", "replace")).hexdigest()[:16]
