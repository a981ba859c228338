"""The ops of a decoder with the implementation that each of them runs.

What is chosen follows from the device, the shapes and the setting (`kernels/dispatch.py`); here it
is looked up once and remembered. Knows no layer.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from kernels.dispatch import (
    AUTO,
    MODES,
    REFERENCE,
    Choice,
    Facts,
    Heads,
    KernelMissing,
    Product,
    Rows,
    choose,
    plain,
)
from kernels.gate_up import Activation
from kernels.kv_pool import KVPool
from kernels.linear import Projection, Weight

__all__ = ["KernelMissing", "KernelSettings", "Mode", "Norm", "Ops"]

Mode = Literal["auto", "triton", "reference"]


@dataclass(frozen=True, slots=True)
class KernelSettings:
    """`capability`: of the NVIDIA device; None: there is none. `mode`: which kernels are wanted.

    Raises ValueError for an unknown mode.
    """

    capability: tuple[int, int] | None = None
    mode: str = AUTO

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"kernels cannot be {self.mode!r}: {', '.join(MODES)} are known")

    @staticmethod
    def of(device: torch.device, mode: str = AUTO) -> KernelSettings:
        is_gpu = device.type == "cuda"
        return KernelSettings(torch.cuda.get_device_capability(device) if is_gpu else None, mode)


@dataclass(frozen=True, slots=True)
class Norm:
    """A root mean square norm as `rms_norm` takes it."""

    weight: Tensor
    eps: float
    offset: float


class Ops:
    """Raises kernels.dispatch.KernelMissing where a forced implementation cannot run."""

    def __init__(self, settings: KernelSettings, device: torch.device) -> None:
        self.settings = settings
        self._device = device
        self._choices: dict[Hashable, Choice] = {}
        self._is_plain = settings.mode == REFERENCE or settings.capability is None
        self._products = {op: plain(op) for op in ("linear", "gate_up")}
        self._layouts: list[object] = []
        self._works: list[Any] = []
        self._rooms: list[Tensor] = []

    def forget(self) -> None:
        """What was chosen, as weights are known by their ids and some of them are gone."""
        self._choices.clear()

    def settle(self) -> None:
        """Give back rooms that later ones have outgrown; nothing may have been recorded in them."""
        self.forget()
        self._works, self._rooms = self._works[-1:], self._rooms[-1:]

    def embed(
        self,
        tokens: Tensor,
        table: Weight,
        scale: float,
        dtype: torch.dtype,
        out: Tensor | None,
        chosen: Tensor | None = None,
    ) -> Tensor:
        """As `kernels/embedding.py`."""
        run = self._rows("embedding", table.shape[-1], dtype, table)
        found: Tensor = run(tokens, table, scale, dtype, out=out, chosen=chosen)
        return found

    def norm(
        self,
        x: Tensor,
        norm: Norm,
        *,
        rows: Tensor | None = None,
        residual: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """As `norm_rows` of `kernels/rms_norm.py`."""
        run = self._rows("norm", x.shape[-1], x.dtype)
        found: Tensor = run(
            x, norm.weight, norm.eps, norm.offset, rows=rows, residual=residual, out=out
        )
        return found

    def linear(
        self,
        x: Tensor,
        weight: Projection,
        bias: Tensor | None = None,
        *,
        norm: Norm | None = None,
        residual: Tensor | None = None,
        experts: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """As `kernels/fused_linear.py`; a norm that cannot be folded is taken before."""
        x, choice, folded = self._product("linear", x, (weight,), norm, experts)
        given: dict[str, Any] = {"residual": residual, **_folded(folded)}
        if experts is not None:
            given["experts"] = experts
        if out is not None and out.dtype != x.dtype and not choice.casts:
            return out.copy_(choice.run(x, weight, bias, **given))
        found: Tensor = choice.run(x, weight, bias, **given, out=out)
        return found

    def linears(
        self, x: Tensor, weights: Sequence[Projection], norm: Norm, outs: Sequence[Tensor | None]
    ) -> list[Tensor]:
        """The same rows through several weights. The norm is taken once where one of them cannot
        fold it.
        """
        seen, folded = x, norm if self._folds(x, weights, norm) else None
        if folded is None:
            seen = self.norm(x, norm)
        pairs = zip(weights, outs, strict=True)
        return [self.linear(seen, weight, norm=folded, out=out) for weight, out in pairs]

    def gate_up(
        self,
        x: Tensor,
        gate: Weight,
        up: Weight,
        activation: Activation,
        *,
        norm: Norm | None = None,
        experts: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """As `kernels/gate_up.py`; a norm that cannot be folded is taken before."""
        x, choice, folded = self._product("gate_up", x, (gate, up), norm, experts)
        given = _folded(folded) if experts is None else {"experts": experts, **_folded(folded)}
        found: Tensor = choice.run(x, gate, up, activation, **given, out=out)
        return found

    @property
    def splits_passes(self) -> bool:
        """Whether parts of a pass are attended by kernels of their own."""
        return self.settings.capability is not None

    def has_kernel(self, op: str, facts: Product) -> bool:
        """Whether a product runs in a kernel as it stands."""
        try:
            return self._chosen(op, facts, _key(op, facts)).is_kernel
        except KernelMissing:
            return False

    def why_missing(self, op: str, facts: Facts) -> str | None:
        """Why plain torch runs an op although there is a device for kernels; None: it does not."""
        choice = choose(op, facts, self.settings.capability, self.settings.mode)
        has_device = self.settings.capability is not None
        return choice.reason or None if has_device and not choice.is_kernel else None

    def store(self, heads: int, pool: KVPool) -> Callable[..., Tensor]:
        """`store_qkv` for `heads` query heads over a pool."""
        return self.heads("store", heads, pool, 1).run

    def heads(self, op: str, heads: int, pool: KVPool, rows: int) -> Choice:
        """Of `store` or `attention`. `rows`: the most new tokens of a sequence."""
        key = op, heads, id(pool.layout), rows
        found = self._choices.get(key)
        if found is None:
            # Known by its id from now on, which must stay its own.
            self._layouts.append(pool.layout)
            found = self._chosen(op, self.head_facts(heads, pool, rows), key)
        return found

    @staticmethod
    def head_facts(heads: int, pool: KVPool, rows: int) -> Heads:
        layout = pool.layout
        return Heads(layout.head_size, heads // layout.kv_heads, layout, rows)

    def attend(
        self, q: Tensor, pool: KVPool, rows: int, out: Tensor, *place: Any, **how: Any
    ) -> None:
        """`paged_attention` of q [T, H, D] as `store` returned it, into `out`; `place` and `how`
        are its arguments. `rows`: the most new tokens of a sequence.
        """
        choice = self.heads("attention", q.shape[1], pool, rows)
        splitting = getattr(choice.run, "keywords", {}).get("splitting")
        if splitting is not None:
            how["partial"] = self._partial(q, splitting.count)
        choice.run(q, pool, *place, **how, out=out)

    def candidates(self, vocab_size: int) -> Choice:
        facts = Rows(vocab_size, torch.float32)
        return self._chosen("candidates", facts, ("candidates", vocab_size))

    def token_choice(self, candidates: int) -> Choice:
        return self._chosen("choice", Rows(candidates, torch.float64), ("choice", candidates))

    def _rows(
        self, op: str, width: int, dtype: torch.dtype, table: Weight | None = None
    ) -> Callable[..., Any]:
        key = op, width, dtype, None if table is None else id(table)
        found = self._choices.get(key) or self._chosen(op, Rows(width, dtype, table), key)
        return found.run

    def _folds(self, x: Tensor, weights: Sequence[Projection], norm: Norm) -> bool:
        if self._is_plain:
            return False
        return all(self.has_kernel("linear", Product(x, (one,), norm.weight)) for one in weights)

    def _product(
        self,
        op: str,
        x: Tensor,
        weights: tuple[Projection, ...],
        norm: Norm | None,
        experts: Tensor | None,
    ) -> tuple[Tensor, Choice, Norm | None]:
        """What to run, on which rows, and the norm that is left for it to fold."""
        if self._is_plain:
            seen = x if norm is None else self.norm(x, norm)
            return seen, self._products[op], None
        if norm is not None:
            facts = Product(x, weights, norm.weight, experts)
            if self.has_kernel(op, facts):
                return x, self._chosen(op, facts, _key(op, facts)), norm
            x = self.norm(x, norm)
        facts = Product(x, weights, None, experts)
        return x, self._chosen(op, facts, _key(op, facts)), None

    def _chosen(self, op: str, facts: Facts, key: Hashable) -> Choice:
        found = self._choices.get(key)
        if found is None:
            found = self._choices[key] = self._choose(op, facts)
        return found

    def _choose(self, op: str, facts: Facts) -> Choice:
        capability, mode = self.settings.capability, self.settings.mode
        found = choose(op, facts, capability, mode)
        if not found.is_kernel:
            return found
        if isinstance(facts, Product):
            return replace(found, run=partial(found.run, work=self._work_of(facts)))
        return found

    def _partial(self, q: Tensor, count: int) -> object:
        """Room for the shares' results. A larger one replaces it, but it stays: a recorded pass
        writes to the places it was recorded with.
        """
        tokens, heads, size = q.shape
        shares = tokens * heads * count
        wanted = shares * (size + 1)
        if not self._rooms or self._rooms[-1].numel() < wanted:
            self._rooms.append(torch.empty(wanted, dtype=torch.float32, device=self._device))
        room = self._rooms[-1]
        splits = importlib.import_module("kernels.triton.splits")
        out = room[: shares * size].view(tokens, heads, count, size)
        weight = room[shares * size : wanted].view(tokens, heads, count)
        return splits.Partial(out, weight)

    def _work_of(self, facts: Product) -> object:
        """Room of a product with up to the next power of two of rows; products run one after the
        other and share it.
        """
        few = importlib.import_module("kernels.triton.linear")
        many = importlib.import_module("kernels.triton.matrix_linear")
        work = importlib.import_module("kernels.triton.work")
        wanted = few.room_bytes()
        if facts.x.shape[0] > few.MOST_ROWS and facts.experts is None:
            rows = 1 << (facts.x.shape[0] - 1).bit_length()
            is_packed = not all(isinstance(one, Tensor) for one in facts.weights)
            shape = facts.weights[0].shape
            wanted = max(wanted, many.room_bytes(rows, *shape, len(facts.weights) > 1, is_packed))
        if not self._works or self._works[-1].room.numel() < wanted:
            self._works.append(work.work_for(wanted, self._device))
        return self._works[-1]


def _folded(norm: Norm | None) -> dict[str, Any]:
    if norm is None:
        return {}
    return {"norm": norm.weight, "eps": norm.eps, "norm_offset": norm.offset}


def _key(op: str, facts: Product) -> Hashable:
    """Numbers of rows count by powers of two, as the kernels' limits do. The decoder holds its
    weights, so that their ids stay theirs.
    """
    weights = tuple(id(one) for one in facts.weights)
    rows = (facts.x.shape[0] - 1).bit_length()
    return op, rows, weights, facts.norm is None, facts.experts is None
