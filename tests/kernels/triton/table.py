"""Writes docs/machine-code.md: what each kernel needs and does on each architecture.

    python -m tests.kernels.triton.table > docs/machine-code.md

Nothing is launched: kernels are compiled for the shapes of an 8B model and their machine code read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import triton

from kernels.plane_format import PLANE_FORMATS
from tests.kernels.triton import meta, meta_linear
from tests.kernels.triton.dry_run import ARCHITECTURES, Launch, dry_run
from tests.kernels.triton.machine_code import (
    MATRIX,
    NARROW_LOAD,
    SPILL,
    WIDE_LOAD,
    count,
    machine_code,
)

FILE = Path(__file__).parents[3] / "docs" / "machine-code.md"
LEAST_FP8 = 89
COMMON = ("bf16", "Q8_0", "Q4_K", "Q6_K")
MIXED = ("Q4_K", "Q6_K"), ("Q5_K", "Q6_K")
"""Of q and k, and of v: the files that are named Q4_K_M and Q5_K_M."""
ENDS = (80, 120)
"""Rarer types: the oldest architecture and the newest, each with an assembler of its own."""
HEADER = (
    "kernel", "of", "dims", "sm", "registers", "spills", "in the loop", "shared KiB",
    "16-byte loads", "narrow loads", "matrix instruction",
)  # fmt: skip
INTRODUCTION = """\
# Machine code of the kernels

Compiled by Triton {version} for the shapes of an 8B model (32 query heads, 8 KV heads, 4,096 wide),
read with `cuobjdump`; no device was used. `python -m tests.kernels.triton.table >
docs/machine-code.md` writes this file, and tests compare it with what is compiled: `make check` a
part of it, `make test` all of it.

`spills`: bytes of stack of a thread, and instructions that read or write it; `in the loop`: those
instructions of the largest loop, where they would cost time. `16-byte loads` and
`narrow loads` (1 and 2 bytes, of scales) are instructions of the largest loop, or of the whole
kernel where it has none. Shared memory that a program may have: 163 KiB on sm_80, 99 on sm_89 and
sm_120, 227 on sm_90. Another version of Triton gives registers out differently.
"""


@dataclass(frozen=True, slots=True)
class Case:
    """`run` launches the kernel `kernel`, among others maybe."""

    kernel: str
    of: str
    dims: str
    run: Callable[[], object]
    architectures: tuple[int, ...] = ARCHITECTURES


@dataclass(frozen=True, slots=True)
class Row:
    key: tuple[str, ...]
    """Kernel, what of, dims, architecture."""
    registers: int
    rest: tuple[str, ...]
    """What must be equal: spills, shared memory, loads, matrix instructions."""

    @property
    def cells(self) -> tuple[str, ...]:
        return (*self.key, str(self.registers), *self.rest)


def cases() -> list[Case]:
    return [*_store(), *_attention(), *_linears(), *_rows()]


def core() -> list[Case]:
    """What `make check` compares: kernels that its tests compile anyway."""
    wanted = {
        ("store_qkv_kernel", "q8", "128"), ("decode_attention_kernel", "bf16", "128"),
        ("decode_attention_kernel", "q8", "128"), ("merge_kernel", "q8", "128"),
        ("prefill_attention_kernel", "bf16", "128"), ("packed_linear_kernel", "Q4_K gate, up", ""),
        ("dense_linear_kernel", "bf16 gate, up", ""), ("best_of_piece_kernel", "64 of 151,936", ""),
        ("best_of_row_kernel", "64 of 151,936", ""), ("choose_tokens_kernel", "1 of 64", ""),
    }  # fmt: skip
    return [one for one in cases() if (one.kernel, one.of, one.dims) in wanted]


def row(case: Case, architecture: int) -> Row:
    code = machine_code(_launch(case, architecture).kernel)
    where = code.loop or code.body
    found = [MATRIX.search(one) for one in where]
    matrix = sorted({one[1] for one in found if one})
    rest = (
        str(code.spills),
        str(count(SPILL, code.loop)),
        f"{code.shared / 1024:.0f}",
        str(count(WIDE_LOAD, where)),
        str(count(NARROW_LOAD, where)),
        ", ".join(matrix) or "none",
    )
    return Row((case.kernel, case.of, case.dims, str(architecture)), code.registers, rest)


def rows(wanted: Iterable[Case], architectures: Iterable[int] = ARCHITECTURES) -> list[Row]:
    chosen = tuple(architectures)
    return [row(case, one) for case in wanted for one in case.architectures if one in chosen]


def as_markdown(found: Iterable[Row]) -> str:
    lines = [HEADER, ("---",) * len(HEADER), *(one.cells for one in found)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{INTRODUCTION.format(version=triton.__version__)}\n{table}\n"


def read(text: str) -> dict[tuple[str, ...], Row]:
    """The rows of a file by their keys."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    cells = [tuple(cell.strip() for cell in line) for line in lines[2:]]
    found = (Row(one[:4], int(one[4]), one[5:]) for one in cells)
    return {one.key: one for one in found}


