"""Tensor names of GGUF files, and where each of them goes.

Tables only, without a tensor library. As in Hugging Face checkpoints a name may hold several of our
parameters (Phi-3's fused matrices) or a part of one (a single expert, in old files).
"""

from __future__ import annotations

import re

from models.config import ModelConfig
from models.errors import UnsupportedModel
from models.gguf_rope import ROPE_TENSORS
from models.hf_names import Piece
from models.parameters import Slot

TOP: dict[str, str] = {
    "token_embd.weight": "embedding",
    "output_norm.weight": "norm",
    "output.weight": "output",
}

LAYER: dict[str, str] = {
    "attn_norm.weight": "attention_norm",
    "attn_q.weight": "q",
    "attn_k.weight": "k",
    "attn_v.weight": "v",
    "attn_output.weight": "o",
    "attn_q.bias": "q_bias",
    "attn_k.bias": "k_bias",
    "attn_v.bias": "v_bias",
    "attn_output.bias": "o_bias",
    "attn_q_norm.weight": "q_norm",
    "attn_k_norm.weight": "k_norm",
    "post_attention_norm.weight": "post_attention_norm",
    "ffn_norm.weight": "feed_forward_norm",
    "post_ffw_norm.weight": "post_feed_forward_norm",
    "ffn_gate.weight": "gate",
    "ffn_up.weight": "up",
    "ffn_down.weight": "down",
    "ffn_gate_inp.weight": "router",
    "ffn_gate_exps.weight": "experts_gate",
    "ffn_up_exps.weight": "experts_up",
    "ffn_down_exps.weight": "experts_down",
}

_LAYER_NAME = re.compile(r"blk\.(\d{1,6})\.(.+)")
_EXPERT_NAME = re.compile(r"ffn_(gate|up|down)\.(\d{1,6})\.weight")
_LAYER_ROPE = re.compile(r"blk\.\d{1,6}\.rope_(freqs|factors_short|factors_long)\.weight")


def gguf_pieces(name: str, config: ModelConfig) -> tuple[Piece, ...]:
    """Where the tensor `name` goes; empty for the position tables, which the config holds.

    Raises UnsupportedModel for a name that means nothing here.
    """
    if name in ROPE_TENSORS or _LAYER_ROPE.fullmatch(name):
        return ()
    if name in TOP:
        return (Piece(Slot(None, TOP[name])),)
    if (found := _LAYER_NAME.fullmatch(name)) and int(found[1]) < len(config.layers):
        pieces = _layer_pieces(int(found[1]), found[2], config)
        if pieces:
            return pieces
    raise UnsupportedModel(
        f"The model has a tensor that is unknown here: {name}.",
        f"A {config.family} model of {len(config.layers)} layers has none of that name.",
        "Use another model, or run this one through llama.cpp.",
    )


def gguf_name(slot: Slot) -> str:
    """The name under which a file would hold the slot, for messages."""
    names = TOP if slot.layer is None else LAYER
    found = next((name for name, field in names.items() if field == slot.field), slot.field)
    return found if slot.layer is None else f"blk.{slot.layer}.{found}"


def _layer_pieces(layer: int, suffix: str, config: ModelConfig) -> tuple[Piece, ...]:
    if fused := _fused(suffix, config):
        return _cut(layer, fused)
    if suffix in LAYER:
        return (Piece(Slot(layer, LAYER[suffix])),)
    found = _EXPERT_NAME.fullmatch(suffix)
    if found and int(found[2]) < config.experts:
        return (Piece(Slot(layer, f"experts_{found[1]}"), expert=int(found[2])),)
    return ()


def _fused(suffix: str, config: ModelConfig) -> dict[str, int]:
    """The fields that lie one below the other in a fused tensor, with their rows."""
    queries, keys = config.heads * config.head_size, config.kv_heads * config.head_size
    if suffix == "attn_qkv.weight":
        return {"q": queries, "k": keys, "v": keys}
    if suffix == "attn_qkv.bias":
        return {"q_bias": queries, "k_bias": keys, "v_bias": keys}
    if suffix == "ffn_up.weight" and config.family == "phi3":
        return {"gate": config.feed_forward, "up": config.feed_forward}
    return {}


def _cut(layer: int, rows: dict[str, int]) -> tuple[Piece, ...]:
    pieces, start = [], 0
    for field, count in rows.items():
        pieces.append(Piece(Slot(layer, field), rows=(start, start + count)))
        start += count
    return tuple(pieces)
