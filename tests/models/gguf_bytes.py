"""Writes GGUF files byte by byte, right or wrong, without any code of the reader or of the gguf
package."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def typed(value: Any) -> bytes:
    """Type and value; lists become arrays of strings, int32 or bool."""
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value) if 0 <= value < 2**32 else struct.pack("<Iq", 11, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    kind = 8 if value and isinstance(value[0], str) else 7 if _flags(value) else 5
    body = {
        8: lambda: b"".join(map(text, value)),
        7: lambda: bytes(value),
        5: lambda: struct.pack(f"<{len(value)}i", *value),
    }[kind]()
    return struct.pack("<IIQ", 9, kind, len(value)) + body


def _flags(value: list[Any]) -> bool:
    return bool(value) and isinstance(value[0], bool)


@dataclass
class Tensor:
    name: str | bytes
    shape: tuple[int, ...]
    type: int = 0
    offset: int | None = None
    """None: right behind the one before it."""
    size: int = 0


@dataclass
class GGUFBytes:
    keys: dict[str | bytes, Any] = field(default_factory=dict)
    tensors: list[Tensor] = field(default_factory=list)
    magic: bytes = b"GGUF"
    version: int = 3
    tensor_count: int | None = None
    key_count: int | None = None
    alignment: int = 32
    missing: int = 0
    """Bytes cut off at the end."""
    raw_values: dict[str | bytes, bytes] = field(default_factory=dict)
    """Keys with ready-made type and value."""

    def header(self) -> bytes:
        values = [text(key) + typed(value) for key, value in self.keys.items()]
        values += [text(key) + value for key, value in self.raw_values.items()]
        tensors = self.tensor_count if self.tensor_count is not None else len(self.tensors)
        keys = self.key_count if self.key_count is not None else len(values)
        head = self.magic + struct.pack("<IQQ", self.version, tensors, keys)
        return head + b"".join(values) + b"".join(self._tensor_table())

    def _tensor_table(self) -> list[bytes]:
        rows, end = [], 0
        for tensor in self.tensors:
            offset = tensor.offset if tensor.offset is not None else end
            size = tensor.size or 4 * _product(tensor.shape)
            end = -(-(offset + size) // self.alignment) * self.alignment
            rows.append(
                text(tensor.name)
                + struct.pack("<I", len(tensor.shape))
                + struct.pack(f"<{len(tensor.shape)}Q", *tensor.shape)
                + struct.pack("<IQ", tensor.type, offset)
            )
        return rows

    def data_bytes(self) -> int:
        end = 0
        for tensor in self.tensors:
            size = tensor.size or 4 * _product(tensor.shape)
            end = -(-end // self.alignment) * self.alignment + size
        return end

    def build(self) -> bytes:
        header = self.header()
        header += b"\0" * (-len(header) % self.alignment)
        whole = header + b"\0" * self.data_bytes()
        return whole[: len(whole) - self.missing]

    def write(self, path: Path) -> Path:
        path.write_bytes(self.build())
        return path


def _product(shape: tuple[int, ...]) -> int:
    count = 1
    for dimension in shape:
        count *= dimension
    return count


EMBEDDING, HEADS, KV_HEADS, HEAD, FEED, VOCAB = 64, 4, 2, 32, 96, 40


def tiny_llama(layers: int = 2, architecture: str = "llama", **changes: Any) -> GGUFBytes:
    """Hidden 64, 4 heads of 32 (not 64 / 4), 2 KV heads."""
    a = architecture
    keys: dict[str | bytes, Any] = {
        "general.architecture": architecture,
        "general.name": "tiny",
        f"{a}.block_count": layers,
        f"{a}.context_length": 1024,
        f"{a}.embedding_length": EMBEDDING,
        f"{a}.feed_forward_length": FEED,
        f"{a}.attention.head_count": HEADS,
        f"{a}.attention.head_count_kv": KV_HEADS,
        f"{a}.attention.key_length": HEAD,
        f"{a}.attention.value_length": HEAD,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": [f"t{index}" for index in range(VOCAB)],
        "tokenizer.ggml.token_type": [1] * VOCAB,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
    for key, value in changes.items():
        name = key.replace("__", ".")
        if value is None:
            keys.pop(name, None)
        else:
            keys[name] = value
    tensors = [Tensor("token_embd.weight", (EMBEDDING, VOCAB))]
    for layer in range(layers):
        tensors += [
            Tensor(f"blk.{layer}.{name}.weight", shape)
            for name, shape in {
                "attn_norm": (EMBEDDING,),
                "attn_q": (EMBEDDING, HEADS * HEAD),
                "attn_k": (EMBEDDING, KV_HEADS * HEAD),
                "attn_v": (EMBEDDING, KV_HEADS * HEAD),
                "attn_output": (HEADS * HEAD, EMBEDDING),
                "ffn_norm": (EMBEDDING,),
                "ffn_gate": (EMBEDDING, FEED),
                "ffn_up": (EMBEDDING, FEED),
                "ffn_down": (FEED, EMBEDDING),
            }.items()
        ]
    return GGUFBytes(keys, tensors)
