"""What an op launches: how many kernels, and no new variant of them in service.

Meta tensors have no values: an op that read one, and so waited for the device, would raise.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from tests.kernels.triton import meta
from tests.kernels.triton.dry_run import dry_run
from tests.kernels.triton.machine_code import SPILL, machine_code

ARCHITECTURE = 90


@triton.jit
def toy_kernel(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for start in tl.range(0, n, N):
        total += tl.load(x + start + i)
    tl.store(y + i, total)


def names(op: Callable[[], Tensor]) -> list[str]:
    with dry_run(ARCHITECTURE) as launches:
        op()
    return [one.name for one in launches]


def variants(*ops: Callable[[], Tensor]) -> int:
    with dry_run(ARCHITECTURE) as launches:
        for op in ops:
            op()
    return len({(one.name, one.variant) for one in launches})


def test_storing_is_one_launch() -> None:
    assert names(lambda: meta.store("q8", 128)) == ["store_qkv_kernel"]


def test_decode_is_two_launches() -> None:
    assert names(lambda: meta.decode("q8", 128)) == ["decode_attention_kernel", "merge_kernel"]


def test_prefill_is_one_launch() -> None:
    assert names(lambda: meta.prefill("bf16", 128)) == ["prefill_attention_kernel"]


def test_numbers_of_tokens_share_a_variant() -> None:
    assert variants(*(lambda n=n: meta.store("q8", 128, n) for n in (1, 5, 16, 17, 512))) == 1
    assert variants(*(lambda n=n: meta.decode("q8", 128, n) for n in (1, 5, 16, 17))) == 2
    assert variants(*(lambda n=n: meta.prefill("bf16", 128, n) for n in (5, 16, 512))) == 1


def test_a_dry_run_lists_grid_and_variant() -> None:
    def run(n: int) -> None:
        x, y = meta.tensor(n, dtype=torch.float32), meta.tensor(64, dtype=torch.float32)
        toy_kernel[(3,)](x, y, n, N=64, num_warps=1)

    with dry_run(ARCHITECTURE) as launches:
        for n in (64, 128, 65):
            run(n)
    assert [one.grid for one in launches] == [(3,)] * 3
    assert launches[0].variant == launches[1].variant != launches[2].variant
    code = machine_code(launches[0].kernel)
    assert code.loop
    assert len(code.loop) < len(code.body)
    assert code.threads == 32
    assert code.spills == 0


def test_a_host_sync_raises() -> None:
    with pytest.raises(RuntimeError), dry_run(ARCHITECTURE):
        meta.integers(1).item()


@pytest.mark.parametrize("text", ["LDL R1, [R2]", "STL.64 [R1], R2"])
def test_a_spill_is_recognized(text: str) -> None:
    assert SPILL.search(text)
