"""Which ops of a step run in plain torch although there is a device for kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from kernels.dispatch import Facts, Product, Rows
from kernels.kv_pool import KVPool
from models.config import ModelConfig
from models.ops import Ops
from models.weights import LayerWeights, Weights


def missing_kernels(
    config: ModelConfig, weights: Weights, ops: Ops, pools: Sequence[KVPool], vocab_size: int
) -> dict[str, str]:
    """Op -> why, of a step of one token over these pools; empty where there is no NVIDIA device.

    Raises kernels.dispatch.KernelMissing where kernels are forced and one is missing.
    """
    found: dict[str, str] = {}
    for op, facts in _step(config, weights, vocab_size):
        _note(found, op, ops.why_missing(op, facts))
    for pool in pools:
        for op in ("store", "attention"):
            _note(found, op, ops.why_missing(op, ops.head_facts(config.heads, pool, 1)))
    return found


def _note(found: dict[str, str], op: str, reason: str | None) -> None:
    if reason is not None:
        found.setdefault(op, reason)


def _step(config: ModelConfig, weights: Weights, vocab_size: int) -> Iterator[tuple[str, Facts]]:
    row = torch.empty(1, config.hidden, dtype=weights.dtype, device="meta")
    yield "embedding", Rows(config.hidden, weights.dtype, weights.embedding)
    yield "norm", Rows(config.hidden, weights.dtype)
    yield "linear", Product(row, (weights.output,))
    yield "candidates", Rows(vocab_size, torch.float32)
    for layer in weights.layers:
        yield from _layer(row, layer)


def _layer(row: torch.Tensor, layer: LayerWeights) -> Iterator[tuple[str, Facts]]:
    for matrix in (layer.qkv, layer.q, layer.k, layer.v, layer.o, layer.router, layer.down):
        if matrix is not None:
            wide = torch.empty(1, matrix.shape[-1], dtype=row.dtype, device="meta")
            yield "linear", Product(wide, (matrix,))
    if layer.gate is not None and layer.up is not None:
        yield "gate_up", Product(row, (layer.gate, layer.up))
    if layer.experts_gate is not None and layer.experts_up is not None:
        chosen = torch.empty(1, dtype=torch.int64, device="meta")
        pair = layer.experts_gate, layer.experts_up
        yield "gate_up", Product(row, pair, experts=chosen)
