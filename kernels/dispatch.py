"""Which implementation of an op runs: one table, read from the top.

The last entry of an op is plain torch and runs everywhere. A Triton kernel is taken on an NVIDIA
device where its own `can_run` has nothing against the shapes; why it was passed over is told with
the choice. Tests, and a person's setting, may force either by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from subprocess import SubprocessError
from typing import Any

import torch
from torch import Tensor

from kernels.kv_layout import KVLayout
from kernels.linear import Projection, Weight
from kernels.tiles import Capability, splitting_for, tile_for

AUTO, TRITON, REFERENCE = "auto", "triton", "reference"
MODES = (AUTO, TRITON, REFERENCE)
LEAST_CAPABILITY = (8, 0)


class KernelMissing(ValueError):
    """A forced implementation cannot run; says which and why."""


@dataclass(frozen=True, slots=True)
class Heads:
    """What ops over heads depend on. `group`: query heads of a KV head; `rows`: most new tokens of
    a sequence.
    """

    size: int
    group: int
    layout: KVLayout
    rows: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """What a product depends on: rows x [T, K], and the weights that one launch reads. `experts`:
    which matrix of a stack each row of the results goes through.
    """

    x: Tensor
    weights: tuple[Projection, ...]
    norm: Tensor | None = None
    experts: Tensor | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What ops over whole rows depend on: their width, and where they are gathered the table."""

    width: int
    dtype: torch.dtype
    table: Weight | None = None


Facts = Heads | Product | Rows
Op = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """`place`: module and function; imported when it is chosen, as Triton is not everywhere."""

    name: str
    place: str
    why_not: Callable[[Any, Any, Capability], str | None] | None = None
    """Of its module, the facts and the device; None: it always runs."""
    constants: Callable[[Any, Capability | None], Mapping[str, object]] | None = None
    """What the op is called with besides its arguments: its tiles."""
    casts: bool = True
    """Whether `out` may have another dtype than the rows."""


@dataclass(frozen=True, slots=True)
class Choice:
    """`skipped`: entries above the chosen one, each with the reason."""

    name: str
    run: Op
    skipped: tuple[tuple[str, str], ...] = ()
    casts: bool = True

    @property
    def is_kernel(self) -> bool:
        return self.name == TRITON

    @property
    def reason(self) -> str:
        """Why the last entry above it was skipped; empty where there is none."""
        return self.skipped[-1][1] if self.skipped else ""


def _over_heads(module: Any, facts: Heads, capability: Capability) -> str | None:
    found: str | None = module.can_run(facts.size, facts.group, facts.layout, capability)
    return found


def _over_new_rows(module: Any, facts: Heads, capability: Capability) -> str | None:
    place = facts.size, facts.group, facts.layout, capability
    found: str | None = module.can_run(*place, rows=facts.rows)
    return found


def _over_product(module: Any, facts: Product, capability: Capability) -> str | None:
    given = facts.x, *facts.weights
    found: str | None = module.can_run(*given, norm=facts.norm, experts=facts.experts)
    return found


def _over_many_rows(module: Any, facts: Product, capability: Capability) -> str | None:
    found: str | None = module.can_run(facts.x, *facts.weights, experts=facts.experts)
    return found


def _over_rows(module: Any, facts: Rows, capability: Capability) -> str | None:
    found: str | None = module.can_run(facts.width, facts.dtype, facts.table)
    return found


def _splitting(facts: Heads, capability: Capability | None) -> Mapping[str, object]:
    splitting = splitting_for(facts.size, facts.layout.format, facts.rows, capability)
    return {"splitting": splitting, "rows": facts.rows}


def _prefill_tile(facts: Heads, capability: Capability | None) -> Mapping[str, object]:
    tile = tile_for(facts.size, facts.layout.format, capability)
    return {"tile": tile, "rows": facts.rows}


def _turned(facts: Heads, capability: Capability | None) -> Mapping[str, object]:
    """Q comes as the kernels want it, whichever of them stored K."""
    return {"is_turned": True}


