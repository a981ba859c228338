"""Machine code of the projections: nothing spills, weights come in 16 bytes, tensor cores multiply.

Every type of weight on every architecture takes minutes: those that cover most files are tried each
time, the others with the real models.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import Tensor

from kernels.plane_format import PLANE_FORMATS
from tests.kernels.triton import meta_linear
from tests.kernels.triton.dry_run import ARCHITECTURES, Launch, dry_run
from tests.kernels.triton.machine_code import (
    MATRIX,
    NARROW_LOAD,
    SHARED_LIMIT,
    WIDE_LOAD,
    MachineCode,
    count,
    machine_code,
)
from tests.kernels.triton.meta_model import NoNewMemory
from tests.kernels.triton.table import MIXED

ARCHITECTURE = 90
COMMON = ["bf16", "Q4_K", "Q6_K", "Q8_0"]
KINDS = [
    (kind, architecture)
    for kind in ("bf16", "f16", *PLANE_FORMATS)
    for architecture in ARCHITECTURES
    if kind in COMMON or architecture in (80, 120)
]
"""Of the rarer ones the oldest architecture and the newest: each has an assembler of its own."""
CODE_BITS = {name: one.low + one.high // 2 * 2 for name, one in PLANE_FORMATS.items()}
"""But those of planes of 1 bit, whose tile is 8 bytes for each thread."""
MOST_INSTRUCTIONS = {
    "bf16": 2.0, "Q4_K": 5.0, "Q8_0": 6.0, "Q6_K": 7.5, "Q5_K": 6.8, "Q4_0": 4.2, "IQ4_XS": 5.0,
}  # fmt: skip
"""Times threads, of the loop for one weight: a tenth above what was found, and more is a loss."""


def compiled(op: Callable[[], Tensor], architecture: int) -> list[Launch]:
    with dry_run(architecture) as launches:
        op()
    return launches


def checked(launch: Launch, architecture: int) -> MachineCode:
    code = machine_code(launch.kernel)
    assert code.spills == 0
    assert code.shared <= SHARED_LIMIT[architecture]
    return code


def check_product(launch: Launch, architecture: int, kind: str, matrices: int) -> None:
    code = checked(launch, architecture)
    constants = launch.kernel.src.constants
    names = launch.kernel.src.fn.arg_names
    tile = matrices * constants[(names.index("BN"),)] * constants[(names.index("BK"),)]
    assert count(MATRIX, code.loop) > 0
    assert count(NARROW_LOAD, code.loop) == 0
    bits = CODE_BITS.get(kind, 16)
    assert count(WIDE_LOAD, code.loop) >= tile * bits // 8 // 16 // code.threads
    if matrices == 1 and kind in MOST_INSTRUCTIONS:
        assert len(code.loop) * code.threads / tile <= MOST_INSTRUCTIONS[kind]


@pytest.mark.parametrize(
    "architecture", [80, 90, *(pytest.param(one, marks=pytest.mark.model) for one in (89, 120))]
)
def test_the_kernels_of_most_files(architecture: int) -> None:
    """Two weights at once behind a norm is what takes most registers."""
    for kind in ("Q4_K", "bf16") if architecture in (80, 120) else ("Q4_K",):
        (launch,) = compiled(lambda kind=kind: meta_linear.normed_gate_up(kind), architecture)
        check_product(launch, architecture, kind, 2)


@pytest.mark.model
@pytest.mark.parametrize(("kind", "architecture"), KINDS)
def test_every_kind_of_weight(kind: str, architecture: int) -> None:
    (launch,) = compiled(lambda: meta_linear.down(kind), architecture)
    check_product(launch, architecture, kind, 1)
    if kind != "f16":
        (launch,) = compiled(lambda: meta_linear.normed_gate_up(kind), architecture)
        check_product(launch, architecture, kind, 2)
        (launch,) = compiled(lambda: meta_linear.normed_qkv(kind), architecture)
        checked(launch, architecture)


@pytest.mark.model
@pytest.mark.parametrize("kinds", [*MIXED, ("Q3_K", "Q5_K"), ("Q4_K", "Q8_0")])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_two_kinds_at_once(kinds: tuple[str, str], architecture: int) -> None:
    """The loops of both need no more than that of one."""
    (launch,) = compiled(lambda: meta_linear.normed_qkv(*kinds), architecture)
    assert launch.name == "mixed_linear_kernel"
    assert count(MATRIX, checked(launch, architecture).loop) > 0


@pytest.mark.model
@pytest.mark.parametrize("kind", PLANE_FORMATS)
def test_many_rows(kind: str) -> None:
    """The norm, two matrices decoded, and what gates them: nothing is allocated."""
    op = meta_linear.many_rows(kind)
    with dry_run(ARCHITECTURE) as launches, NoNewMemory() as memory:
        op()
    assert memory.found == []
    names = [one.name for one in launches]
    assert names == ["norm_rows_kernel", *2 * ["plane_matrix_kernel"], "gated_kernel"]
    for one in launches:
        checked(one, ARCHITECTURE)


@pytest.mark.model
@pytest.mark.parametrize("kind", ["bf16", "Q4_K", "MXFP4"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_experts(kind: str, architecture: int) -> None:
    (launch,) = compiled(lambda: meta_linear.expert_down(kind), architecture)
    check_product(launch, architecture, kind, 1)


def test_numbers_of_rows_share_a_variant_and_nothing_is_allocated() -> None:
    """Up to 8 rows are one kernel; with room given, no call makes a tensor."""
    kind, tokens = "bf16", (1, 2, 5, 8)
    x = {n: meta_linear.rows(kind, n, 4096) for n in tokens}
    out = {n: meta_linear.rows(kind, n, 1024) for n in tokens}
    matrix, room = meta_linear.weight(kind, 1024, 4096), meta_linear.work(2**24)
    with dry_run(ARCHITECTURE) as launches, NoNewMemory() as memory:
        for n in tokens:
            meta_linear.fused_linear(x[n], matrix, out=out[n], work=room)
    assert memory.found == []
    assert len({one.variant for one in launches}) == 1
    assert [one.name for one in launches] == ["dense_linear_kernel"] * len(tokens)