def _launch(case: Case, architecture: int) -> Launch:
    with dry_run(architecture) as launches:
        case.run()
    return next(one for one in launches if one.name == case.kernel)


def _from(kv: str) -> tuple[int, ...]:
    return tuple(one for one in ARCHITECTURES if kv != "fp8" or one >= LEAST_FP8)


def _store() -> Iterable[Case]:
    kinds = ("bf16", 128), ("q8", 128), ("q8", 256), ("fp8", 128), ("k8v4", 128)
    for kv, size in (*kinds, ("q4", 80), ("q4", 96), ("q4", 128)):
        yield _case("store_qkv_kernel", kv, size, meta.store)


def _attention() -> Iterable[Case]:
    for kv in ("bf16", "q8", "fp8", "k8v4", "q4"):
        for size in _sizes(kv):
            yield _case("decode_attention_kernel", kv, size, meta.decode)
    for size in (64, 128, 256):
        yield _case("merge_kernel", "q8", size, meta.decode)
    yield _case("merge_kernel", "k8v4", 128, meta.decode)
    for kv in ("bf16", "q8", "fp8", "k8v4", "q4"):
        for size in _sizes(kv):
            yield _case("prefill_attention_kernel", kv, size, meta.prefill)


def _sizes(kv: str) -> tuple[int, ...]:
    """4-bit K is the only format whose bytes lie otherwise in heads of 80 and 96 dims."""
    return (64, 80, 96, 128, 256) if kv == "q4" else (64, 128, 256)


def _case(kernel: str, kv: str, size: int, run: Callable[[str, int], object]) -> Case:
    return Case(kernel, kv, str(size), lambda: run(kv, size), _from(kv))


def _linears() -> Iterable[Case]:
    for kind in ("bf16", "f16", *PLANE_FORMATS):
        kernel = "packed_linear_kernel" if kind in PLANE_FORMATS else "dense_linear_kernel"
        where = ARCHITECTURES if kind in COMMON else ENDS
        yield Case(kernel, kind, "", partial(meta_linear.down, kind), where)
        if kind != "f16":
            both = partial(meta_linear.normed_gate_up, kind)
            yield Case(kernel, f"{kind} gate, up", "", both, where)
        if kind in COMMON:
            joined = partial(meta_linear.normed_qkv, kind)
            yield Case(kernel, f"{kind} q, k, v", "", joined, ENDS)
    for kinds in MIXED:
        mixed = partial(meta_linear.normed_qkv, *kinds)
        yield Case("mixed_linear_kernel", f"{kinds[0]} q, k; {kinds[1]} v", "", mixed)
    for kind in PLANE_FORMATS:
        run = meta_linear.many_rows(kind)
        yield Case("plane_matrix_kernel", kind, "", run, (90,) if kind not in COMMON else ENDS)


def _rows() -> Iterable[Case]:
    many = meta_linear.many_rows("bf16")
    yield Case("norm_rows_kernel", "bf16", "", many, ENDS)
    yield Case("gated_kernel", "bf16", "", many, ENDS)
    yield Case("embed_kernel", "bf16", "", lambda: meta.embedding("bf16"), ENDS)
    for kind in ("Q4_K", "Q6_K"):
        run = partial(meta.embedding, kind)
        yield Case("plane_matrix_kernel", f"{kind} gathered", "", run, ENDS)
    for kernel in ("best_of_piece_kernel", "best_of_row_kernel"):
        yield Case(kernel, "64 of 151,936", "", meta.candidates, ENDS)
    yield Case("choose_tokens_kernel", "1 of 64", "", meta.choice)


def main() -> None:
    os.environ.setdefault("TRITON_CACHE_DIR", str(FILE.parents[1] / "build" / "triton"))
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    sys.stdout.write(as_markdown(rows(cases())))


if __name__ == "__main__":
    main()
