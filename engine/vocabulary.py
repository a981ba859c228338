"""What the engine needs to know of a vocabulary: how long it is, what ends a turn, which bytes an
id stands for.

It does not encode text; templates and tokenizers lie above, in `models`.
"""

from __future__ import annotations

from typing import Protocol


class Vocabulary(Protocol):
    @property
    def vocab_size(self) -> int: ...

    @property
    def end_ids(self) -> frozenset[int]:
        """Every id that ends a turn: the union of all sources that name one."""
        ...

    @property
    def think_open(self) -> int | None:
        """The token that opens a thinking block; None: the tag is plain text, if there is one."""
        ...

    @property
    def think_close(self) -> int | None: ...

    def piece(self, token_id: int, /) -> bytes:
        """The bytes of a token; empty for control tokens."""
        ...
