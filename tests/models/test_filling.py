"""A load that cannot go on ends in an error that a person can read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from models.errors import LocalchatError, ModelFileError, OutOfMemory
from models.hf_names import Piece
from models.loaders.filling import fill, ignore_progress
from models.loaders.steps import Source, Step
from models.parameters import Slot
from models.weights import Matrix
from tests.models.hf_models import FAMILIES, hf_model, our_decoder

STEP = Step(Source("x.weight", (2,), 8, Path("x.gguf")), (Piece(Slot(None, "norm")),))


def failing(error: Exception) -> str:
    """The words when the second of two tensors cannot be read."""
    config = our_decoder(hf_model(FAMILIES["llama"])).config
    reads = iter((None, error))

    def read(step: Step) -> Iterator[tuple[Piece, Matrix]]:
        if (found := next(reads)) is not None:
            raise found
        yield step.pieces[0], torch.zeros(2)

    with pytest.raises(LocalchatError) as caught:
        fill((STEP, STEP), read, config, ignore_progress)
    assert isinstance(caught.value, OutOfMemory if "fit" in caught.value.title else ModelFileError)
    return str(caught.value)


def test_a_full_device_is_named_with_figures() -> None:
    words = failing(torch.OutOfMemoryError("CUDA out of memory"))
    assert "full after 8 bytes of 16 bytes" in words


def test_a_full_machine_is_told_from_other_errors() -> None:
    """torch really runs out of memory here: no system has 2 to the 60 bytes."""
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert "do not fit" in failing(caught.value)
    assert "do not fit" in failing(MemoryError())
    with pytest.raises(RuntimeError, match="a fault of the program"):
        failing(RuntimeError("a fault of the program"))


def test_a_disk_that_fails_is_named() -> None:
    words = failing(OSError(5, "Input/output error"))
    assert "x.gguf cannot be read" in words
    assert "x.weight the system says: Input/output error" in words
