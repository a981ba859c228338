"""A model as tensors with shapes and no numbers, in the shapes of an 8B one but two layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernels.kv_pool import KVPool
from models.config import LayerConfig, ModelConfig
from models.decoder import Decoder
from models.kv_groups import kv_layouts
from models.model_input import ModelInput
from models.ops import KernelSettings
from models.parameters import parameter_shapes
from models.weights import Matrix, weights_from_slots

CONFIG = ModelConfig(
    family="qwen3",
    vocab_size=151_936,
    hidden=4096,
    heads=32,
    kv_heads=8,
    head_size=128,
    feed_forward=12_288,
    layers=(LayerConfig(), LayerConfig()),
    context=4096,
    norm_eps=1e-6,
    qk_norm=True,
    attention_scale=128**-0.5,
    rotary_size=128,
)
GEMMA = replace(
    CONFIG,
    family="gemma2",
    post_norms=True,
    norm_offset=1.0,
    activation="gelu_tanh",
    attention_cap=50.0,
    logit_cap=30.0,
    layers=(LayerConfig(window=512), LayerConfig()),
)

EXPERTS = replace(
    CONFIG,
    family="qwen3_moe",
    experts=16,
    experts_used=4,
    expert_feed_forward=768,
    layers=(LayerConfig(experts=16), LayerConfig(experts=16)),
)


def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def integers(*shape: int) -> Tensor:
    return empty(*shape, dtype=torch.int64)


def decoder(
    config: ModelConfig,
    capability: tuple[int, int] = (9, 0),
    matrix: Callable[[str, tuple[int, ...]], Matrix] | None = None,
    mode: str = "auto",
) -> Decoder:
    """`matrix`: makes a layer's matrices of their names and shapes; plain bf16 by default."""
    slots: dict[Any, Matrix] = {
        slot: matrix(slot.field, shape)
        if matrix and len(shape) > 1 and slot.layer is not None
        else empty(*shape)
        for slot, shape in parameter_shapes(config).items()
    }
    weights = weights_from_slots(slots, config)
    return Decoder(config, weights, kernels=KernelSettings(capability, mode))


def pools(config: ModelConfig, kv: str, blocks: int = 64) -> list[KVPool]:
    return [
        KVPool(one, empty(blocks, one.record_bytes, dtype=torch.uint8))
        for one in kv_layouts(config, kv)
    ]


def step(config: ModelConfig, new: Sequence[int], wanted: int) -> ModelInput:
    tokens = sum(new)
    groups = len({layer.window for layer in config.layers})
    return ModelInput(
        tokens=integers(tokens),
        positions=integers(tokens),
        slots=tuple(integers(tokens) for _ in range(groups)),
        first_row=integers(len(new) + 1),
        lengths=integers(len(new)),
        tables=tuple(integers(len(new), 64) for _ in range(groups)),
        wanted=integers(wanted),
        new=tuple(new),
        chosen=integers(len(new)),
    )


class NoNewMemory(TorchDispatchMode):
    """Notes every operation of torch whose result lies in memory that no argument has."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = {_storage(one) for one in _tensors((args, kwargs))}
        out = func(*args, **(kwargs or {}))
        if any(_storage(one) not in given for one in _tensors(out)):
            self.found.append(str(func))
        return out


def _tensors(tree: Any) -> list[Tensor]:
    return [one for one in tree_leaves(tree) if isinstance(one, Tensor)]


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
