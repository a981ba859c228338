"""Decode, prompts and prompts behind a prefix, as shares of what the same run found possible."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from engine.backends.torch_paged.pass_kinds import RECORDED_TOKENS, PassKind
from kernels.kv_layout import KV_FORMATS, KVLayout
from kernels.kv_pool import KVPool
from models.config import ModelConfig
from models.decoder import Decoder
from models.ops import Ops
from tests.bench.gpu import floors
from tests.bench.gpu.depth import Conversation
from tests.bench.gpu.launches import launches_of
from tests.bench.gpu.plan import NEW_TOKENS, Point
from tests.bench.gpu.rig import Rig

Ceilings = dict[str, float]
Result = dict[str, Any]


def decode(rig: Rig, point: Point, decoder: Decoder, ceilings: Ceilings) -> list[Result]:
    """Steps of one sequence, from the ids on the host to the candidates on the host."""
    held = Conversation(rig, decoder, point.kv, max(point.lengths) + 64)
    launches = launches_of(lambda: held.read(0, 1))
    count = sum(launches.values())
    found = []
    for length in point.lengths:
        seconds = rig.seconds(lambda length=length: held.write(length))
        device = rig.device_seconds(lambda length=length: held.launched(length))
        moved = floors.step(decoder.config, point.weights, point.kv, length).bytes
        floor = moved / ceilings["read_bytes_per_s"]
        found.append(
            {
                **_names(point, length),
                "step_ms": 1e3 * seconds,
                "device_ms": 1e3 * device,
                "tokens_per_s": 1 / seconds,
                "bytes": moved,
                "share_of_read": floor / seconds,
                "share_of_read_less_launches": floor
                / max(seconds - count * ceilings["launch_s"], floor),
                "share_of_copy": moved / ceilings["copy_bytes_per_s"] / seconds,
                "launches": count,
                "launches_per_layer": _per_layer(launches, decoder),
            }
        )
    return found


def _per_layer(launches: dict[str, int], decoder: Decoder) -> float:
    """Without what stands before and behind the layers: the embedding, the last norm, the head."""
    count = sum(launches.values())
    return max(count - 3, 0) / len(decoder.config.layers)


def prefill(rig: Rig, point: Point, decoder: Decoder, ceilings: Ceilings) -> list[Result]:
    """A prompt of its own: recorded where the backend records it, else in pieces."""
    longest = max(point.lengths)
    kinds = (PassKind(1, min(longest, RECORDED_TOKENS), 1),)
    held = Conversation(rig, decoder, point.kv, longest + 64, kinds)
    found = []
    for tokens in point.lengths:
        read = held.recorded if tokens <= RECORDED_TOKENS else held.read
        rounds = min(rig.rounds, 3 if tokens > 8192 else 5)
        seconds = rig.seconds(lambda read=read, tokens=tokens: read(0, tokens), rounds)
        operations = floors.prefill_operations(decoder.config, tokens)
        found.append(
            {
                **_names(point, tokens),
                "ms": 1e3 * seconds,
                "tokens_per_s": tokens / seconds,
                "operations": operations,
                "share_of_matrix": operations / ceilings["matrix_operations_per_s"] / seconds,
            }
        )
    return found


def hit(rig: Rig, point: Point, decoder: Decoder, ceilings: Ceilings) -> list[Result]:
    """The first token of a prompt whose prefix is held, against the new tokens alone."""
    kind = PassKind(1, 2 * NEW_TOKENS, 1)
    held = Conversation(rig, decoder, point.kv, max(point.lengths) + 64, (kind,))
    alone = rig.seconds(lambda: held.recorded(0, NEW_TOKENS))
    found = []
    for prefix in point.lengths:
        seconds = rig.seconds(lambda prefix=prefix: held.recorded(prefix, NEW_TOKENS))
        moved = floors.attention_bytes(decoder.config, point.kv, prefix)
        operations = floors.attention_operations(decoder.config, NEW_TOKENS, prefix)
        floor = max(
            moved / ceilings["read_bytes_per_s"], operations / ceilings["matrix_operations_per_s"]
        )
        found.append(
            {
                **_names(point, prefix),
                "new_tokens": NEW_TOKENS,
                "first_token_ms": 1e3 * seconds,
                "new_tokens_alone_ms": 1e3 * alone,
                "prefix_floor_ms": 1e3 * floor,
                "ratio": seconds / (alone + floor),
            }
        )
    return found


def attention(rig: Rig, config: ModelConfig, kv: str, length: int, ceilings: Ceilings) -> Result:
    """The attention of one decode step in every layer, recorded without anything around it."""
    layout = KVLayout(KV_FORMATS[kv], len(config.layers), config.kv_heads, config.head_size)
    count = -(-length // layout.block)
    data = torch.zeros(count + 1, layout.record_bytes, dtype=torch.uint8, device=rig.device)
    pool, ops = KVPool(layout, data), Ops(rig.kernels, rig.device)
    table = (torch.randperm(count) + 1).to(rig.device)[None]
    first_row = torch.tensor([0, 1], device=rig.device)
    lengths = torch.tensor([length], device=rig.device)
    q = torch.randn(1, config.heads, config.head_size, device=rig.device).to(rig.dtype)
    out = torch.empty_like(q)

    def run() -> Tensor:
        for layer in range(layout.layers):
            ops.attend(q, pool, 1, out, layer, first_row, lengths, table, config.attention_scale)
        return out

    seconds = rig.recorded_seconds(run)
    moved = floors.attention_bytes(config, kv, length)
    return {
        "kv": kv,
        "length": length,
        "ms": 1e3 * seconds,
        "share_of_read": moved / ceilings["read_bytes_per_s"] / seconds,
    }


def _names(point: Point, length: int) -> Result:
    return {"shape": point.shape, "weights": point.weights, "kv": point.kv, "length": length}
