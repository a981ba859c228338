"""What a decoder is: every difference between the families as data.

Made from `config.json` (`models/hf_config.py`) or from a GGUF header (`models/gguf_config.py`);
what those do not know is refused there by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How positions beyond the trained length are reached; fields of other kinds stay unset."""

    kind: Literal["none", "linear", "dynamic", "llama3", "yarn", "longrope"] = "none"
    factor: float = 1.0
    original_context: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    """Cosines and sines are multiplied by it; None: as the kind's formula says."""
    mscale: float = 0.0
    mscale_all_dim: float = 0.0
    truncate: bool = True
    short_factor: tuple[float, ...] = ()
    long_factor: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class LayerConfig:
    """What differs from layer to layer."""

    window: int | None = None
    """Tokens a token sees, itself included; None: all."""
    rope_base: float = 10_000.0
    rope_scaling: RopeScaling = RopeScaling()
    has_rope: bool = True
    experts: int = 0
    """0: an ordinary feed-forward network."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes are counts of values; `D` is `head_size`."""

    family: str
    """`llama`, `mistral`, `qwen2`, `qwen3`, `gemma2`, `gemma3`, `phi3`, `mixtral`, `qwen3_moe`."""
    vocab_size: int
    """Rows of the output matrix, padding included."""
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    feed_forward: int
    layers: tuple[LayerConfig, ...]
    context: int
    """Tokens it was trained on."""
    norm_eps: float
    norm_offset: float = 0.0
    """Added to every norm's weight: 1 for Gemma."""
    activation: Literal["silu", "gelu_tanh"] = "silu"
    qkv_bias: bool = False
    output_bias: bool = False
    """Of the attention's output."""
    qk_norm: bool = False
    """A norm over each head of Q and K before the rotation."""
    post_norms: bool = False
    """Gemma: norms after attention and feed-forward too, before the residual is added."""
    attention_scale: float = 0.0
    """Q times K is multiplied by it."""
    attention_cap: float | None = None
    """Scores go through cap * tanh(score / cap)."""
    logit_cap: float | None = None
    embedding_scale: float = 1.0
    rotary_size: int = 0
    """First dims of a head that are rotated."""
    tied: bool = False
    """The output matrix is the embedding."""
    experts: int = 0
    experts_used: int = 0
    expert_feed_forward: int = 0
    normalizes_experts: bool = True
    """Whether the chosen experts' weights are made to sum to 1."""
    end_ids: tuple[int, ...] = ()
    """Of config.json or generation_config.json; a GGUF's are its tokenizer's."""
