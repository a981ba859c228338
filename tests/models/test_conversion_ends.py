"""How a conversion ends early: what a GGUF cannot say, weights that are wrong, disks and people."""

from __future__ import annotations

import errno
import os
import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import PreTrainedConfig

from models.conversion.convert import convert_folder
from models.description import describe
from models.errors import LoadingStopped, LocalchatError, ModelFileError, UnsupportedModel
from models.loaders.gguf import read_gguf
from tests.models.conversion_folders import (
    LLAMA_3_ROPE,
    YARN_ROPE,
    byte_level,
    rope,
    tiny_llama,
    write_model,
)
from tests.models.hf_models import EXPERTS, FAMILIES, GEMMA, SIZES

torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (
            transformers.LlamaConfig(**SIZES, **rope(rope_type="dynamic", factor=2.0)),
            "dynamic",
        ),
        (transformers.Qwen3Config(**SIZES, **LLAMA_3_ROPE), "llama3"),
        (
            transformers.LlamaConfig(
                **SIZES, rope_parameters={**YARN_ROPE["rope_parameters"], "beta_fast": 16.0}
            ),
            "yarn",
        ),
        (transformers.Gemma2Config(**GEMMA), "attention_scale"),
        (transformers.Qwen3Config(**SIZES, attention_bias=True), "qkv_bias"),
        (FAMILIES["qwen3_moe, partly dense"], "norm_topk_prob"),
        (
            transformers.Qwen3MoeConfig(
                **EXPERTS,
                num_experts=4,
                moe_intermediate_size=24,
                norm_topk_prob=True,
                mlp_only_layers=[1],
            ),
            "decoder_sparse_step",
        ),
        (transformers.Phi3Config(**SIZES), "head_dim"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_gguf_file_cannot_say_is_refused_by_name(
    config: PreTrainedConfig, named: str, tmp_path: Path
) -> None:
    write_model(tmp_path / "m", config, byte_level("llama-bpe"))
    with pytest.raises(UnsupportedModel, match=named):
        convert_folder(tmp_path / "m", tmp_path / "out", "F32")
    assert left(tmp_path / "out") == []


def left(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.exists() else []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_llama(tmp_path / "m")
    return tmp_path / "m"


def test_it_tells_how_far_it_is(folder: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    path = convert_folder(folder, tmp_path, "F16", lambda *two: seen.append(two) or True)
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] <= path.stat().st_size
    assert path.name == "m-F16.gguf"


def test_name_license_and_size_are_in_the_file(folder: Path, tmp_path: Path) -> None:
    (folder / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0\n---\n# A model\n")
    file = read_gguf(convert_folder(folder, tmp_path, "Q8_0"))
    found = {key: file.metadata[f"general.{key}"] for key in ("name", "license", "file_type")}
    assert found == {"name": "m", "license": "apache-2.0", "file_type": 7}
    assert file.metadata["general.size_label"] == "108K"
    assert describe(file.path).quantization == "Q8_0"


@pytest.mark.parametrize("calls", [1, 7])
def test_stopped_it_leaves_nothing(folder: Path, tmp_path: Path, calls: int) -> None:
    answers = iter([True] * (calls - 1) + [False])
    with pytest.raises(LoadingStopped):
        convert_folder(folder, tmp_path / "out", "F16", lambda *_: next(answers))
    assert left(tmp_path / "out") == []


def test_without_room_it_tells_the_figures_and_writes_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**6, 10**6 - 123, 123))
    with pytest.raises(LocalchatError, match=r"needs 1\.\d MB.* has 123 bytes"):
        convert_folder(folder, tmp_path / "out", "F16")
    assert left(tmp_path / "out") == []


def test_a_disk_that_fills_up_is_named_and_left_as_it_was(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("models.conversion.convert.write_tensors", full)
    with pytest.raises(LocalchatError, match=r"m-F16\.gguf cannot be written.*No space"):
        convert_folder(folder, tmp_path / "out", "F16")
    assert left(tmp_path / "out") == []


def test_a_folder_that_cannot_be_written_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LocalchatError, match="cannot be written"):
        convert_folder(folder, tmp_path / "file", "F16")


def test_the_old_file_stays_until_the_new_one_is_whole(folder: Path, tmp_path: Path) -> None:
    path = convert_folder(folder, tmp_path, "F16")
    before = path.read_bytes()
    with pytest.raises(LoadingStopped):
        convert_folder(folder, tmp_path, "F16", lambda done, total: done < 9000)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda state: state.pop("model.layers.0.mlp.up_proj.weight"), "up_proj"),
        (lambda state: state.update({"model.layers.0.extra.weight": torch.ones(2)}), "extra"),
        (lambda state: state["model.norm.weight"].fill_(float("nan")), "output_norm"),
        (lambda state: state["model.embed_tokens.weight"].fill_(1e6), "token_embd.*BF16"),
    ],
    ids=["missing", "unknown", "nan", "too large for 16 bit"],
)
def test_weights_that_are_not_right_are_refused_by_name(
    folder: Path, tmp_path: Path, change: Callable[[dict[str, Any]], Any], named: str
) -> None:
    state = load_file(folder / "model.safetensors")
    change(state)
    save_file(state, folder / "model.safetensors")
    with pytest.raises((ModelFileError, UnsupportedModel), match=named):
        convert_folder(folder, tmp_path / "out", "F16")
    assert left(tmp_path / "out") == []
