"""Folders whose matrices are held in 8 bits: the same numbers as the same matrices expanded, as
many bytes as predicted, and what cannot be held is told.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from kernels.weight_planes import PlaneWeight
from models.decoder import Decoder
from models.errors import ModelFileError
from models.hf_config import config_from_hf
from models.hf_folder import CONFIG, read_json
from models.loaders.eight_bits import eight_bit_bytes, folder_eight_bits
from models.loaders.safetensors_weights import load_safetensors
from models.loaders.scaled_matrix import apply_scale
from models.own_decoder import loaded_bytes, packed_types
from models.weights import Weights
from tests.models.hf_models import EXPERTS, SIZES, hf_model, random_ids
from tests.models.paged import run_whole

WEIGHTS = "model.safetensors"
WIDE: dict[str, Any] = {"hidden_size": 160, "intermediate_size": 96}
"""Rows of one whole group of scales and a part; heads together have 64 columns."""


def folder(path: Path, family: str = "Llama", **sizes: Any) -> Path:
    import transformers

    base = EXPERTS if "num_local_experts" in sizes or "num_experts" in sizes else SIZES
    made = getattr(transformers, f"{family}Config")(**{**base, **WIDE, **sizes})
    hf_model(made).save_pretrained(path)
    return path


def load(path: Path, **how: bool) -> tuple[Any, Weights]:
    config = config_from_hf(read_json(path / CONFIG))
    return config, load_safetensors(path, config, "cpu", torch.float32, **how)


def described(path: Path) -> Any:
    return SimpleNamespace(format="safetensors", path=path)


def held(weights: Weights) -> int:
    every = [weights.embedding, weights.norm, weights.output]
    every += [getattr(one, field.name) for one in weights.layers for field in fields(one)]
    data = [one.data if isinstance(one, PlaneWeight) else one for one in every if one is not None]
    return sum(one.nbytes for one in {one.data_ptr(): one for one in data}.values())


def rounded(matrix: Tensor) -> Tensor:
    """To 127 steps of the largest number of each row and 128 columns."""
    parts = []
    for part in matrix.split(128, -1):
        step = part.abs().amax(-1, keepdim=True) / 127
        parts.append((part / step).round() * step)
    return torch.cat(parts, -1)


def is_rounded(name: str, tensor: Tensor) -> bool:
    return tensor.dim() > 1 and not name.endswith(("mlp.gate.weight", "sparse_moe.gate.weight"))


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        ("Llama", {}),
        ("Llama", {"tie_word_embeddings": True}),
        ("Phi3", {}),
        ("Qwen3Moe", {"num_experts": 3, "moe_intermediate_size": 32}),
    ],
)
def test_integers_compute_as_the_rounded_model(
    family: str, sizes: dict[str, Any], tmp_path: Path
) -> None:
    """Greedy ids of many contexts, one by one; the rounded model is a folder of its own."""
    path = folder(tmp_path / "plain", family, **sizes)
    ids = random_ids(40)
    config, weights = load(path, rounds=True)
    assert isinstance(weights.layers[0].o, PlaneWeight)
    assert isinstance(weights.embedding, PlaneWeight)
    assert (weights.output is weights.embedding) == bool(sizes.get("tie_word_embeddings"))
    found = run_whole(Decoder(config, weights), ids)
    state = load_file(path / WEIGHTS)
    changed = {name: rounded(one) if is_rounded(name, one) else one for name, one in state.items()}
    save_file(changed, path / WEIGHTS, {"format": "pt"})
    expected = run_whole(Decoder(*load(path)), ids)
    assert torch.equal(found.argmax(-1), expected.argmax(-1))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_rounding_hardly_moves_the_next_tokens(tmp_path: Path) -> None:
    """Matrices as small as trained ones: larger random ones attend to a single token."""
    path, ids = folder(tmp_path), random_ids(40)
    state = load_file(path / WEIGHTS)
    small = {name: one / 4 if "_proj" in name else one for name, one in state.items()}
    save_file(small, path / WEIGHTS, {"format": "pt"})
    plain = run_whole(Decoder(*load(path)), ids).log_softmax(-1)
    found = run_whole(Decoder(*load(path, rounds=True)), ids).log_softmax(-1)
    divergence = (plain.exp() * (plain - found)).sum(-1).mean()
    assert 0 < float(divergence) < 2e-3


@pytest.mark.parametrize("sizes", [{}, {"tie_word_embeddings": True}, {"intermediate_size": 70}])
def test_as_many_bytes_as_predicted(sizes: dict[str, Any], tmp_path: Path) -> None:
    path = folder(tmp_path, **sizes)
    config, weights = load(path, rounds=True)
    assert loaded_bytes(described(path), config, "float32", rounds=True) == held(weights)
    assert loaded_bytes(described(path), config, "float32") == held(load(path)[1])


def test_an_output_equal_to_a_tied_embedding_is_held_once(tmp_path: Path) -> None:
    path = folder(tmp_path, tie_word_embeddings=True)
    state = load_file(path / WEIGHTS)
    output = state["model.embed_tokens.weight"].clone()
    save_file({**state, "lm_head.weight": output}, path / WEIGHTS, {"format": "pt"})
    weights = load(path, rounds=True)[1]
    assert weights.output is weights.embedding
    output[3, 4] += 1
    save_file({**state, "lm_head.weight": output}, path / WEIGHTS, {"format": "pt"})
    other = load(path, rounds=True)[1]
    assert other.output is not other.embedding


def test_rows_that_cannot_be_cut_stay_as_they_are(tmp_path: Path) -> None:
    path = folder(tmp_path, intermediate_size=70)
    config, weights = load(path, rounds=True)
    assert isinstance(weights.layers[0].down, Tensor)
    assert isinstance(weights.layers[0].up, PlaneWeight)
    assert folder_eight_bits(path, config, False, True).unrounded == len(config.layers)


def floats(path: Path, kind: str, block: tuple[int, int] = (128, 128)) -> dict[str, Tensor]:
    """Stores every matrix of the layers as 8-bit floats; what each of them stands for."""
    state, meant = load_file(path / WEIGHTS), {}
    for name, matrix in list(state.items()):
        if not name.endswith("_proj.weight"):
            continue
        rows, columns = matrix.shape
        shapes = {
            "tensor": (),
            "row": (rows, 1),
            "block": (-(-rows // block[0]), -(-columns // block[1])),
        }
        scale = 0.01 + torch.rand(shapes[kind])
        state[name] = (matrix / 0.2).to(torch.float8_e4m3fn)
        state[name.replace(".weight", ".weight_scale_inv")] = scale
        meant[name] = apply_scale(state[name], scale, block if kind == "block" else None)
    save_file(state, path / WEIGHTS, {"format": "pt"})
    config = json.loads((path / CONFIG).read_text())
    quantization: dict[str, Any] = {"quant_method": "fp8"}
    if kind == "block":
        quantization["weight_block_size"] = list(block)
    (path / CONFIG).write_text(json.dumps({**config, "quantization_config": quantization}))
    return meant


@pytest.mark.parametrize("kind", ["tensor", "row", "block"])
@pytest.mark.parametrize("family", ["Llama", "Phi3"])
def test_floats_stay_floats_for_kernels(kind: str, family: str, tmp_path: Path) -> None:
    """Phi3's fused matrices have pieces that begin within a block of scales."""
    path = folder(tmp_path, family)
    meant = floats(path, kind)
    config, weights = load(path, repacks=True)
    layer = weights.layers[1]
    parts = [layer.q, layer.k, layer.v]
    assert {one.type_name for one in parts if isinstance(one, PlaneWeight)} == {"F8_E4M3"}
    found = torch.cat([one.dequantize() for one in parts if isinstance(one, PlaneWeight)])
    names = [f"{name}_proj" for name in ("q", "k", "v")] if family == "Llama" else ["qkv_proj"]
    expected = [meant[f"model.layers.1.self_attn.{name}.weight"] for name in names]
    assert torch.equal(found, torch.cat(expected))
    ids = random_ids(12)
    plain = run_whole(Decoder(*load(path)), ids)
    torch.testing.assert_close(run_whole(Decoder(config, weights), ids), plain)
    assert packed_types_of(path) == {"F8_E4M3"}
    assert loaded_bytes(described(path), config, "float32", repacks=True) == held(weights)