TABLE: Mapping[str, tuple[Entry, ...]] = {
    "embedding": (
        Entry(TRITON, "kernels.triton.embedding:embed", _over_rows),
        Entry(REFERENCE, "kernels.embedding:embed"),
    ),
    "norm": (
        Entry(TRITON, "kernels.triton.rms_norm:norm_rows", _over_rows),
        Entry(REFERENCE, "kernels.rms_norm:norm_rows"),
    ),
    "linear": (
        Entry(TRITON, "kernels.triton.linear:fused_linear", _over_product),
        Entry(TRITON, "kernels.triton.matrix_linear:fused_linear", _over_many_rows, casts=False),
        Entry(REFERENCE, "kernels.fused_linear:fused_linear"),
    ),
    "gate_up": (
        Entry(TRITON, "kernels.triton.gate_up:gate_up", _over_product),
        Entry(TRITON, "kernels.triton.matrix_linear:gate_up", _over_many_rows, casts=False),
        Entry(REFERENCE, "kernels.gate_up:gate_up"),
    ),
    "store": (
        Entry(TRITON, "kernels.triton.qkv_store:store_qkv", _over_heads),
        Entry(REFERENCE, "kernels.qkv_store:store_qkv"),
    ),
    "attention": (
        Entry(
            TRITON,
            "kernels.triton.decode_attention:decode_attention",
            _over_new_rows,
            _splitting,
        ),
        Entry(
            TRITON,
            "kernels.triton.prefill_attention:prefill_attention",
            _over_heads,
            _prefill_tile,
        ),
        Entry(REFERENCE, "kernels.attention:paged_attention", constants=_turned),
    ),
    "candidates": (
        Entry(TRITON, "kernels.triton.sampling_candidates:best_candidates", _over_rows),
        Entry(REFERENCE, "kernels.sampling_candidates:best_candidates"),
    ),
    "choice": (
        Entry(TRITON, "kernels.triton.token_choice:choose_tokens", _over_rows),
        Entry(REFERENCE, "kernels.token_choice:choose_tokens"),
    ),
}


def choose(op: str, facts: Facts, capability: Capability | None, forced: str = AUTO) -> Choice:
    """The first entry that can run, or the one of the name `forced`.

    `capability`: of the NVIDIA device; None: there is none, and only an interpreted kernel can be
    forced. Raises KernelMissing for a forced entry that cannot run.
    """
    skipped: list[tuple[str, str]] = []
    for entry in TABLE[op]:
        if forced not in (AUTO, entry.name):
            continue
        reason = _why_not(entry, facts, capability)
        if reason is None:
            run = _bound(entry, facts, capability)
            return Choice(entry.name, run, tuple(skipped), entry.casts)
        skipped.append((entry.name, reason))
    raise KernelMissing(f"{op}: {skipped[-1][1] if skipped else f'there is no {forced}'}")


def plain(op: str) -> Choice:
    """The last entry of an op that takes no constants."""
    entry = TABLE[op][-1]
    return Choice(entry.name, _function(entry))


def _why_not(entry: Entry, facts: Facts, capability: Capability | None) -> str | None:
    if entry.why_not is None:
        return None
    if capability is None:
        return "there is no NVIDIA device"
    if capability < LEAST_CAPABILITY:
        return f"compute capability {capability[0]}.{capability[1]} is too low: 8.0 is needed"
    try:
        module = importlib.import_module(entry.place.partition(":")[0])
    except ImportError as error:
        return f"Triton is not usable here: {error}"
    if torch.cuda.is_available() and (missing := _why_no_launch()):
        return missing
    return entry.why_not(module, facts, capability)


@cache
def _why_no_launch() -> str | None:
    """Why Triton cannot launch although it is there: it builds its launcher when it is first used,
    with a C compiler and Python's headers.
    """
    try:
        importlib.import_module("triton.runtime").driver.active.get_current_target()
    except (RuntimeError, OSError, SubprocessError) as error:
        what = str(error).splitlines()[0][:100] if str(error) else type(error).__name__
        return f"Triton cannot build its launcher, for which it needs gcc and Python.h: {what}"
    return None


def _bound(entry: Entry, facts: Facts, capability: Capability | None) -> Op:
    run = _function(entry)
    return run if entry.constants is None else partial(run, **entry.constants(facts, capability))


def _function(entry: Entry) -> Op:
    module, _, function = entry.place.partition(":")
    run: Op = getattr(importlib.import_module(module), function)
    return run
