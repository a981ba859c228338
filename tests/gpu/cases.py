"""Every check with its cases, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from engine.backends.torch_paged.pass_kinds import PassKind
from kernels.plane_format import PLANE_FORMATS
from tests.bench.gpu.rig import Rig
from tests.gpu import batch_checks, op_checks, pass_checks, row_checks

Check = Callable[[Rig], float]
KV = ("bf16", "q8", "fp8", "k8v4", "q4")
SIZES = (64, 128, 256)
LONG = (1, 63, 700, 2500)
"""Tokens of sequences: within a tile, at a border, over several shares."""
MODELS = (("bf16", "bf16"), ("bf16", "q8"), ("Q4_K", "q8"))


def sizes(kv: str) -> tuple[int, ...]:
    """Of heads. Bytes of a 4-bit K lie otherwise where those are no power of two."""
    return (*SIZES, 80, 96) if kv == "q4" else SIZES


def store() -> dict[str, Check]:
    return {
        f"store {kv} {size}": partial(op_checks.store, kv=kv, size=size)
        for kv in (*KV, "f16", "k8")
        for size in sizes(kv)
    }


def decode() -> dict[str, Check]:
    found: dict[str, Check] = {}
    for kv in KV:
        for size in sizes(kv):
            case = partial(op_checks.attention, kv=kv, size=size, lengths=LONG)
            found[f"decode {kv} {size}"] = partial(case, new=(1, 1, 1, 1))
    for kv in ("bf16", "q8"):
        case = partial(op_checks.attention, kv=kv, size=128)
        found[f"drafts {kv}"] = partial(case, new=(1, 5, 4), lengths=(7, 130, 900))
        found[f"decode {kv} of 3 heads a group"] = partial(
            case, new=(1, 1), lengths=(33, 500), heads=6
        )
    found["decode q8 of a long sequence"] = partial(
        op_checks.attention, kv="q8", size=128, new=(1, 1), lengths=(40_000, 9)
    )
    return found


def prefill() -> dict[str, Check]:
    return {
        f"prefill {kv} {size}": partial(
            op_checks.attention, kv=kv, size=size, new=(70, 1, 130), lengths=(70, 65, 700)
        )
        for kv in KV
        for size in sizes(kv)
    }


MIXED = "Q4_K and Q6_K"
"""As files named Q4_K_M have them in q, k and v."""


def linears() -> dict[str, Check]:
    found: dict[str, Check] = {}
    for kind in ("bf16", "f16", *PLANE_FORMATS, MIXED):
        found[f"linear {kind}"] = partial(op_checks.linear, kind=kind)
    for kind in ("bf16", "Q4_K", "Q8_0", "MXFP4"):
        found[f"gate and up {kind}"] = partial(op_checks.gate_up, kind=kind)
    for kind in ("bf16", *PLANE_FORMATS, MIXED):
        found[f"many rows {kind}"] = partial(op_checks.many_rows, kind=kind)
    return found


def rows() -> dict[str, Check]:
    found: dict[str, Check] = {"candidates": row_checks.candidates, "choice": row_checks.choice}
    for kind in ("bf16", "Q4_K", "Q6_K", "Q8_0"):
        found[f"embedding {kind}"] = partial(row_checks.embedding, kind=kind)
    return found


def passes() -> dict[str, Check]:
    found: dict[str, Check] = {}
    for weights, kv in MODELS:
        found[f"model {weights} {kv}"] = partial(pass_checks.model, weights=weights, kv=kv)
        found[f"replayed {weights} {kv}"] = partial(pass_checks.replayed, weights=weights, kv=kv)
    return found


def batches() -> dict[str, Check]:
    """Up to 16 rows run in kernels that see no neighbours; beyond, the vendor's product may not
    be the same for another number of rows.
    """
    shapes = {
        "batch of 4": (PassKind(4, 1, 4), (1, 1, 1, 1), True),
        "batch of 3 in 4": (PassKind(4, 1, 4), (1, 1, 1), True),
        "batch of 8": (PassKind(8, 1, 8), (1,) * 8, True),
        "drafts of one": (PassKind(1, 8, 8), (8,), True),
        "drafts of two": (PassKind(2, 4, 8), (4, 4), True),
        "fewer drafts in a larger pass": (PassKind(2, 8, 16), (5, 2), False),
        "drafts beside an answer": (PassKind(4, 4, 16), (4, 1, 3), False),
        "the most drafts": (PassKind(8, 8, 64), (8,) * 8, False),
    }
    found: dict[str, Check] = {}
    for weights, kv in MODELS:
        place = {"weights": weights, "kv": kv}
        for name, (kind, new, is_exact) in shapes.items():
            check = partial(batch_checks.together, kind=kind, new=new, is_exact=is_exact)
            found[f"{name} {weights} {kv}"] = partial(check, **place)
        found[f"followed {weights} {kv}"] = partial(batch_checks.followed, **place)
    return found


GROUPS = {
    "store": store, "decode": decode, "prefill": prefill, "linears": linears, "rows": rows,
    "passes": passes, "batches": batches,
}  # fmt: skip
"""Each is a file of tests that can run in a process of its own."""
