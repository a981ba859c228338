"""Shapes of the models that are measured. Their weights are random: nothing is downloaded."""

from __future__ import annotations

from models.config import LayerConfig, ModelConfig


def _qwen3(
    hidden: int, layers: int, heads: int, feed_forward: int, tied: bool, vocab: int = 151_936,
    kv_heads: int = 8, size: int = 128,
) -> ModelConfig:  # fmt: skip
    return ModelConfig(
        family="qwen3",
        vocab_size=vocab,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_size=size,
        feed_forward=feed_forward,
        layers=(LayerConfig(rope_base=1_000_000.0),) * layers,
        context=2**17,
        norm_eps=1e-6,
        qk_norm=True,
        attention_scale=size**-0.5,
        rotary_size=size,
        tied=tied,
    )


SHAPES = {
    "0.6B": _qwen3(1024, 28, 16, 3072, tied=True),
    "4B": _qwen3(2560, 36, 32, 9728, tied=True),
    "8B": _qwen3(4096, 36, 32, 12_288, tied=False),
    "14B": _qwen3(5120, 40, 40, 17_408, tied=False),
}
"""Those of Qwen3."""
TINY = _qwen3(256, 2, 8, 256, tied=False, vocab=320, kv_heads=2, size=32)
"""Stands for all of them where there is no device; rows of whole blocks of every type."""
