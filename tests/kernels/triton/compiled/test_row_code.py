"""Machine code of norms, gathers and the choice of candidates: nothing spills, and it fits."""

from __future__ import annotations

import pytest
import torch

from kernels.triton.embedding import embed
from kernels.triton.rms_norm import norm_rows
from kernels.triton.sampling_candidates import best_candidates
from tests.kernels.triton.dry_run import ARCHITECTURES, dry_run
from tests.kernels.triton.machine_code import (
    MOST_SPILLS,
    SHARED_LIMIT,
    WIDE_LOAD,
    count,
    machine_code,
)
from tests.kernels.triton.meta import integers, tensor

VOCAB = 151_936


ROWS = [
    pytest.param(
        architecture, width, marks=() if (architecture, width) == (90, 4096) else pytest.mark.model
    )
    for architecture in ARCHITECTURES
    for width in (1024, 4096)
]
"""One of them each time, the others with the real models."""


@pytest.mark.parametrize(("architecture", "width"), ROWS)
def test_rows(architecture: int, width: int) -> None:
    with dry_run(architecture) as launches:
        x, weight = tensor(8, width), tensor(width)
        norm_rows(x, weight, 1e-6, rows=integers(8), residual=x)
        embed(integers(8), tensor(VOCAB, width), 1.0, torch.bfloat16)
    assert len(launches) == 2
    for one in launches:
        code = machine_code(one.kernel)
        assert code.spills <= MOST_SPILLS
        assert code.shared <= SHARED_LIMIT[architecture]
        assert count(WIDE_LOAD, code.body) >= 1


@pytest.mark.model
@pytest.mark.parametrize("architecture", [80])
def test_candidates(architecture: int) -> None:
    """For the architecture with the fewest registers to spare: compiling it takes long."""
    with dry_run(architecture) as launches:
        best_candidates(tensor(8, VOCAB, dtype=torch.float32), VOCAB, 64)
    assert [one.name for one in launches] == ["best_of_piece_kernel", "best_of_row_kernel"]
    for one in launches:
        code = machine_code(one.kernel)
        assert code.spills <= MOST_SPILLS
        assert code.shared <= SHARED_LIMIT[architecture]
