"""What the rest of the program needs of a tokenizer: text to ids and back, and which ids are
control tokens.

Says nothing about where the vocabulary comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Tokenizer(Protocol):
    """All methods may be called from any thread."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def fingerprint(self) -> str:
        """Equal only for equal vocabularies and settings; ids of one are not ids of another."""
        ...

    @property
    def bos_id(self) -> int | None: ...

    @property
    def eos_id(self) -> int | None:
        """The token that templates call `eos_token`."""
        ...

    @property
    def add_bos(self) -> bool:
        """Whether a prompt begins with BOS even when the template writes none."""
        ...

    @property
    def end_ids(self) -> frozenset[int]:
        """Every id that ends an answer, from all sources."""
        ...

    @property
    def control_tokens(self) -> Mapping[str, int]:
        """Text -> id of the tokens that only the program may produce."""
        ...

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of ordinary text at the beginning of a prompt: never a control token, and no BOS."""
        ...

    def encode_section(self, text: str) -> tuple[int, ...]:
        """As `encode`, for text behind a control token: some tokenizers put a space only before a
        prompt."""
        ...

    def encode_after(self, text: str) -> tuple[int, ...]:
        """As `encode`, for text that follows other text: without the space that some tokenizers put
        first."""
        ...

    def piece(self, token_id: int) -> bytes:
        """The bytes a token adds to a text; control tokens and unknown ids add none."""
        ...

    def token_text(self, token_id: int) -> str:
        """The token as the vocabulary writes it, for showing."""
        ...

    def find(self, text: str) -> int | None:
        """The id of the single token that is exactly this text, control tokens included."""
        ...

    def strips(self, token_id: int) -> tuple[bool, bool]:
        """Whether a control token swallows the white space before and after it."""
        ...
