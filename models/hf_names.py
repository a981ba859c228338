"""Parameter names of Hugging Face checkpoints, and where each of them goes.

Tables only, without a tensor library. A name may hold several of our parameters (a fused matrix) or
a part of one (a single expert).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from models.config import ModelConfig
from models.errors import UnsupportedModel
from models.parameters import Slot


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a checkpoint's tensor and where it goes."""

    slot: Slot
    rows: tuple[int, int] | None = None
    """Begin and end in the rows (the last dim but one); None: all."""
    expert: int | None = None
    """Its place in the slot's stack; None: it fills the slot."""


PREFIXES = ("model.language_model.", "language_model.model.", "model.")
"""What stands before the decoder's names; a model that also sees images has the longer ones."""

OUTPUT_NAMES = ("lm_head.weight", "language_model.lm_head.weight")

NOT_NEEDED = re.compile(
    r"(.*\.)?rotary_emb\.inv_freq"
    r"|(model\.)?(vision_tower|multi_modal_projector)\..*"
)
"""Derived values that old checkpoints keep, and the parts that see images."""

TOP: dict[str, str] = {"embed_tokens.weight": "embedding", "norm.weight": "norm"}

LAYER: dict[str, str] = {
    "self_attn.q_proj.weight": "q",
    "self_attn.k_proj.weight": "k",
    "self_attn.v_proj.weight": "v",
    "self_attn.o_proj.weight": "o",
    "self_attn.q_proj.bias": "q_bias",
    "self_attn.k_proj.bias": "k_bias",
    "self_attn.v_proj.bias": "v_bias",
    "self_attn.o_proj.bias": "o_bias",
    "self_attn.q_norm.weight": "q_norm",
    "self_attn.k_norm.weight": "k_norm",
    "input_layernorm.weight": "attention_norm",
    "mlp.gate_proj.weight": "gate",
    "mlp.up_proj.weight": "up",
    "mlp.down_proj.weight": "down",
    "mlp.gate.weight": "router",
    "block_sparse_moe.gate.weight": "router",
    "mlp.experts.down_proj": "experts_down",
}

NORMS: dict[bool, dict[str, str]] = {
    False: {"post_attention_layernorm.weight": "feed_forward_norm"},
    True: {
        "post_attention_layernorm.weight": "post_attention_norm",
        "pre_feedforward_layernorm.weight": "feed_forward_norm",
        "post_feedforward_layernorm.weight": "post_feed_forward_norm",
    },
}
"""By `ModelConfig.post_norms`: the same name means another norm."""

EXPERT: dict[str, str] = {
    "w1.weight": "experts_gate",
    "w3.weight": "experts_up",
    "w2.weight": "experts_down",
    "gate_proj.weight": "experts_gate",
    "up_proj.weight": "experts_up",
    "down_proj.weight": "experts_down",
}

_LAYER_NAME = re.compile(r"layers\.(\d+)\.(.+)")
_EXPERT_NAME = re.compile(r"(?:mlp|block_sparse_moe)\.experts\.(\d+)\.(.+)")


def pieces_of(name: str, config: ModelConfig) -> tuple[Piece, ...]:
    """Where the tensor `name` goes; empty for what a text decoder does not need.

    Raises UnsupportedModel for a name that means nothing here.
    """
    if NOT_NEEDED.fullmatch(name):
        return ()
    if name in OUTPUT_NAMES:
        return (Piece(Slot(None, "output")),)
    inner = _without_prefix(name)
    if inner in TOP:
        return (Piece(Slot(None, TOP[inner])),)
    if (found := _LAYER_NAME.fullmatch(inner)) and int(found[1]) < len(config.layers):
        pieces = _layer_pieces(int(found[1]), found[2], config)
        if pieces:
            return pieces
    raise UnsupportedModel(
        f"The model has a parameter that is unknown here: {name}.",
        f"A {config.family} model of {len(config.layers)} layers has none of that name.",
        "Take another model, or the same one in GGUF.",
    )


def hf_name(slot: Slot, config: ModelConfig) -> str:
    """A name under which a checkpoint would hold the slot, for messages."""
    if slot.layer is None:
        names = {field: f"model.{name}" for name, field in TOP.items()}
        return {**names, "output": OUTPUT_NAMES[0]}[slot.field]
    plain, fused = (*LAYER, *NORMS[config.post_norms]), tuple(_fused_rows(config))
    for suffix in (*fused, *plain) if config.family == "phi3" else (*plain, *fused):
        if any(piece.slot == slot for piece in _layer_pieces(slot.layer, suffix, config)):
            return f"model.layers.{slot.layer}.{suffix}"
    return str(slot)


def _without_prefix(name: str) -> str:
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return name[len(prefix) :]
    return name


def _layer_pieces(layer: int, suffix: str, config: ModelConfig) -> tuple[Piece, ...]:
    field = LAYER.get(suffix) or NORMS[config.post_norms].get(suffix)
    if field:
        return (Piece(Slot(layer, field)),)
    fused = _fused_rows(config).get(suffix)
    if fused:
        return _cut(layer, fused)
    found = _EXPERT_NAME.fullmatch(suffix)
    if found and found[2] in EXPERT and int(found[1]) < config.experts:
        return (Piece(Slot(layer, EXPERT[found[2]]), expert=int(found[1])),)
    return ()


def _fused_rows(config: ModelConfig) -> dict[str, dict[str, int]]:
    """Fused matrices: the fields that lie one below the other, with their rows."""
    queries = config.heads * config.head_size
    keys = config.kv_heads * config.head_size
    return {
        "self_attn.qkv_proj.weight": {"q": queries, "k": keys, "v": keys},
        "mlp.gate_up_proj.weight": {"gate": config.feed_forward, "up": config.feed_forward},
        "mlp.experts.gate_up_proj": {
            "experts_gate": config.expert_feed_forward,
            "experts_up": config.expert_feed_forward,
        },
    }


def _cut(layer: int, rows: dict[str, int]) -> tuple[Piece, ...]:
    pieces, start = [], 0
    for field, count in rows.items():
        pieces.append(Piece(Slot(layer, field), rows=(start, start + count)))
        start += count
    return tuple(pieces)
