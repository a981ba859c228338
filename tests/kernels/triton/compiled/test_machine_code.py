"""Machine code of every kernel: nothing spills, it fits, hot loops load 16 bytes at once.

A kernel of every kind is tried each time, for the oldest architecture or for Hopper; every size for
every architecture with the real models.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.kernels.triton import meta
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

SCALE_LOADS = {"bf16": 0, "q8": 8, "fp8": 8, "k8v4": 24, "q4": 24}
"""Narrow loads a thread and tile of decode: of scales and zeros, which lie two bytes each. Of 256
dims, four times as many: parts of 64 are scaled each.
"""
KEYS_SCALES = {"bf16": 0, "k8": 18, "q8": 36, "fp8": 36, "k8v4": 68, "q4": 66}
"""The same of prefill, where each warp needs all keys of a tile: 16 a thread for each of them."""
KV_BITS = {"bf16": 32, "q8": 16, "fp8": 16, "k8v4": 12, "q4": 8}
"""Of a number of K and one of V."""
K4_ROW_OF_40_BYTES = ("q4", 80)
"""Its K comes in pieces of 8 bytes: every second row begins between two of 16."""
LEAST_FP8 = 89
HOPPER = 90
RARE = pytest.mark.model
WARP_GROUP_MATRIX = re.compile(r"\bHGMMA\b")


def cases(*kinds: tuple[str, int], often: dict[int, set[tuple[str, int]]]) -> list[Any]:
    """(architecture, format, head size); fp8 exists from 8.9 on. `often`: those of an architecture
    that are tried each time.
    """
    return [
        pytest.param(architecture, *kind, marks=() if kind in often.get(architecture, ()) else RARE)
        for architecture in ARCHITECTURES
        for kind in kinds
        if kind[0] != "fp8" or architecture >= LEAST_FP8
    ]


def checked(launch: Launch, architecture: int) -> MachineCode:
    """What holds for every kernel."""
    code = machine_code(launch.kernel)
    assert code.spills == 0
    assert code.shared <= SHARED_LIMIT[architecture]
    return code


@pytest.mark.parametrize(
    ("architecture", "name", "size"),
    cases(
        ("bf16", 128), ("q8", 128), ("q8", 256), ("fp8", 128), ("k8v4", 128), ("q4", 128),
        ("q4", 80), ("q4", 96),
        often={80: {("q8", 128)}, HOPPER: {("q8", 128), ("k8v4", 128)}},
    ),
)  # fmt: skip
def test_store(architecture: int, name: str, size: int) -> None:
    with dry_run(architecture) as launches:
        meta.store(name, size)
    (launch,) = launches
    code = checked(launch, architecture)
    assert count(WIDE_LOAD, code.body) >= 4


@pytest.mark.parametrize(
    ("architecture", "name", "size"),
    cases(
        ("bf16", 64), ("q8", 64), ("bf16", 128), ("q8", 128), ("fp8", 128), ("k8v4", 128),
        ("q4", 128), ("bf16", 256), ("q8", 256), ("fp8", 256), ("k8v4", 256), ("q4", 256),
        ("q4", 80), ("q4", 96),
        often={
            80: {("bf16", 128), ("q8", 128)},
            HOPPER: {("bf16", 128), ("q8", 128), ("q4", 128), ("q4", 80)},
        },
    ),
)  # fmt: skip
def test_decode(architecture: int, name: str, size: int) -> None:
    with dry_run(architecture) as launches:
        meta.decode(name, size)
    attention, merge = launches
    checked(merge, architecture)
    code = checked(attention, architecture)
    assert count(MATRIX, code.loop) > 0
    assert count(NARROW_LOAD, code.loop) <= SCALE_LOADS[name] * (size // 64 if size > 128 else 1)
    # Every byte of the K and V tiles comes through 16-byte loads.
    tile = attention.kernel.src.constants[tile_index(attention)]
    bits = KV_BITS[name] // 2 if (name, size) == K4_ROW_OF_40_BYTES else KV_BITS[name]
    expected = tile * size * bits // 8 // 16 // code.threads
    assert count(WIDE_LOAD, code.loop) >= expected


@pytest.mark.parametrize(
    ("architecture", "name", "size"),
    cases(
        ("bf16", 64), ("k8v4", 64), ("q4", 64), ("bf16", 128), ("q8", 128), ("k8v4", 128),
        ("q4", 128), ("bf16", 256), ("q8", 256), ("fp8", 256), ("k8v4", 256), ("q4", 256),
        ("q4", 80), ("q4", 96), ("bf16", 80), ("k8", 96), ("q8", 80), ("q8", 96), ("fp8", 96),
        often={
            80: {("bf16", 128), ("q8", 256)},
            HOPPER: {("bf16", 128), ("q4", 128)},
        },
    ),
)  # fmt: skip
def test_prefill(architecture: int, name: str, size: int) -> None:
    with dry_run(architecture) as launches:
        meta.prefill(name, size)
    (launch,) = launches
    code = checked(launch, architecture)
    assert count(MATRIX, code.loop) > 0
    assert count(NARROW_LOAD, code.loop) <= KEYS_SCALES[name]
    assert count(WIDE_LOAD, code.loop) > 0
    # Warp groups multiply from shared memory.
    assert (count(WARP_GROUP_MATRIX, code.loop) > 0) == (architecture == HOPPER)


@RARE
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("size", [128, 256])
@pytest.mark.parametrize("name", ["bf16", "q8", "k8v4", "q4"])
def test_windows_and_caps_leave_registers(architecture: int, name: str, size: int) -> None:
    """Wide heads have them, and take most registers by themselves."""
    with dry_run(architecture) as launches:
        meta.prefill(name, size, window=512, cap=50.0)
    checked(launches[0], architecture)


@RARE
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("name", "size"), [("k8v4", 64), ("q8", 128), ("q4", 128), ("q8", 256)])
def test_windows_leave_registers_for_decoding(architecture: int, name: str, size: int) -> None:
    with dry_run(architecture) as launches:
        meta.decode(name, size, window=512)
    for launch in launches:
        checked(launch, architecture)


def tile_index(launch: Launch) -> tuple[int]:
    return (launch.kernel.src.fn.arg_names.index("TILE"),)
