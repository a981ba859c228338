"""Small embedding models for tests: a random BERT as a GGUF file, and as transformers runs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = (*SPECIAL, *"abcdefghijklmnopqrstuvwxyz", *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz"))
MEAN, CLS, NONE = 1, 2, 0

_LAYER = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
_EMBEDDINGS = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
}


def random_bert() -> Any:
    """Two layers of 64; weights large enough that texts differ."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(5)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=64,
        initializer_range=0.3,
    )
    return BertModel(config, add_pooling_layer=False).eval()


def write_bert(
    path: Path, model: Any, words: Sequence[str] = WORDS, name: str = "tiny", pooling: int = MEAN
) -> Path:
    writer = gguf.GGUFWriter(path, "bert")
    config = model.config
    writer.add_name(name)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_layer_norm_eps(config.layer_norm_eps)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType(pooling))
    _write_words(writer, words)
    for key, value in model.state_dict().items():
        if (place := _place(key)) is not None:
            writer.add_tensor(place, value.float().numpy().astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_words(writer: gguf.GGUFWriter, words: Sequence[str]) -> None:
    """llama.cpp marks words' beginnings, where BERT marks what goes on."""
    writer.add_tokenizer_model("bert")
    writer.add_token_list([_marked(word) for word in words])
    writer.add_token_types([3 if word in SPECIAL else 1 for word in words])
    writer.add_token_type_count(2)
    ids = {word: place for place, word in enumerate(words)}
    writer.add_bos_token_id(ids["[CLS]"])
    writer.add_eos_token_id(ids["[SEP]"])
    writer.add_sep_token_id(ids["[SEP]"])
    writer.add_unk_token_id(ids["[UNK]"])
    writer.add_pad_token_id(ids["[PAD]"])
    writer.add_mask_token_id(ids["[MASK]"])


def _marked(word: str) -> str:
    if word in SPECIAL:
        return word
    return word[2:] if word.startswith("##") else f"\u2581{word}"


def _place(key: str) -> str | None:
    stem, _, kind = key.rpartition(".")
    if stem in _EMBEDDINGS:
        return f"{_EMBEDDINGS[stem]}.{kind}"
    if stem.startswith("encoder.layer."):
        number, _, rest = stem.removeprefix("encoder.layer.").partition(".")
        return f"blk.{number}.{_LAYER[rest]}.{kind}"
    return None
