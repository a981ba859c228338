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
LEAST_TOKENS = 1500
"""The whole text has about 1,570 in both models."""
MODELS = ("starter_model", "window_model")
"""Heads of 64 dims and of 256."""
MOST = {"q8": 0.001, "fp8": 0.006, "k8v4": 0.008}
"""Mean Kullback-Leibler divergence from float32 KV in nats."""


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
@pytest.mark.parametrize("model", MODELS)
def test_real_models_bear_every_format_but_q4(model: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(model)
    config = config_from_gguf(read_model(path))
    weights: Weights = unpacked(load_gguf(path, config, CPU, torch.float32))
    tokenizer = GGUFTokenizer(path)
    ids = tokenizer.encode(TEXT)
    tokenizer.close()
    assert len(ids) > LEAST_TOKENS
    plain = kv_format("auto", "float32", None)
    found = measure_divergence(Decoder(config, weights), config, [*MOST, "q4"], plain, ids, CPU)
    assert not found["q4"].passes
    for name, most in MOST.items():
        assert found[name].mean <= most, (name, found[name])
        assert found[name].top1 >= 0.93
