"""Which parameters a decoder has, and their shapes, told by its config alone.

Knows no file and no tensor library: loaders check against it, memory is predicted from it.
"""

from __future__ import annotations

from typing import NamedTuple

from models.config import ModelConfig

Shape = tuple[int, ...]


class Slot(NamedTuple):
    """A parameter's place: a field of `LayerWeights`, or of `Weights` where `layer` is None."""

    layer: int | None
    field: str

    def __str__(self) -> str:
        return self.field if self.layer is None else f"layers.{self.layer}.{self.field}"


def parameter_shapes(config: ModelConfig) -> dict[Slot, Shape]:
    """Shape of every parameter: a matrix is [out, in], a stack of experts [E, out, in].

    A tied output matrix is the embedding and has no entry.
    """
    shapes: dict[Slot, Shape] = {
        Slot(None, "embedding"): (config.vocab_size, config.hidden),
        Slot(None, "norm"): (config.hidden,),
    }
    if not config.tied:
        shapes[Slot(None, "output")] = (config.vocab_size, config.hidden)
    for index in range(len(config.layers)):
        for field, shape in layer_shapes(config, index).items():
            shapes[Slot(index, field)] = shape
    return shapes


def layer_shapes(config: ModelConfig, index: int) -> dict[str, Shape]:
    """Shapes of one layer's parameters by field."""
    return {
        **_attention_shapes(config),
        **_norm_shapes(config),
        **_feed_forward_shapes(config, config.layers[index].experts),
    }


def _attention_shapes(config: ModelConfig) -> dict[str, Shape]:
    queries = config.heads * config.head_size
    keys = config.kv_heads * config.head_size
    shapes: dict[str, Shape] = {
        "q": (queries, config.hidden),
        "k": (keys, config.hidden),
        "v": (keys, config.hidden),
        "o": (config.hidden, queries),
    }
    if config.qkv_bias:
        shapes |= {"q_bias": (queries,), "k_bias": (keys,), "v_bias": (keys,)}
    if config.output_bias:
        shapes["o_bias"] = (config.hidden,)
    if config.qk_norm:
        shapes |= {"q_norm": (config.head_size,), "k_norm": (config.head_size,)}
    return shapes


def _norm_shapes(config: ModelConfig) -> dict[str, Shape]:
    fields = ["attention_norm", "feed_forward_norm"]
    if config.post_norms:
        fields += ["post_attention_norm", "post_feed_forward_norm"]
    return dict.fromkeys(fields, (config.hidden,))


def _feed_forward_shapes(config: ModelConfig, experts: int) -> dict[str, Shape]:
    if not experts:
        inner = config.feed_forward
        return {
            "gate": (inner, config.hidden),
            "up": (inner, config.hidden),
            "down": (config.hidden, inner),
        }
    inner = config.expert_feed_forward
    return {
        "router": (experts, config.hidden),
        "experts_gate": (experts, inner, config.hidden),
        "experts_up": (experts, inner, config.hidden),
        "experts_down": (experts, config.hidden, inner),
    }
