"""config.json as it is found in the wild, old and new, and what is refused by name."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from transformers import CONFIG_MAPPING

from models.config import LayerConfig, RopeScaling
from models.errors import UnsupportedModel
from models.hf_config import config_from_hf
from models.hf_defaults import DEFAULTS
from tests.models.hf_models import FAMILIES

LLAMA_3: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "bos_token_id": 128000,
    "eos_token_id": [128001, 128008, 128009],
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "vocab_size": 128256,
}

LLAMA_2: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "max_position_embeddings": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "tie_word_embeddings": False,
    "vocab_size": 32000,
    "eos_token_id": 2,
}

MISTRAL: dict[str, Any] = {
    "architectures": ["MistralForCausalLM"],
    "model_type": "mistral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "sliding_window": 4096,
    "tie_word_embeddings": False,
    "vocab_size": 32000,
}

QWEN_2: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_act": "silu",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "max_position_embeddings": 32768,
    "max_window_layers": 21,
    "num_attention_heads": 14,
    "num_hidden_layers": 24,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 32768,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
    "eos_token_id": 151645,
}

QWEN_3: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "attention_bias": False,
    "head_dim": 128,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "max_position_embeddings": 40960,
    "max_window_layers": 28,
    "num_attention_heads": 16,
    "num_hidden_layers": 28,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
    },
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
    "eos_token_id": 151645,
}

QWEN_3_MOE: dict[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "decoder_sparse_step": 1,
    "head_dim": 128,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "max_position_embeddings": 40960,
    "max_window_layers": 48,
    "mlp_only_layers": [],
    "moe_intermediate_size": 768,
    "norm_topk_prob": True,
    "num_attention_heads": 32,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "vocab_size": 151936,
    "eos_token_id": 151645,
}

GEMMA_2: dict[str, Any] = {
    "architectures": ["Gemma2ForCausalLM"],
    "model_type": "gemma2",
    "attn_logit_softcapping": 50.0,
    "cache_implementation": "hybrid",
    "eos_token_id": [1, 107],
    "final_logit_softcapping": 30.0,
    "head_dim": 256,
    "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "max_position_embeddings": 8192,
    "num_attention_heads": 8,
    "num_hidden_layers": 26,
    "num_key_value_heads": 4,
    "query_pre_attn_scalar": 256,
    "rms_norm_eps": 1e-06,
    "rope_theta": 10000.0,
    "sliding_window": 4096,
    "vocab_size": 256000,
}

GEMMA_3: dict[str, Any] = {
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 640,
    "intermediate_size": 2048,
    "max_position_embeddings": 32768,
    "num_attention_heads": 4,
    "num_hidden_layers": 18,
    "num_key_value_heads": 1,
    "query_pre_attn_scalar": 256,
    "rms_norm_eps": 1e-06,
    "rope_local_base_freq": 10000.0,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "vocab_size": 262144,
}

GEMMA_3_WITH_IMAGES: dict[str, Any] = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "model_type": "gemma3",
    "eos_token_id": [1, 106],
    "text_config": {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    },
    "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"},
}
"""Most of the text part is left out: the defaults count."""

PHI_3: dict[str, Any] = {
    "architectures": ["Phi3ForCausalLM"],
    "model_type": "phi3",
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "max_position_embeddings": 131072,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 32,
    "original_max_position_embeddings": 4096,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "long_factor": [1.0 + i for i in range(48)],
        "short_factor": [1.0 + i / 10 for i in range(48)],
        "type": "longrope",
    },
    "rope_theta": 10000.0,
    "sliding_window": 262144,
    "tie_word_embeddings": False,
    "vocab_size": 32064,
    "eos_token_id": 32000,
}

MIXTRAL: dict[str, Any] = {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "num_attention_heads": 32,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "rms_norm_eps": 1e-05,
    "rope_theta": 1000000.0,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "vocab_size": 32000,
}

FILES = {
    "llama 3": LLAMA_3,
    "llama 3, the length beside the scaling": {
        **LLAMA_3,
        "original_max_position_embeddings": 4096,
    },
    "llama 2": LLAMA_2,
    "llama 2 scaled twice": {
        **LLAMA_2,
        "rope_scaling": {"type": "linear", "factor": 2.0},
        "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5000.0},
    },
    "mistral": MISTRAL,
    "qwen 2": QWEN_2,
    "qwen 2 with windows": {**QWEN_2, "use_sliding_window": True},
    "qwen 3": QWEN_3,
    "qwen 3 moe": QWEN_3_MOE,
    "gemma 2": GEMMA_2,
    "gemma 3": GEMMA_3,
    "gemma 3, another pattern": {**GEMMA_3, "sliding_window_pattern": 4},
    "gemma 3 with images": GEMMA_3_WITH_IMAGES,
    "phi 3": PHI_3,
    "phi 4 mini": {**PHI_3, "rope_scaling": None, "partial_rotary_factor": 0.75},
    "mixtral": MIXTRAL,
}


def _rewritten(values: dict[str, Any]) -> dict[str, Any]:
    """As transformers 5 writes what it has read."""
    copy = {key: dict(one) if isinstance(one, dict) else one for key, one in values.items()}
    written = CONFIG_MAPPING[values["model_type"]](**copy).to_dict()
    return {**written, "architectures": values.get("architectures")}


@pytest.mark.parametrize("name", FILES)
def test_an_old_file_means_what_transformers_makes_of_it(name: str) -> None:
    values = FILES[name]
    assert config_from_hf(values) == config_from_hf(_rewritten(values))


@pytest.mark.parametrize("model_type", DEFAULTS)
def test_what_a_file_leaves_out_is_what_transformers_takes(model_type: str) -> None:
    written = CONFIG_MAPPING[model_type]().to_dict()
    assert config_from_hf({"model_type": model_type}) == config_from_hf(written)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_layer_for_each_of_the_file(name: str) -> None:
    config = config_from_hf(FAMILIES[name].to_dict())
    assert len(config.layers) == 3
    assert config.end_ids == (1,)


def test_llama_3() -> None:
    config = config_from_hf(LLAMA_3)
    scaling = RopeScaling(
        "llama3", factor=8.0, original_context=8192, low_freq_factor=1.0, high_freq_factor=4.0
    )
    assert config.layers == (LayerConfig(rope_base=500_000.0, rope_scaling=scaling),) * 32
    assert (config.head_size, config.rotary_size, config.kv_heads) == (128, 128, 8)
    assert config.end_ids == (128001, 128008, 128009)


def test_gemma_3_with_images_is_its_text_part() -> None:
    config = config_from_hf(GEMMA_3_WITH_IMAGES)
    assert (config.family, config.heads, config.kv_heads) == ("gemma3", 8, 4)
    assert (config.head_size, config.vocab_size, config.tied) == (256, 262_208, True)
    assert config.end_ids == (1, 106)
    windows = [layer.window for layer in config.layers[:7]]
    assert windows == [1024] * 5 + [None, 1024]
    assert config.layers[0].rope_scaling.kind == "none"
    assert (config.layers[5].rope_scaling.kind, config.layers[5].rope_scaling.factor) == (
        "linear",
        8.0,
    )
    assert (config.layers[0].rope_base, config.layers[5].rope_base) == (10_000.0, 1_000_000.0)


def test_qwen_2_windows_begin_late() -> None:
    config = config_from_hf({**QWEN_2, "use_sliding_window": True, "sliding_window": 99})
    assert [layer.window for layer in config.layers] == [None] * 21 + [99] * 3
    assert config.qkv_bias
    assert not config.output_bias


def test_phi_3_long() -> None:
    scaling = config_from_hf(PHI_3).layers[0].rope_scaling
    assert (scaling.kind, scaling.factor, scaling.original_context) == ("longrope", 32.0, 4096)
    assert len(scaling.long_factor) == len(scaling.short_factor) == 48
    for old in ("su", "yarn"):
        renamed = {**PHI_3, "rope_scaling": {**PHI_3["rope_scaling"], "type": old}}
        assert config_from_hf(renamed) == config_from_hf(PHI_3)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "type": ({"model_type": "deepseek_v3"}, "deepseek_v3"),
    "no type": ({"model_type": None}, "type unknown"),
    "class": ({"architectures": ["LlamaForSequenceClassification"]}, "SequenceClassification"),
    "embedder": ({"architectures": ["MistralModel"]}, "MistralModel"),
    "activation": ({"hidden_act": "relu2"}, "hidden_act.*relu2"),
    "exact gelu": ({"hidden_act": "gelu"}, "hidden_act.*'gelu'"),
    "rope kind": ({"rope_scaling": {"rope_type": "mrope", "factor": 2}}, "rope_type.*mrope"),
    "new rope kind": (
        {"rope_scaling": None, "rope_parameters": {"type": "proportional"}},
        "proportional",
    ),
    "rope is no object": ({"rope_scaling": "linear"}, "rope_scaling"),
    "rope without its factor": ({"rope_scaling": {"rope_type": "linear"}}, "factor is missing"),
    "rope with a factor of text": ({"rope_scaling": {"type": "linear", "factor": "2"}}, "factor"),
    "rope with ends the wrong way": (
        {"rope_scaling": {**LLAMA_3["rope_scaling"], "high_freq_factor": 0.5}},
        "high_freq_factor",
    ),
    "longrope without divisors": ({"rope_scaling": {"type": "longrope"}}, "short_factor"),
    "longrope of another size": (
        {"rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}},
        "long_factor",
    ),
    "yarn with a word": (
        {"rope_scaling": {"type": "yarn", "factor": 2.0, "beta_fast": "much"}},
        "beta_fast",
    ),
    "part of the head": ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    "bias in the feed-forward": ({"mlp_bias": True}, "mlp_bias"),
    "both directions": ({"use_bidirectional_attention": True}, "use_bidirectional_attention"),
    "encoder": ({"is_encoder_decoder": True}, "is_encoder_decoder"),
    "quantization": ({"quantization_config": {"quant_method": "awq"}}, "quantization_config.*awq"),
    "quantization of no kind": ({"quantization_config": {}}, "quantization_config"),
    "kind of layer": ({"layer_types": ["chunked_attention"] * 32}, "chunked_attention"),
    "layers that do not add up": ({"layer_types": ["full_attention"]}, "layer_types"),
    "heads that do not divide": ({"num_key_value_heads": 7}, "num_key_value_heads"),
    "no heads": ({"num_attention_heads": 0}, "num_attention_heads"),
    "size of text": ({"hidden_size": "4096"}, "hidden_size.*'4096'"),
    "flag of text": ({"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
    "end id of text": ({"eos_token_id": "</s>"}, "eos_token_id"),
    "norm of nothing": ({"rms_norm_eps": None}, "rms_norm_eps"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    change, said = REFUSED[name]
    with pytest.raises(UnsupportedModel, match=said) as caught:
        config_from_hf({**LLAMA_3, **change})
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({**QWEN_2, "attention_bias": True}, "attention_bias"),
        ({**MISTRAL, "layer_types": ["full_attention", "sliding_attention"] * 16}, "layer_types"),
        ({**GEMMA_3, "attn_logit_softcapping": 50.0}, "attn_logit_softcapping"),
        ({**GEMMA_3_WITH_IMAGES, "text_config": None}, "text_config"),
        ({**MIXTRAL, "num_local_experts": 0}, "num_local_experts"),
        ({**MIXTRAL, "num_experts_per_tok": 9}, "num_experts_per_tok"),
        ({**GEMMA_3, "sliding_window": None}, "sliding_window"),
        ({**QWEN_2, "layer_types": ["sliding_attention"] * 24}, "sliding_window"),
    ],
)
def test_refused_by_name_in_other_families(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UnsupportedModel, match=said):
        config_from_hf(values)


def test_fp8_is_read() -> None:
    quantization = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    config = config_from_hf({**QWEN_3, "quantization_config": quantization})
    assert config == config_from_hf(QWEN_3)


def test_needs_no_tensor_library() -> None:
    code = "import models.hf_config, models.hf_names, sys; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


JUNK: list[Any] = [
    None,
    [],
    {},
    "x",
    -1,
    0,
    1.5,
    True,
    [1],
    ["x"],
    [None],
    {"a": 1},
    10**30,
    float("nan"),
    float("inf"),
]


@pytest.mark.parametrize("name", FILES)
def test_junk_in_any_place_is_refused_or_harmless(name: str) -> None:
    """Never another error than a refusal, and never a model of absurd size."""
    values = FILES[name]
    text = values.get("text_config", values)
    for key in text:
        for junk in JUNK:
            _read({**values, key: junk} if text is values else _in_text(values, {key: junk}))
    scaling = text.get("rope_scaling") or {}
    for key in scaling:
        for junk in JUNK:
            changed = {"rope_scaling": {**scaling, key: junk}}
            _read({**values, **changed} if text is values else _in_text(values, changed))


def _in_text(values: dict[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
    return {**values, "text_config": {**values["text_config"], **changed}}


def _read(values: dict[str, Any]) -> None:
    try:
        config = config_from_hf(values)
    except UnsupportedModel:
        return
    assert len(config.layers) < 10_000
