"""Machine code of norms, gathers and the choice of candidates and tokens: nothing spills, and it
fits.
"""

from __future__ import annotations

import pytest
import torch

from kernels.triton.embedding import embed
from kernels.triton.rms_norm import norm_rows
from kernels.triton.token_choice import choose_tokens
from tests.kernels.triton import meta
from tests.kernels.triton.dry_run import ARCHITECTURES, Launch, dry_run
from tests.kernels.triton.machine_code import (
    SHARED_LIMIT,
    WIDE_LOAD,
    count,
    machine_code,
)
from tests.kernels.triton.meta import CANDIDATES, VOCAB, integers, tensor
from tests.kernels.triton.meta_model import NoNewMemory

ROWS = [
    pytest.param(
        architecture, width, marks=() if (architecture, width) == (90, 4096) else pytest.mark.model
    )
    for architecture in ARCHITECTURES
    for width in (1024, 4096)
]
"""One of them each time, the others with the real models."""


FEWEST_REGISTERS = [
    pytest.param(architecture, marks=() if architecture == 80 else pytest.mark.model)
    for architecture in ARCHITECTURES
]
"""To spare on the oldest architecture: the others with the real models."""


def check(launch: Launch, architecture: int) -> int:
    """Its loads of 16 bytes."""
    code = machine_code(launch.kernel)
    assert code.spills == 0
    assert code.shared <= SHARED_LIMIT[architecture]
    return count(WIDE_LOAD, code.body)


@pytest.mark.parametrize(("architecture", "width"), ROWS)
def test_rows(architecture: int, width: int) -> None:
    with dry_run(architecture) as launches:
        x, weight = tensor(8, width), tensor(width)
        norm_rows(x, weight, 1e-6, rows=integers(8), residual=x)
        table = tensor(VOCAB, width)
        embed(integers(8), table, 1.0, torch.bfloat16)
        embed(integers(8), table, 1.0, torch.bfloat16, chosen=integers(8))
    assert len(launches) == 3
    assert all(check(one, architecture) >= 1 for one in launches)


@pytest.mark.parametrize("architecture", FEWEST_REGISTERS)
def test_packed_rows(architecture: int) -> None:
    with dry_run(architecture) as launches:
        for kind in ("Q4_K", "Q6_K"):
            meta.embedding(kind)
    assert [one.name for one in launches] == ["plane_matrix_kernel"] * 2
    for one in launches:
        check(one, architecture)


@pytest.mark.parametrize("architecture", FEWEST_REGISTERS)
def test_candidates(architecture: int) -> None:
    with dry_run(architecture) as launches:
        meta.candidates()
    assert [one.name for one in launches] == ["best_of_piece_kernel", "best_of_row_kernel"]
    for one in launches:
        check(one, architecture)


@pytest.mark.parametrize("architecture", FEWEST_REGISTERS)
def test_the_choice_of_a_token(architecture: int) -> None:
    packed, rules = integers(8, CANDIDATES + 1), tensor(8, 5, dtype=torch.float64)
    room = integers(8)
    with dry_run(architecture) as launches, NoNewMemory() as memory:
        choose_tokens(packed, rules, out=room)
    (launch,) = launches
    check(launch, architecture)
    assert not memory.found
