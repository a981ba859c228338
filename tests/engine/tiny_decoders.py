"""Tiny random decoders for the paged backend: two layers, one of them with a window where asked."""

from __future__ import annotations

from typing import Any

import torch

from engine.backends.scripted_vocabulary import VOCAB_SIZE
from engine.backends.torch_paged.backend import TorchPagedBackend
from engine.backends.torch_paged.settings import PagedSettings
from models.config import LayerConfig, ModelConfig
from models.decoder import Decoder
from models.parameters import parameter_shapes
from models.weights import weights_from_slots

PADDED = VOCAB_SIZE + 11
"""Output rows, more than the tokenizer has ids."""
WINDOW = 8
WINDOWS: dict[str, tuple[int | None, ...]] = {
    "full": (None, None),
    "window": (WINDOW, None),
    "windows only": (WINDOW, WINDOW),
}
"""Kind of decoder -> the windows of its layers."""


def tiny_config(kind: str, head_size: int = 16) -> ModelConfig:
    return ModelConfig(
        family="qwen3",
        vocab_size=PADDED,
        hidden=32,
        heads=4,
        kv_heads=2,
        head_size=head_size,
        feed_forward=48,
        layers=tuple(LayerConfig(window) for window in WINDOWS[kind]),
        context=512,
        norm_eps=1e-6,
        qk_norm=True,
        attention_scale=head_size**-0.5,
        rotary_size=head_size,
    )


def tiny_decoder(config: ModelConfig, seed: int = 0) -> Decoder:
    """Weights so large that attention chooses and scores lie apart."""
    made = torch.Generator().manual_seed(seed)
    slots = {
        slot: torch.randn(shape, generator=made) * (1.5 if len(shape) == 1 else 0.3)
        for slot, shape in parameter_shapes(config).items()
    }
    return Decoder(config, weights_from_slots(slots, config))


def paged_backend(kind: str = "full", head_size: int = 16, **changes: Any) -> TorchPagedBackend:
    """Over a decoder that is the same every time."""
    torch.set_num_threads(1)
    config = tiny_config(kind, head_size)
    fields: dict[str, Any] = {
        "ctx": 128,
        "pool_bytes": 1 << 26,
        "vocab_size": VOCAB_SIZE,
        "block": 4,
        "max_sequences": 8,
        "max_rows": 128,
        "spare": 3,
    }
    settings = PagedSettings(**{**fields, **changes})
    return TorchPagedBackend(tiny_decoder(config), config, settings)
