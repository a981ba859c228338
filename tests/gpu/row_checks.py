"""What must hold of ops over whole rows on a device, as in `op_checks.py`."""

from __future__ import annotations

import torch

from kernels.dispatch import Rows
from tests.bench.gpu.rig import Rig
from tests.gpu.op_checks import BF16_ERROR, checked, weight
from tests.gpu.ops import op
from tests.kernels import candidate_rows
from tests.kernels.choice_rows import drawn, equals

COUNT = 64
"""Candidates of a row."""


def embedding(rig: Rig, kind: str, n: int = 320, k: int = 1024) -> float:
    """Of tokens that are known, and of some that the device chose, among numbers that no table
    has.
    """
    table, exact = weight(rig, kind, n, k)
    tokens, chosen = torch.tensor([n - 1, -3, 0, -1, 7, 7]), torch.tensor([5, 2**40, n - 2])
    wanted = 3 * exact[[n - 1, n - 2, 0, 5, 7, 7]].bfloat16()
    out = torch.full(wanted.shape, torch.nan, dtype=torch.bfloat16, device=rig.device)
    run = op(rig, "embedding", Rows(k, torch.bfloat16, table))
    given = tokens.to(rig.device), table, 3.0, torch.bfloat16
    return checked(run(*given, out=out, chosen=chosen.to(rig.device)), wanted, BF16_ERROR)


def candidates(rig: Rig, size: int = 20_000) -> float:
    """Against a sort in Python; what pads the rows is no number."""
    rows = [candidate_rows.row_of(kind, size, 1) for kind in candidate_rows.KINDS]
    logits = torch.cat([torch.stack(rows), torch.full((len(rows), 48), torch.nan)], 1)
    run = op(rig, "candidates", Rows(size, torch.float32))
    candidate_rows.check(run(logits.to(rig.device), size, COUNT).cpu(), rows, COUNT)
    return 0.0


def choice(rig: Rig, rows: int = 501) -> float:
    """Against a walk in Python, into room that held something else."""
    for case in (drawn(0, rows, 90, COUNT), drawn(1, rows, 41, 5), equals()):
        count = case.packed.shape[1] - 1
        run = op(rig, "choice", Rows(count, torch.float64))
        out = torch.full((len(case.packed),), -1, device=rig.device)
        found = run(case.packed.to(rig.device), case.rules.to(rig.device), out=out)
        assert torch.equal(found.cpu(), case.wanted)
    return 0.0
