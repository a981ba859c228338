"""A decoder that computes nonsense is found right after loading, by the name of its file."""

from __future__ import annotations

import pytest
import torch

from models.decoder import Decoder
from models.errors import ModelFileError
from models.probe import check_finite
from tests.models.hf_models import FAMILIES, hf_model, our_decoder


def made(name: str, dtype: torch.dtype = torch.float32) -> Decoder:
    return our_decoder(hf_model(FAMILIES[name]).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["llama", "gemma3", "mixtral"])
def test_a_sound_model_passes(name: str, dtype: torch.dtype) -> None:
    check_finite(made(name, dtype), "x.gguf")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_single_bad_number_is_found(value: float) -> None:
    decoder = made("llama")
    up = decoder.weights.layers[2].up
    assert isinstance(up, torch.Tensor)
    up[5, 7] = value
    with pytest.raises(ModelFileError) as caught:
        check_finite(decoder, "x.gguf")
    assert "x.gguf computes nonsense" in str(caught.value)
    assert "float32" in str(caught.value)


def test_numbers_too_large_for_their_type_are_found() -> None:
    decoder = made("llama", torch.float16)
    down = decoder.weights.layers[0].down
    assert isinstance(down, torch.Tensor)
    down.fill_(60_000)
    with pytest.raises(ModelFileError, match="float16"):
        check_finite(decoder, "folder")
