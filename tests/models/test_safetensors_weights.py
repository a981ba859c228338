"""Every family from a folder that transformers wrote, whole and in shards, in every dtype; 8-bit
floats only with their scales; what does not fit is refused by name."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

from models.config import ModelConfig
from models.decoder import Decoder
from models.errors import LoadingStopped, ModelFileError, UnsupportedModel
from models.hf_config import config_from_hf
from models.hf_folder import CONFIG, read_json
from models.loaders.safetensors_index import read_safetensors
from models.loaders.safetensors_weights import load_safetensors
from models.weights import Weights
from tests.models.hf_models import (
    FAMILIES,
    SIZES,
    hf_logits,
    hf_model,
    random_ids,
    relative_error,
)
from tests.models.paged import run_whole

TOLERANCE = 1e-4
LENGTH = 21
WEIGHTS = "model.safetensors"
Q = "model.layers.1.self_attn.q_proj.weight"


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def load(folder: Path, dtype: torch.dtype = torch.float32) -> tuple[ModelConfig, Weights]:
    config = config_from_hf(read_json(folder / CONFIG))
    return config, load_safetensors(folder, config, "cpu", dtype)


def logits(folder: Path, ids: list[int]) -> Tensor:
    return run_whole(Decoder(*load(folder)), ids)


def llama(folder: Path, **changes: Any) -> PreTrainedModel:
    """A folder with a tiny Llama."""
    model = hf_model(transformers.LlamaConfig(**SIZES, **changes))
    model.save_pretrained(folder)
    return model


def change(folder: Path, **tensors: Tensor | None) -> None:
    """Replace tensors of a single file, or take them out; `__` stands for a dot."""
    found = load_file(folder / WEIGHTS)
    for name, tensor in tensors.items():
        found.pop(name.replace("__", "."), None)
        if tensor is not None:
            found[name.replace("__", ".")] = tensor
    save_file(found, folder / WEIGHTS, {"format": "pt"})


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family(name: str, tmp_path: Path) -> None:
    model, ids = hf_model(FAMILIES[name]), random_ids(LENGTH)
    model.save_pretrained(tmp_path)
    assert relative_error(logits(tmp_path, ids), hf_logits(model, ids)) <= TOLERANCE


@pytest.mark.parametrize("name", ["llama, tied", "phi3", "mixtral", "gemma3"])
def test_shards(name: str, tmp_path: Path) -> None:
    model, ids = hf_model(FAMILIES[name]), random_ids(LENGTH)
    model.save_pretrained(tmp_path, max_shard_size="30KB")
    assert len(read_safetensors(tmp_path).shards) > 3
    assert relative_error(logits(tmp_path, ids), hf_logits(model, ids)) <= TOLERANCE


@pytest.mark.parametrize("stored", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("asked", [torch.bfloat16, torch.float16, torch.float32])
def test_dtypes_are_cast_once(stored: torch.dtype, asked: torch.dtype, tmp_path: Path) -> None:
    model = hf_model(FAMILIES["llama"]).to(stored)
    model.save_pretrained(tmp_path)
    _config, weights = load(tmp_path, asked)
    expected = model.state_dict()[Q].to(asked)
    assert torch.equal(weights.layers[1].q, expected)
    assert weights.norm.dtype == weights.embedding.dtype == asked


def test_a_tied_output_is_the_embedding(tmp_path: Path) -> None:
    llama(tmp_path / "tied", tie_word_embeddings=True)
    llama(tmp_path / "untied")
    tied, untied = load(tmp_path / "tied")[1], load(tmp_path / "untied")[1]
    assert tied.output is tied.embedding
    assert not torch.equal(untied.output, untied.embedding)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model__norm__weight": None}, "model.norm.weight is missing"),
        (
            {"model__layers__2__mlp__up_proj__weight": None},
            "layers.2.mlp.up_proj.weight is missing",
        ),
        ({"lm_head__weight": None}, "lm_head.weight is missing"),
        (
            {Q.replace(".", "__"): torch.zeros(64, 24)},
            f"{Q} is 64 x 24; the config asks for 64 x 48",
        ),
        (
            {"model__layers__0__self_attn__q_proj__bias": torch.zeros(64)},
            "q_proj.bias has no place",
        ),
        (
            {"language_model__model__norm__weight": torch.zeros(48)},
            "fills the place of",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    llama(tmp_path)
    change(tmp_path, **changes)
    with pytest.raises(ModelFileError) as caught:
        load(tmp_path)
    assert words in str(caught.value)
    assert caught.value.next_step


def test_a_missing_expert_is_named(tmp_path: Path) -> None:
    hf_model(FAMILIES["mixtral"]).save_pretrained(tmp_path)
    names = [name for name in load_file(tmp_path / WEIGHTS) if ".experts.3.w2" in name]
    assert names
    change(tmp_path, **{names[0].replace(".", "__"): None})
    with pytest.raises(ModelFileError, match="does not hold a whole model") as caught:
        load(tmp_path)
    assert "Expert 3 of" in str(caught.value)


def test_an_unknown_tensor_is_refused_by_name(tmp_path: Path) -> None:
    llama(tmp_path)
    change(tmp_path, model__layers__0__self_attn__sinks=torch.zeros(4))
    with pytest.raises(UnsupportedModel, match=r"model.layers.0.self_attn.sinks"):
        load(tmp_path)


def test_integers_are_refused_by_name(tmp_path: Path) -> None:
    """As 4-bit formats of other programs have them."""
    llama(tmp_path)
    change(tmp_path, **{Q.replace(".", "__"): torch.zeros(64, 48, dtype=torch.int32)})
    with pytest.raises(UnsupportedModel, match=f"The tensor {Q} is stored as I32"):
        load(tmp_path)


def quantize(
    folder: Path,
    scale_shape: str,
    suffix: str = "weight_scale",
    block: tuple[int, int] = (20, 20),
) -> Tensor:
    """Store q of layer 1 in 8 bits with random scales; returns what it stands for, in float32."""
    random = torch.Generator().manual_seed(5)
    rows, columns = 64, 48
    shapes = {
        "number": (),
        "tensor": (1,),
        "row": (rows,),
        "column": (rows, 1),
        "block": (-(-rows // block[0]), -(-columns // block[1])),
    }
    small = torch.randn(rows, columns, generator=random).to(torch.float8_e4m3fn)
    scale = 0.01 + torch.rand(shapes[scale_shape], generator=random)
    change(
        folder,
        **{
            Q.replace(".", "__"): small,
            Q.replace(".weight", "." + suffix).replace(".", "__"): scale,
            Q.replace(".weight", ".input_scale").replace(".", "__"): torch.ones(1),
        },
    )
    expected = small.float()
    for row in range(rows):
        for column in range(columns):
            in_block = row // block[0], column // block[1]
            place = {"row": (row,), "column": (row, 0), "block": in_block}
            expected[row, column] *= scale[place[scale_shape]] if scale.numel() > 1 else scale.sum()
    return expected


def name_block(folder: Path, size: object) -> None:
    values = json.loads((folder / CONFIG).read_text())
    values["quantization_config"] = {"quant_method": "fp8", "weight_block_size": size}
    (folder / CONFIG).write_text(json.dumps(values))


@pytest.mark.parametrize("suffix", ["weight_scale", "weight_scale_inv", "scale"])
@pytest.mark.parametrize("shape", ["number", "tensor", "row", "column", "block"])
def test_scales_are_applied(shape: str, suffix: str, tmp_path: Path) -> None:
    """Blocks of 20 over 64 x 48: the last of each kind is cut short."""
    llama(tmp_path)
    expected = quantize(tmp_path, shape, suffix)
    name_block(tmp_path, [20, 20] if shape == "block" else None)
    q = load(tmp_path)[1].layers[1].q
    assert isinstance(q, Tensor)
    torch.testing.assert_close(q, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("block", [(8, 6), (1, 48), (64, 1), (128, 128), (64, 48), (7, 11)])
def test_blocks_of_every_size(block: tuple[int, int], tmp_path: Path) -> None:
    """8 x 6 makes as many scales as there are rows."""
    llama(tmp_path)
    expected = quantize(tmp_path, "block", block=block)
    name_block(tmp_path, list(block))
    q = load(tmp_path)[1].layers[1].q
    assert isinstance(q, Tensor)
    torch.testing.assert_close(q, expected, rtol=1e-6, atol=0)


def name_groups(folder: Path, **changes: Any) -> None:
    """As the format compressed-tensors tells it."""
    weights = {"type": "float", "num_bits": 8, "strategy": "channel", **changes.pop("weights", {})}
    values = json.loads((folder / CONFIG).read_text())
    values["quantization_config"] = {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "config_groups": {"group_0": {"weights": weights, "targets": ["Linear"]}},
        **changes,
    }
    (folder / CONFIG).write_text(json.dumps(values))


@pytest.mark.parametrize("shape", ["tensor", "column", "block"])
def test_compressed_tensors_of_8_bit_floats(shape: str, tmp_path: Path) -> None:
    llama(tmp_path)
    expected = quantize(tmp_path, shape)
    is_block = {"strategy": "block", "block_structure": [20, 20]} if shape == "block" else {}
    name_groups(tmp_path, weights=is_block, sparsity_config={"format": "dense"})
    q = load(tmp_path)[1].layers[1].q
    assert isinstance(q, Tensor)
    torch.testing.assert_close(q, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": "pack-quantized"}, "pack-quantized"),
        ({"weights": {"type": "int"}}, "int of 8 bits"),
        ({"weights": {"num_bits": 4}}, "float of 4 bits"),
        ({"weights": {"strategy": "group"}}, "group"),
        ({"transform_config": {"config_groups": {"u": {}}}}, "transform_config"),
        ({"sparsity_config": {"format": "sparse-24-bitmask"}}, "sparsity_config"),
        ({"weights": {"strategy": "block", "block_structure": "128x128"}}, "weight_block_size"),
    ],
)
def test_other_compressed_tensors_are_refused(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    llama(tmp_path)
    name_groups(tmp_path, **changes)
    with pytest.raises(UnsupportedModel) as caught:
        load(tmp_path)
    assert words in str(caught.value)


@pytest.mark.parametrize("size", [None, [32, 20], [64, 48]])
def test_a_block_size_is_read_and_never_guessed(size: object, tmp_path: Path) -> None:
    llama(tmp_path)
    quantize(tmp_path, "block")
    name_block(tmp_path, size)
    with pytest.raises(ModelFileError, match=r"q_proj\.weight_scale"):
        load(tmp_path)


@pytest.mark.parametrize("size", [[20], [0, 20], "20", [20.0, 20]])
def test_an_absurd_block_size_is_refused(size: object, tmp_path: Path) -> None:
    llama(tmp_path)
    quantize(tmp_path, "block")
    name_block(tmp_path, size)
    with pytest.raises(UnsupportedModel, match="weight_block_size"):
        load(tmp_path)


def test_eight_bits_without_a_scale_are_refused(tmp_path: Path) -> None:
    llama(tmp_path)
    quantize(tmp_path, "tensor")
    change(tmp_path, **{Q.replace(".weight", ".weight_scale").replace(".", "__"): None})
    with pytest.raises(ModelFileError, match=f"Its 8-bit tensor {Q} has no scale"):
        load(tmp_path)


def test_two_scales_are_refused(tmp_path: Path) -> None:
    llama(tmp_path)
    quantize(tmp_path, "tensor")
    change(tmp_path, **{Q.replace(".weight", ".scale").replace(".", "__"): torch.ones(1)})
    with pytest.raises(ModelFileError, match="has 2 scales"):
        load(tmp_path)


def test_a_scale_without_eight_bits_is_refused(tmp_path: Path) -> None:
    llama(tmp_path)
    change(tmp_path, **{Q.replace(".weight", ".weight_scale").replace(".", "__"): torch.ones(1)})
    with pytest.raises(UnsupportedModel, match=r"q_proj\.weight_scale"):
        load(tmp_path)


def test_progress_counts_all_bytes_and_ends_full(tmp_path: Path) -> None:
    llama(tmp_path)
    config, seen = config_from_hf(read_json(tmp_path / CONFIG)), list[tuple[int, int]]()
    load_safetensors(tmp_path, config, "cpu", torch.float32, lambda *at: seen.append(at) is None)
    total = read_safetensors(tmp_path).weights_bytes
    assert (seen[0], seen[-1]) == ((0, total), (total, total))
    assert seen == sorted(seen)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_stopped_load_keeps_nothing(share: float, tmp_path: Path) -> None:
    llama(tmp_path)
    config = config_from_hf(read_json(tmp_path / CONFIG))
    before = _live_tensors()
    with pytest.raises(LoadingStopped) as caught:
        load_safetensors(
            tmp_path, config, "cpu", torch.bfloat16, lambda done, total: done < share * total
        )
    assert _live_tensors() == before, caught
    assert load(tmp_path)[1].norm.dtype == torch.float32


def _live_tensors() -> int:
    gc.collect()
    return sum(type(one) is Tensor for one in gc.get_objects())