def packed_types_of(path: Path) -> set[str]:
    config = config_from_hf(read_json(path / CONFIG))
    return set(folder_eight_bits(path, config, True, False).types.values())


def test_experts_that_lie_one_by_one_are_stacked_as_planes(tmp_path: Path) -> None:
    path = folder(tmp_path, "Mixtral", num_local_experts=3, sliding_window=None)
    names = load_file(path / WEIGHTS)
    assert any(".experts.1.w1." in name for name in names)
    config, weights = load(path, rounds=True)
    assert isinstance(weights.layers[0].experts_down, PlaneWeight)
    assert isinstance(weights.layers[0].router, Tensor)
    assert loaded_bytes(described(path), config, "float32", rounds=True) == held(weights)


def test_floats_of_other_blocks_are_expanded_and_counted(tmp_path: Path) -> None:
    path = folder(tmp_path)
    meant = floats(path, "block", (128, 64))
    config, weights = load(path, repacks=True)
    q = weights.layers[0].q
    assert isinstance(q, Tensor)
    assert torch.equal(q, meant["model.layers.0.self_attn.q_proj.weight"])
    found = folder_eight_bits(path, config, True, False)
    # Matrices of 64 columns have one block in a row, but its size is still another.
    assert (found.types, found.expanded) == ({}, len(meant))


def test_floats_that_no_kernel_reads_become_integers_where_asked(tmp_path: Path) -> None:
    path = folder(tmp_path)
    floats(path, "row")
    for_kernels = load(path, repacks=True, rounds=True)[1]
    alone = load(path, rounds=True)[1]
    kinds = [
        [one.type_name for one in (made.layers[0].q, made.output) if isinstance(one, PlaneWeight)]
        for made in (for_kernels, alone)
    ]
    assert kinds == [["F8_E4M3", "I8"], ["I8", "I8"]]


def test_a_float_that_is_no_number_is_named(tmp_path: Path) -> None:
    path = folder(tmp_path)
    floats(path, "row")
    state = load_file(path / WEIGHTS)
    name = "model.layers.2.self_attn.o_proj.weight"
    state[name].view(torch.uint8)[3, 5] = 0x7F
    save_file(state, path / WEIGHTS, {"format": "pt"})
    with pytest.raises(ModelFileError, match=name):
        load(path, repacks=True)


def test_planes_take_what_is_predicted() -> None:
    from kernels.plane_format import PLANE_FORMATS, places

    for kind in ("I8", "F8_E4M3"):
        for shape in ((1, 32), (7, 160), (131, 416), (4096, 4096)):
            _, words = places(PLANE_FORMATS[kind], *shape)
            assert eight_bit_bytes(shape) == 4 * words
            assert eight_bit_bytes((3, *shape)) == 3 * 4 * words
    assert packed_types(described(Path("/nowhere"))) == frozenset()
