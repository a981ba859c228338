"""The checks that `make gpu` makes on a device pass for the kernels in the interpreter."""

from __future__ import annotations

import torch

from tests.bench.gpu.rig import Rig
from tests.gpu import op_checks, row_checks

HOPPER = Rig(torch.device("cpu"), interpreted=(9, 0))


def test_store_and_projection_pass() -> None:
    assert op_checks.store(HOPPER, "q8", 64) < 1e-3
    assert op_checks.linear(HOPPER, "bf16", 40, 256) < 1e-4


def test_attention_passes_alone_and_among_others() -> None:
    assert op_checks.attention(HOPPER, "bf16", 64, (40, 1), (40, 65), 4) < op_checks.BF16_ERROR


def test_rows_pass() -> None:
    assert row_checks.choice(HOPPER, 15) == 0.0
    for kind in ("bf16", "Q6_K"):
        assert row_checks.embedding(HOPPER, kind, 40, 256) < 1e-4
