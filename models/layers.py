"""The per-layer shape of what a model remembers: KV heads, window layers, recurrent states.

Knows the header's keys and the tables of architectures; knows no bytes of any KV type.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.architectures import HYBRID, RECURRENT, WINDOW_PERIOD
from models.header_values import HeaderValues

MAX_LAYERS = 10_000
MAX_HEADS = 100_000


@dataclass(frozen=True, slots=True)
class LayerShapes:
    heads: int
    """Most query heads of a layer."""
    kv_heads: tuple[int, ...]
    """Of each layer; 0 where it keeps no K and V."""
    key_length: int
    value_length: int
    window: int | None
    window_layers: tuple[bool, ...]
    recurrent_layers: int
    recurrent_values: int
    """float32 values of the state of one sequence, over all layers."""

    @property
    def layers(self) -> int:
        return len(self.kv_heads)


def layer_shapes(header: HeaderValues, architecture: str) -> LayerShapes:
    """Raises ModelFileError naming the key that is missing or absurd."""
    layers = header.positive(f"{architecture}.block_count")
    if layers > MAX_LAYERS:
        raise header.damaged(f"{architecture}.block_count is {layers:,}")
    heads = _heads(header, architecture, layers)
    kv_heads = _kv_heads(header, architecture, layers, heads)
    embedding = header.positive(f"{architecture}.embedding_length")
    plain = embedding // heads if heads else 0
    window, window_layers = _window(header, architecture, layers)
    recurrent = layers if architecture in RECURRENT else kv_heads.count(0)
    if architecture in HYBRID and not recurrent:
        recurrent = layers
    return LayerShapes(
        heads=heads,
        kv_heads=kv_heads,
        key_length=_length(header, f"{architecture}.attention.key_length", plain),
        value_length=_length(header, f"{architecture}.attention.value_length", plain),
        window=window,
        window_layers=window_layers,
        recurrent_layers=recurrent if architecture in RECURRENT | HYBRID else 0,
        recurrent_values=_state_values(header, architecture, embedding) * recurrent,
    )


def _heads(header: HeaderValues, architecture: str, layers: int) -> int:
    key = f"{architecture}.attention.head_count"
    values = header.integers(key)
    if architecture in RECURRENT:
        return max(values, default=0)
    if not values or not 0 < max(values) <= MAX_HEADS or min(values) < 0:
        raise header.damaged(f"{key} is missing or absurd")
    if len(values) not in (1, layers):
        raise header.damaged(f"{key} has {len(values):,} entries for {layers:,} layers")
    return max(values)


def _kv_heads(header: HeaderValues, architecture: str, layers: int, heads: int) -> tuple[int, ...]:
    if architecture in RECURRENT:
        return (0,) * layers
    key = f"{architecture}.attention.head_count_kv"
    values = header.integers(key) or header.integers(f"{architecture}.attention.head_count")
    if len(values) not in (1, layers):
        raise header.damaged(f"{key} has {len(values):,} entries for {layers:,} layers")
    if min(values) < 0 or max(values) > heads:
        raise header.damaged(f"{key} is not between 0 and the {heads:,} heads")
    return values * layers if len(values) == 1 else values


def _length(header: HeaderValues, key: str, default: int) -> int:
    value = header.integer(key)
    if value is None:
        return default
    if not 0 < value <= 65_536:
        raise header.damaged(f"{key} is {value:,}")
    return value


def _window(
    header: HeaderValues, architecture: str, layers: int
) -> tuple[int | None, tuple[bool, ...]]:
    window = header.integer(f"{architecture}.attention.sliding_window")
    if architecture == "llama4":
        window = header.integer(f"{architecture}.attention.chunk_size") or 8192
    pattern_key = f"{architecture}.attention.sliding_window_pattern"
    flags = header.flags(pattern_key)
    period = WINDOW_PERIOD.get(architecture)
    if period and not flags and (given := header.value(pattern_key)) is not None:
        period = given if type(given) is int else period
    if not window or window < 0 or not (period or flags):
        return None, (False,) * layers
    if flags:
        return window, tuple(flags[index % len(flags)] for index in range(layers))
    assert period is not None
    return window, tuple(period > 0 and index % period < period - 1 for index in range(layers))


def _state_values(header: HeaderValues, architecture: str, embedding: int) -> int:
    """Values of one recurrent layer's state, by the keys that the header has."""

    def number(name: str) -> int:
        return min(max(header.integer(f"{architecture}.{name}") or 0, 0), 2**31)

    if inner := number("ssm.inner_size"):
        state, groups = number("ssm.state_size"), number("ssm.group_count")
        kept = max(number("ssm.conv_kernel") - 1, 0)
        return kept * (inner + 2 * groups * state) + state * inner
    if cache := number("shortconv.l_cache"):
        return embedding * max(cache - 1, 0)
    if head := number("wkv.head_size"):
        return embedding * (head + 2)
    return 0
