"""Laws of configs from GGUF headers: llama.cpp's rule where the header is silent, a refusal by name
where it says something that the decoder does not do."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from models.config import ModelConfig, RopeScaling
from models.errors import ModelFileError, UnsupportedModel
from models.gguf_config import config_from_gguf
from models.loaders.split import read_model
from tests.models.gguf_bytes import GGUFBytes, Tensor, tiny_llama

EPS = "attention__layer_norm_rms_epsilon"


def tiny(architecture: str = "llama", layers: int = 2, **keys: Any) -> GGUFBytes:
    """`keys` are the architecture's own, without its name."""
    given = {f"{architecture}__{key}": value for key, value in {EPS: 1e-6, **keys}.items()}
    return tiny_llama(layers, architecture, **given)


def config(folder: Path, file: GGUFBytes) -> ModelConfig:
    return config_from_gguf(read_model(file.write(folder / "x.gguf")))


def windows(found: ModelConfig) -> list[int | None]:
    return [layer.window for layer in found.layers]


def test_plain_values(tmp_path: Path) -> None:
    found = config(tmp_path, tiny())
    assert (found.family, found.vocab_size, found.hidden, found.context) == ("llama", 40, 64, 1024)
    assert (found.heads, found.kv_heads, found.head_size, found.rotary_size) == (4, 2, 32, 32)
    assert (found.feed_forward, found.attention_scale) == (96, 32**-0.5)
    assert (found.tied, found.qkv_bias, found.output_bias) == (True, False, False)
    assert found.norm_eps == pytest.approx(1e-6)
    assert found.norm_offset == 0
    assert {layer.rope_base for layer in found.layers} == {10_000}
    assert {layer.rope_scaling for layer in found.layers} == {RopeScaling()}


def test_tensors_tell_of_biases_and_of_an_output(tmp_path: Path) -> None:
    file = tiny()
    for name, size in (("blk.0.attn_q.bias", 128), ("blk.0.attn_output.bias", 64)):
        file.tensors.append(Tensor(name, (size,)))
    file.tensors.append(Tensor("output.weight", (64, 40)))
    found = config(tmp_path, file)
    assert (found.tied, found.qkv_bias, found.output_bias) == (False, True, True)


def test_every_sixth_layer_of_gemma3_sees_everything(tmp_path: Path) -> None:
    found = config(
        tmp_path,
        tiny(
            "gemma3",
            13,
            attention__sliding_window=512,
            rope__freq_base=1e6,
            rope__scaling__type="linear",
            rope__scaling__factor=8.0,
        ),
    )
    assert [i for i, window in enumerate(windows(found)) if window is None] == [5, 11]
    for layer in found.layers:
        local = layer.window == 512
        assert layer.rope_base == (10_000 if local else 1e6)
        assert layer.rope_scaling == (RopeScaling() if local else RopeScaling("linear", 8.0))
    assert (found.embedding_scale, found.activation) == (8.0, "gelu_tanh")
    assert (found.qk_norm, found.post_norms, found.norm_offset) == (True, True, 0)
    assert (found.attention_cap, found.logit_cap) == (None, None)


def test_gemma3_without_a_window_sees_everything(tmp_path: Path) -> None:
    assert windows(config(tmp_path, tiny("gemma3", 7))) == [None] * 7


def test_a_pattern_in_the_header_wins(tmp_path: Path) -> None:
    file = tiny(
        "gemma3",
        4,
        attention__sliding_window=7,
        attention__sliding_window_pattern=[False, True, True, False],
        rope__freq_base_swa=5000.0,
    )
    found = config(tmp_path, file)
    assert windows(found) == [None, 7, 7, None]
    assert [layer.rope_base for layer in found.layers] == [10_000, 5000, 5000, 10_000]


