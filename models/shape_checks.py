"""Compares the tensors of a file with what its own header says they must be.

Covers what native code would otherwise meet first: the embedding, and in plain architectures each
layer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from models.architectures import PLAIN
from models.errors import ModelFileError
from models.header_values import HeaderValues
from models.layers import LayerShapes
from models.loaders.gguf import TensorInfo
from models.loaders.split import ModelFiles
from models.sizes import show_name

_LAYER = re.compile(r"^blk\.(\d{1,9})\.")


def check_shapes(
    files: ModelFiles,
    header: HeaderValues,
    architecture: str,
    shapes: LayerShapes,
    embedding: int,
    vocab_size: int,
) -> None:
    """Raises ModelFileError naming the tensor, its shape and the expected one."""
    tensors = {tensor.name: tensor for tensor in files.tensors}
    if not tensors:
        raise _wrong(files, "It holds a vocabulary only, and no weights.")
    _check_embedding(files, tensors, embedding, vocab_size)
    _check_layers(files, tensors, shapes.layers)
    if architecture in PLAIN:
        forward = header.integers(f"{architecture}.feed_forward_length")
        for layer in range(shapes.layers):
            width = forward[layer] if len(forward) == shapes.layers else max(forward, default=0)
            _check_layer(files, tensors, layer, _expected(shapes, layer, embedding, width))


def _check_embedding(
    files: ModelFiles, tensors: Mapping[str, TensorInfo], embedding: int, vocab_size: int
) -> None:
    table = tensors.get("token_embd.weight")
    if table is None:
        raise _wrong(files, "It lacks the tensor token_embd.weight.")
    if len(table.shape) != 2 or table.shape[0] != embedding:
        raise _wrong_shape(files, table, (embedding, vocab_size))
    if table.shape[1] < vocab_size:
        raise _wrong(
            files, f"It has {vocab_size:,} tokens, but embeddings for {table.shape[1]:,} only."
        )


def _check_layers(files: ModelFiles, tensors: Mapping[str, TensorInfo], layers: int) -> None:
    present = {int(match[1]) for name in tensors if (match := _LAYER.match(name))}
    missing = set(range(layers)) - present
    if missing:
        raise _wrong(
            files, f"Its header counts {layers:,} layers, but layer {min(missing)} has no tensors."
        )


def _expected(
    shapes: LayerShapes, layer: int, embedding: int, feed_forward: int
) -> dict[str, tuple[int, ...]]:
    queries, kv_heads = shapes.heads * shapes.key_length, shapes.kv_heads[layer]
    expected: dict[str, tuple[int, ...]] = {
        "attn_norm": (embedding,),
        "attn_q": (embedding, queries),
        "attn_k": (embedding, kv_heads * shapes.key_length),
        "attn_v": (embedding, kv_heads * shapes.value_length),
        "attn_output": (shapes.heads * shapes.value_length, embedding),
        "ffn_norm": (embedding,),
    }
    if feed_forward:
        expected |= {
            "ffn_gate": (embedding, feed_forward),
            "ffn_up": (embedding, feed_forward),
            "ffn_down": (feed_forward, embedding),
        }
    return expected


def _check_layer(
    files: ModelFiles,
    tensors: Mapping[str, TensorInfo],
    layer: int,
    expected: Mapping[str, tuple[int, ...]],
) -> None:
    """Tensors that a variant of the architecture leaves out are not asked for."""
    for name, shape in expected.items():
        tensor = tensors.get(f"blk.{layer}.{name}.weight")
        if tensor is not None and tensor.shape != shape:
            raise _wrong_shape(files, tensor, shape)


def _wrong_shape(
    files: ModelFiles, tensor: TensorInfo, expected: tuple[int, ...]
) -> ModelFileError:
    has, needs = _show(tensor.shape), _show(expected)
    return _wrong(files, f"Its tensor {tensor.name} is {has}; the header asks for {needs}.")


def _show(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{dimension:,}" for dimension in shape)


def _wrong(files: ModelFiles, text: str) -> ModelFileError:
    return ModelFileError(
        f"{show_name(files.first.path)} does not fit together.",
        text,
        "Download the file again, or use another one.",
    )
