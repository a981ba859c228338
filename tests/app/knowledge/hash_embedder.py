"""An embedder for tests: the vector of a text is chance that repeats itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np


class HashEmbedder:
    """Equal texts have equal vectors, all others are far apart. Remembers what it is given."""

    speaks_cjk = True

    def __init__(self, fingerprint: str = "hash-1", size: int = 16) -> None:
        self.fingerprint = fingerprint
        self.size = size
        self.texts: list[str] = []

    def embed_passages(self, texts: Sequence[str], is_wanted: Any = None) -> Any:
        self.texts += texts
        return np.stack([self.embed_query(text) for text in texts])

    def wait(self, is_wanted: Callable[[], bool]) -> bool:
        return is_wanted()

    def embed_query(self, text: str) -> Any:
        seed = int.from_bytes(blake2b(f"{self.fingerprint} {text}".encode()).digest()[:8], "big")
        vector = np.random.default_rng(seed).standard_normal(self.size).astype(np.float32)
        return vector / np.linalg.norm(vector)
