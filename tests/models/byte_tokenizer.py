"""A tokenizer for tests: one id a byte, control tokens behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

CONTROLS = ("<|im_start|>", "<|im_end|>", "<s>", "</s>", "<think>", "</think>")


class ByteTokenizer:
    fingerprint = "bytes"

    def __init__(self, controls: Sequence[str] = CONTROLS, add_bos: bool = False) -> None:
        self.control_tokens: Mapping[str, int] = {c: 256 + i for i, c in enumerate(controls)}
        self._texts = {token_id: text for text, token_id in self.control_tokens.items()}
        self.vocab_size = 256 + len(controls)
        self.bos_id: int | None = self.control_tokens.get("<s>")
        self.eos_id: int | None = self.control_tokens.get("</s>")
        self.add_bos = add_bos
        self.end_ids = frozenset(
            self.control_tokens[text] for text in ("<|im_end|>", "</s>") if text in controls
        )

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(text.encode("utf-8", "replace"))

    def encode_section(self, text: str) -> tuple[int, ...]:
        return self.encode(text)

    def encode_after(self, text: str) -> tuple[int, ...]:
        return self.encode(text)

    def piece(self, token_id: int) -> bytes:
        return bytes([token_id]) if 0 <= token_id < 256 else b""

    def token_text(self, token_id: int) -> str:
        return self._texts.get(token_id) or self.piece(token_id).decode("utf-8", "replace")

    def find(self, text: str) -> int | None:
        return self.control_tokens.get(text)

    def strips(self, token_id: int) -> tuple[bool, bool]:
        return False, False
