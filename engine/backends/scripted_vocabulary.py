"""A byte-level vocabulary for the scripted backend: id b is byte b; a few control tokens follow."""

from __future__ import annotations

BOS = 256
END = 257
END_OF_TURN = 258
THINK_OPEN = 259
THINK_CLOSE = 260
VOCAB_SIZE = 261


class ScriptedVocabulary:
    """Satisfies `Vocabulary`; with `think_tokens` false the thinking tags are plain text."""

    def __init__(self, think_tokens: bool = True) -> None:
        self.vocab_size = VOCAB_SIZE
        self.end_ids = frozenset({END, END_OF_TURN})
        self.think_open = THINK_OPEN if think_tokens else None
        self.think_close = THINK_CLOSE if think_tokens else None

    def piece(self, token_id: int, /) -> bytes:
        return bytes((token_id,)) if token_id < BOS else b""

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(text.encode())