def test_gemma2_has_its_own_defaults(tmp_path: Path) -> None:
    found = config(tmp_path, tiny("gemma2", 5))
    assert windows(found) == [4096, None, 4096, None, 4096]
    assert (found.attention_cap, found.logit_cap) == (50, 30)
    caps = {"attn_logit_softcapping": 20.0, "final_logit_softcapping": 0.0}
    found = config(tmp_path, tiny("gemma2", 2, attention__sliding_window=8, **caps))
    assert windows(found) == [8, None]
    assert (found.attention_cap, found.logit_cap) == (20, None)


@pytest.mark.parametrize(
    ("architecture", "layers", "scale"),
    [("gemma2", 46, 16), ("gemma2", 42, 32), ("gemma3", 62, 16), ("gemma3", 48, 32)],
)
def test_the_largest_gemmas_scale_by_hidden_over_heads(
    tmp_path: Path, architecture: str, layers: int, scale: int
) -> None:
    assert config(tmp_path, tiny(architecture, layers)).attention_scale == scale**-0.5


@pytest.mark.parametrize(("window", "expected"), [(9, [9, 9]), (0, [None, None])])
def test_phi3_has_its_window_in_every_layer(
    tmp_path: Path, window: int, expected: list[int | None]
) -> None:
    file = tiny("phi3", attention__sliding_window=window, rope__dimension_count=24)
    found = config(tmp_path, file)
    assert windows(found) == expected
    assert found.rotary_size == 24


def test_experts_make_a_mixtral_of_a_llama(tmp_path: Path) -> None:
    found = config(tmp_path, tiny(expert_count=8, expert_used_count=2))
    assert (found.family, found.experts, found.experts_used) == ("mixtral", 8, 2)
    assert (found.expert_feed_forward, found.layers[0].experts) == (96, 8)
    assert found.normalizes_experts
    keys = {"expert_count": 4, "expert_used_count": 3, "expert_feed_forward_length": 24}
    found = config(tmp_path, tiny("qwen3moe", **keys))
    assert (found.family, found.experts_used, found.expert_feed_forward) == ("qwen3_moe", 3, 24)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"rope__scaling__factor": 2.0}, RopeScaling("linear", 2.0)),
        ({"rope__scale_linear": 4.0}, RopeScaling("linear", 4.0)),
        ({"rope__scaling__type": "linear", "rope__scaling__factor": 1.0}, RopeScaling()),
        ({"rope__scaling__type": "none", "rope__scaling__factor": 3.0}, RopeScaling()),
        (
            {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0},
            RopeScaling("yarn", 4.0, original_context=1024),
        ),
        (
            {
                "rope__scaling__type": "yarn",
                "rope__scaling__factor": 4.0,
                "rope__scaling__original_context_length": 256,
                "rope__scaling__yarn_beta_fast": 16.0,
                "rope__scaling__yarn_beta_slow": 2.0,
                "rope__scaling__yarn_attn_factor": 1.5,
            },
            RopeScaling(
                "yarn",
                4.0,
                original_context=256,
                beta_fast=16,
                beta_slow=2,
                attention_factor=1.5,
            ),
        ),
    ],
)
def test_scalings_of_the_header(
    tmp_path: Path, keys: dict[str, Any], expected: RopeScaling
) -> None:
    assert config(tmp_path, tiny(**keys)).layers[0].rope_scaling == expected


def with_divisors(folder: Path, names: dict[str, float], **keys: Any) -> Path:
    """A file with tensors of 16 equal divisors."""
    file = tiny(**keys)
    file.tensors += [Tensor(name, (16,)) for name in names]
    path = file.write(folder / "x.gguf")
    with path.open("r+b") as stream:
        for info in read_model(path).tensors:
            if info.name in names:
                stream.seek(info.offset)
                stream.write(struct.pack("<16f", *[names[info.name]] * 16))
    return path


def test_divisors_are_a_longrope_of_one_length(tmp_path: Path) -> None:
    path = with_divisors(tmp_path, {"rope_freqs.weight": 2.5})
    found = config_from_gguf(read_model(path)).layers[1].rope_scaling
    assert (found.kind, found.attention_factor) == ("longrope", 1)
    assert found.short_factor == found.long_factor == (2.5,) * 16


