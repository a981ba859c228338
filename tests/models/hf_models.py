"""Tiny random models of each family, built by transformers: the oracle of ours.

Every parameter is random, norms and biases too, so that one that is not used cannot go unseen.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from models.decoder import Decoder
from models.hf_config import config_from_hf
from models.weights import weights_from_state

VOCAB = 97

SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "eos_token_id": 1,
}

QWEN2_SIZES = {key: value for key, value in SIZES.items() if key != "head_dim"}
"""Heads of 12 dims: this family has no head size of its own."""

GEMMA: dict[str, Any] = {**SIZES, "query_pre_attn_scalar": 24, "sliding_window": 20}

EXPERTS: dict[str, Any] = {**SIZES, "num_experts_per_tok": 2}


def _configs() -> dict[str, PreTrainedConfig]:
    return {
        "llama": transformers.LlamaConfig(**SIZES),
        "llama with biases": transformers.LlamaConfig(**SIZES, attention_bias=True),
        "llama, tied": transformers.LlamaConfig(**SIZES, tie_word_embeddings=True),
        "mistral": transformers.MistralConfig(**SIZES, sliding_window=9),
        "mistral without a window": transformers.MistralConfig(**SIZES, sliding_window=None),
        "qwen2": transformers.Qwen2Config(**QWEN2_SIZES),
        "qwen2 with windows": transformers.Qwen2Config(
            **QWEN2_SIZES, use_sliding_window=True, sliding_window=17, max_window_layers=1
        ),
        "qwen3": transformers.Qwen3Config(**SIZES),
        "gemma2": transformers.Gemma2Config(
            **GEMMA, attn_logit_softcapping=1.5, final_logit_softcapping=3.0
        ),
        "gemma3": transformers.Gemma3TextConfig(
            **GEMMA, sliding_window_pattern=2, final_logit_softcapping=20.0
        ),
        "gemma3 with images": _gemma3_with_images(),
        "phi3": transformers.Phi3Config(**SIZES, partial_rotary_factor=0.75),
        "phi3 with a window": transformers.Phi3Config(**SIZES, sliding_window=16),
        "mixtral": transformers.MixtralConfig(**EXPERTS, num_local_experts=5, sliding_window=None),
        "mixtral with a window": transformers.MixtralConfig(
            **EXPERTS, num_local_experts=4, sliding_window=18
        ),
        "qwen3_moe": transformers.Qwen3MoeConfig(
            **EXPERTS, num_experts=6, moe_intermediate_size=24, norm_topk_prob=True
        ),
        "qwen3_moe, partly dense": transformers.Qwen3MoeConfig(
            **EXPERTS,
            num_experts=6,
            moe_intermediate_size=24,
            norm_topk_prob=False,
            mlp_only_layers=[1],
        ),
        "qwen3_moe, every second": transformers.Qwen3MoeConfig(
            **EXPERTS, num_experts=3, moe_intermediate_size=24, decoder_sparse_step=2
        ),
    }


def _gemma3_with_images() -> PreTrainedConfig:
    vision = transformers.SiglipVisionConfig(
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        image_size=8,
        patch_size=4,
    )
    text = transformers.Gemma3TextConfig(**GEMMA, sliding_window_pattern=3)
    return transformers.Gemma3Config(
        text_config=text.to_dict(),
        vision_config=vision.to_dict(),
        mm_tokens_per_image=4,
        image_token_index=VOCAB - 1,
        eos_token_id=1,
    )


FAMILIES = _configs()


def hf_model(config: PreTrainedConfig, seed: int = 0) -> PreTrainedModel:
    """float32 with eager attention."""
    model = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="eager", dtype=torch.float32
    ).eval()
    random = torch.Generator().manual_seed(seed)
    offset = 0.0 if config.model_type.startswith("gemma") else 1.0
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=random)
            middle = offset if "norm" in name else 0.0
            parameter.copy_(0.2 * noise + middle)
    return model


def our_decoder(model: PreTrainedModel, context: int | None = None) -> Decoder:
    """Ours of the same parameters."""
    config = config_from_hf(model.config.to_dict())
    return Decoder(config, weights_from_state(model.state_dict(), config), context)


def random_ids(count: int, seed: int = 0) -> list[int]:
    random = torch.Generator().manual_seed(1000 * seed + count)
    return torch.randint(2, VOCAB, (count,), generator=random).tolist()


@torch.no_grad()
def hf_logits(model: PreTrainedModel, ids: list[int]) -> Tensor:
    """float32 [tokens, vocab] of a cold run."""
    return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


def relative_error(found: Tensor, expected: Tensor) -> float:
    """Largest difference in parts of the largest value; NaN counts as infinite."""
    error = float((found - expected).abs().max() / expected.abs().max())
    return error if error == error else float("inf")
