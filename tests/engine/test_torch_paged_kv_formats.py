"""What each KV format costs on the real models: predictions against unquantized keys and values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.backends.self_test_text import TEXT
from engine.backends.torch_paged.kv_types import kv_format
from engine.backends.torch_paged.self_test import measure_divergence
from models.decoder import Decoder
from models.gguf_config import config_from_gguf
from models.loaders.gguf_weights import load_gguf
from models.loaders.split import read_model
from models.tokenizers.gguf_vocab import GGUFTokenizer
from models.weights import Weights

CPU = torch.device("cpu")
TOKENS = 1100
"""Of the text."""
MOST = {
    "starter_model": {"q8": 0.0004, "fp8": 0.0085, "k8v4": 0.0065},
    "window_model": {"q8": 0.0015, "fp8": 0.012, "k8v4": 0.015},
}
"""Mean Kullback-Leibler divergence from float32 KV in nats: somewhat above the measured ones, to
notice what gets worse. Heads of 256 dims (the window model's) lose more than those of 64.
"""


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def unpacked(part: Any) -> Any:
    """The same weights as float32 tensors, so that no pass has to decode them again."""
    if isinstance(part, tuple):
        return tuple(unpacked(one) for one in part)
    if hasattr(part, "dequantize") and not isinstance(part, torch.Tensor):
        return part.dequantize().float()
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        fields = {one.name: unpacked(getattr(part, one.name)) for one in dataclasses.fields(part)}
        return dataclasses.replace(part, **fields)
    return part


@pytest.mark.model
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("model", MOST)
def test_real_models_bear_every_format_but_q4(model: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(model)
    config = config_from_gguf(read_model(path))
    weights: Weights = unpacked(load_gguf(path, config, CPU, torch.float32))
    tokenizer = GGUFTokenizer(path)
    ids = tokenizer.encode(TEXT)[:TOKENS]
    tokenizer.close()
    assert len(ids) == TOKENS
    plain = kv_format("auto", "float32", None)
    found = measure_divergence(
        Decoder(config, weights), config, [*MOST[model], "q4"], plain, ids, CPU
    )
    assert not found["q4"].passes
    for name, most in MOST[model].items():
        assert found[name].mean <= most, (name, found[name])
        assert found[name].top1 >= 0.93