def test_long_and_short_divisors(tmp_path: Path) -> None:
    names = {"rope_factors_long.weight": 3.0, "rope_factors_short.weight": 1.5}
    keys = {"rope__scaling__original_context_length": 64, "rope__scaling__attn_factor": 1.25}
    path = with_divisors(tmp_path, names, **keys)
    found = config_from_gguf(read_model(path)).layers[0].rope_scaling
    assert (found.kind, found.original_context, found.attention_factor) == ("longrope", 64, 1.25)
    assert (found.short_factor[0], found.long_factor[0]) == (1.5, 3.0)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_absurd_divisors_are_refused(tmp_path: Path, value: float) -> None:
    path = with_divisors(tmp_path, {"rope_freqs.weight": value})
    with pytest.raises(ModelFileError, match=r"rope_freqs\.weight holds a divisor"):
        config_from_gguf(read_model(path))


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (tiny("granite"), "Its architecture 'granite'"),
        (tiny(rope__scaling__type="spiral"), "'spiral' is not known"),
        (tiny(logit_scale=0.5), "llama.logit_scale"),
        (tiny(residual_scale=2.0), "llama.residual_scale"),
        (tiny(attention__clamp_kqv=8.0), "llama.attention.clamp_kqv"),
        (tiny(attention__causal=False), "llama.attention.causal"),
        (tiny(final_logit_softcapping=30.0), "llama.final_logit_softcapping"),
        (tiny(expert_gating_func=2), "llama.expert_gating_func"),
        (tiny(rope__dimension_count=16), "llama.rope.dimension_count of 16"),
        (tiny("qwen2", rope__dimension_sections=[8, 4, 4, 0]), "qwen2.rope.dimension_sections"),
        (tiny("qwen2", expert_count=8), "qwen2.expert_count of 8"),
        (tiny(attention__value_length=16), "A head of 32 and 16 values"),
        (tiny(attention__head_count_kv=[2, 1]), "head_count_kv that differs"),
        (tiny(feed_forward_length=[96, 64]), "feed_forward_length that differs"),
        (
            tiny(
                rope__scaling__type="yarn",
                rope__scaling__factor=2.0,
                rope__scaling__yarn_ext_factor=0.5,
            ),
            "yarn_ext_factor",
        ),
    ],
)
def test_what_the_decoder_does_not_do_is_refused_by_name(
    tmp_path: Path, file: GGUFBytes, words: str
) -> None:
    with pytest.raises(UnsupportedModel) as caught:
        config(tmp_path, file)
    assert words in str(caught.value)
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (tiny(**{EPS: None}), "layer_norm_rms_epsilon is missing"),
        (tiny(embedding_length=None), "llama.embedding_length is missing"),
        (tiny(feed_forward_length=None), "llama.feed_forward_length is missing"),
        (tiny(rope__freq_base=0.5), "llama.rope.freq_base is 0.5"),
        (tiny(rope__freq_base="high"), "llama.rope.freq_base is no finite number"),
        (tiny(rope__freq_base=float("nan")), "llama.rope.freq_base is no finite number"),
        (tiny(rope__scaling__factor=-2.0), "rope.scaling.factor is -2"),
        (tiny("qwen3", rope__dimension_count=64), "rope.dimension_count is 64"),
        (tiny(rope__scaling__type="longrope"), "rope_factors_short.weight is missing"),
        (tiny(expert_count=2, expert_used_count=3), "expert_used_count is above"),
        (tiny("qwen3moe"), "qwen3moe.expert_count is missing"),
    ],
)
def test_what_is_missing_or_absurd_is_named(tmp_path: Path, file: GGUFBytes, words: str) -> None:
    with pytest.raises(ModelFileError) as caught:
        config(tmp_path, file)
    assert words in str(caught.value)


def test_neither_torch_nor_the_gguf_package_is_needed() -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['gguf'] = None\n"
        "import models.gguf_config, models.gguf_names, models.loaders.steps\n"
        "import models.loaders.safetensors_index, models.loaders.fp8_scales"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
