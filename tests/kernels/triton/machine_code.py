"""What a compiled kernel needs and does, read from its machine code."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton

SHARED_LIMIT = {80: 163 * 1024, 89: 99 * 1024, 90: 227 * 1024, 120: 99 * 1024}
"""Bytes of shared memory a program may have. The compiler doesn't check it."""
WIDE_LOAD = re.compile(r"LD(G|GSTS)\.E\S*\.128|UTMALDG")
NARROW_LOAD = re.compile(r"LDG\.E\.(U8|S8|U16|S16)")
MATRIX = re.compile(r"\b(HMMA|HGMMA|IMMA|IGMMA|QGMMA|QMMA|UTCHMMA)\b")
SPILL = re.compile(r"\b(LDL|STL)\b")
INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(.*?);", re.MULTILINE)
BRANCH = re.compile(r"\bBRA(?:\.\S+)?\s.*?0x([0-9a-f]+)")


@dataclass(frozen=True)
class MachineCode:
    """`loop`: instructions of the largest loop, empty where there is none."""

    registers: int
    stack: int
    """Bytes a thread keeps outside of its registers: a spill."""
    shared: int
    threads: int
    body: tuple[str, ...]
    loop: tuple[str, ...]

    @property
    def spills(self) -> int:
        return self.stack + count(SPILL, self.body)


def machine_code(kernel: Any) -> MachineCode:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(kernel.asm["cubin"])
        usage = _dump("--dump-resource-usage", file)
        listing = INSTRUCTION.findall(_dump("-sass", file))
    body = [(int(address, 16), text) for address, text in listing]
    numbers = {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", usage)}
    return MachineCode(
        registers=numbers["REG"],
        stack=numbers["STACK"] + numbers["LOCAL"],
        shared=kernel.metadata.shared,
        threads=kernel.metadata.num_warps * 32,
        body=tuple(text for _, text in body),
        loop=_loop(body),
    )


def count(pattern: re.Pattern[str], instructions: tuple[str, ...]) -> int:
    return sum(bool(pattern.search(one)) for one in instructions)


def _dump(what: str, file: Path) -> str:
    tool = triton.knobs.nvidia.cuobjdump.path
    done = subprocess.run([tool, what, str(file)], capture_output=True, text=True, check=True)
    return done.stdout


def _loop(body: list[tuple[int, str]]) -> tuple[str, ...]:
    largest: tuple[str, ...] = ()
    for address, text in body:
        found = BRANCH.search(text)
        # A branch to itself ends every kernel.
        if found is None or int(found[1], 16) >= address:
            continue
        start = int(found[1], 16)
        inside = tuple(one for at, one in body if start <= at <= address)
        largest = max(largest, inside, key=len)
    return largest
