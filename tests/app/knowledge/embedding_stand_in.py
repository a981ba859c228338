"""`python embedding_stand_in.py MODE`: the embedding process without a model.

A text's vector is its length; modes are ways to misbehave.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from app.knowledge import embedding_child
from app.knowledge.minilm import SIZE


def embed(texts: Sequence[str]) -> Any:
    if texts[0] == "die":
        os._exit(3)
    return np.full((len(texts), SIZE), len(texts[0]), np.float32)


def main(mode: str) -> int:
    reading, writing = sys.stdin.buffer, sys.stdout.buffer
    if mode == "refuses":
        embedding_child._answer(writing, {"error": "other weights \x1b[2J"})
        return 1
    if mode == "ends":
        return 0
    lines: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=embedding_child._read, args=(reading, lines), daemon=True).start()
    embedding_child._answer(writing, {"ready": True})
    embedding_child.serve(embed, lines, writing, 0.5 if mode == "leaves" else 60.0)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
