"""What must hold of every op on a device, as functions of a rig and a case; each returns the
relative error that it found, and raises AssertionError beyond what is allowed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.dispatch import Heads, Product
from kernels.gate_up import activate
from kernels.hadamard import hadamard
from kernels.kv_layout import KV_FORMATS
from kernels.kv_pool import KVPool
from kernels.kv_store import load_kv
from kernels.linear import Projection, Weight
from kernels.mixed_planes import MixedPlanes
from kernels.qkv_store import HeadNorms
from kernels.qkv_store import store_qkv as plain_store
from kernels.weight_planes import PlaneWeight
from tests.bench.gpu.rig import Rig
from tests.gpu.ops import exact_attention, moved_planes, moved_pool, op
from tests.kernels import packed_weights
from tests.kernels.pools import poisoned_pool, relative, stored

BF16_ERROR, PACKED_ERROR = 2e-3, 5e-3
ERROR = dict.fromkeys(KV_FORMATS, PACKED_ERROR) | {"bf16": BF16_ERROR, "f16": BF16_ERROR}
KV_HEADS, BLOCK = 2, 64
EPS = 1e-6


def checked(found: Tensor, wanted: Tensor, most: float) -> float:
    found, wanted = found.cpu(), wanted.cpu()
    assert torch.isfinite(found).all()
    error = relative(found, wanted)
    assert error <= most, f"relative error {error:.2e}, allowed {most:.0e}"
    return error


# ---- keys and values


def store(rig: Rig, kv: str, size: int, heads: int = 8) -> float:
    """Norm, rotation, codes and places, and that a padding row writes nothing."""
    made = torch.Generator().manual_seed(0)
    tokens, halves = 7, size // 2
    wide = torch.randn(tokens, heads + 2 * KV_HEADS, size, generator=made).bfloat16()
    q, k, v = wide.split([heads, KV_HEADS, KV_HEADS], 1)
    norm = torch.rand(size, generator=made).bfloat16() + 0.5
    angle = torch.randn(tokens, halves, generator=made)
    slots = torch.tensor([70, -1, 65, 66, 67, 190, 3 * BLOCK])
    plain = poisoned_pool(kv, 5, BLOCK, KV_HEADS, size)
    on_device = moved_pool(rig, plain)

    def arguments(device: torch.device) -> tuple:
        norms = HeadNorms(norm.to(device), norm.to(device), 1e-6)
        turn = angle.cos().to(device), angle.sin().to(device)
        return 1, slots.to(device), None, norms, turn

    wanted = plain_store(q, k, v, plain, *arguments(torch.device("cpu")))
    run = op(rig, "store", Heads(size, heads // KV_HEADS, plain.layout))
    whole = wide.to(rig.device).split([heads, KV_HEADS, KV_HEADS], 1)
    found = run(*whole, on_device, *arguments(rig.device))
    back = KVPool(plain.layout, on_device.data.cpu())
    written = [divmod(slot, BLOCK) for slot in slots.tolist() if slot >= 0]
    for block, offset in written:
        table = torch.tensor([block])
        both = (load_kv(one, 1, table, BLOCK) for one in (back, plain))
        for theirs, ours in zip(*both, strict=True):
            checked(theirs[offset], ours[offset], ERROR[kv])
    assert torch.equal(back.data[0], plain.data[0])
    return checked(found, wanted, BF16_ERROR)


def attention(
    rig: Rig,
    kv: str,
    size: int,
    new: tuple[int, ...],
    lengths: tuple[int, ...],
    heads: int = 8,
    block: int = BLOCK,
) -> float:
    """Against float64 from the same codes; a sequence alone is the same bit for bit."""
    kept = stored(kv, list(lengths), block, KV_HEADS, size)
    pool, layout = moved_pool(rig, kept.pool), kept.pool.layout
    made = torch.Generator().manual_seed(1)
    q = torch.randn(sum(new), heads, size, generator=made).bfloat16()
    run = op(rig, "attention", Heads(size, heads // KV_HEADS, layout, max(new)))
    turned = (hadamard(q.float()) if layout.format.rotates_k else q).bfloat16()
    # What the oracle is given is what the kernel is: rounded after it was turned.
    plain = hadamard(turned.double()) if layout.format.rotates_k else turned.double()
    borders, scale = torch.tensor([0, *new]).cumsum(0), size**-0.5

    def attended(first: int, last: int) -> Tensor:
        """Of these sequences."""
        rows = slice(int(borders[first]), int(borders[last]))
        place = borders[first : last + 1] - borders[first], kept.lengths[first:last]
        tables = kept.tables[first:last]
        given = (one.to(rig.device).contiguous() for one in (*place, tables))
        seen = turned[rows].to(rig.device)
        # In float32: what rounding the result would add is left out.
        out = torch.full(seen.shape, torch.nan, device=rig.device)
        return run(seen, pool, 1, *given, scale, out=out).cpu()

    together = attended(0, len(new))
    wanted = torch.cat(
        [
            exact_attention(
                plain[borders[b] : borders[b + 1]], kept.pool, 1, kept.tables[b], lengths[b], scale
            )
            for b in range(len(new))
        ]
    )
    for b in range(len(new)):
        alone = attended(b, b + 1)
        assert torch.equal(alone, together[borders[b] : borders[b + 1]]), f"sequence {b} differs"
    return checked(together, wanted, ERROR[kv])


# ---- projections


def weight(rig: Rig, kind: str, n: int, k: int) -> tuple[Weight, Tensor]:
    """On the device, and its numbers in float64."""
    torch.manual_seed(2)
    if kind in ("bf16", "f16"):
        dense = (torch.randn(n, k) * k**-0.5).to(getattr(torch, _DTYPES[kind]))
        return dense.to(rig.device), dense.double()
    planes = packed_weights.planes(kind, n, k)
    return moved_planes(rig, planes), planes.dequantize().double()


def projection(rig: Rig, kind: str, n: int, k: int) -> tuple[Projection, Tensor]:
    """`weight`, or of "one and other" half of the rows of each."""
    first, _, second = kind.partition(" and ")
    if not second:
        return weight(rig, kind, n, k)
    (upper, above), (lower, below) = (weight(rig, one, n // 2, k) for one in (first, second))
    assert isinstance(upper, PlaneWeight)
    assert isinstance(lower, PlaneWeight)
    return MixedPlanes(upper, lower), torch.cat((above, below))


_DTYPES = {"bf16": "bfloat16", "f16": "float16"}


def linear(rig: Rig, kind: str, n: int = 320, k: int = 1024) -> float:
    """With norm and residual; a row alone, among 5 and among 16 is the same bit for bit."""
    matrix, exact = projection(rig, kind, n, k)
    dtype = getattr(torch, _DTYPES.get(kind, "bfloat16"))
    x, residual = torch.randn(16, k).to(dtype), torch.randn(16, n).to(dtype)
    norm = None if kind == "f16" else (torch.rand(k) + 0.5).to(dtype)
    seen = x.double() if norm is None else _normed(x, norm)
    wanted = seen @ exact.T + residual.double()

    def projected(rows: slice) -> Tensor:
        """In float32: what rounding the result would add is left out."""
        given, added = x[rows].to(rig.device), residual[rows].to(rig.device)
        folded = None if norm is None else norm.to(rig.device)
        out = torch.full((len(given), n), torch.nan, device=rig.device)
        run = op(rig, "linear", Product(given, (matrix,), folded))
        return run(given, matrix, norm=folded, eps=EPS, residual=added, out=out).cpu()

    whole = projected(slice(0, 16))
    if not rig.has_kernels:
        # Plain torch rounds in between, and does not promise the same for a row alone.
        return checked(whole, wanted, PACKED_ERROR)
    for rows in (slice(3, 4), slice(2, 7)):
        assert torch.equal(projected(rows), whole[rows]), f"rows {rows} differ"
    return checked(whole, wanted, BF16_ERROR)


def gate_up(rig: Rig, kind: str, n: int = 320, k: int = 1024) -> float:
    gate, exact_gate = weight(rig, kind, n, k)
    up, exact_up = weight(rig, kind, n, k)
    x = torch.randn(3, k).bfloat16()
    wanted = activate(x.double() @ exact_gate.T, "silu") * (x.double() @ exact_up.T)
    given = x.to(rig.device)
    run = op(rig, "gate_up", Product(given, (gate, up)))
    return checked(run(given, gate, up, "silu"), wanted, PACKED_ERROR)


def many_rows(rig: Rig, kind: str, n: int = 320, k: int = 1024) -> float:
    matrix, exact = projection(rig, kind, n, k)
    x = torch.randn(70, k).bfloat16()
    run = op(rig, "linear", Product(x.to(rig.device), (matrix,)))
    return checked(run(x.to(rig.device), matrix), x.double() @ exact.T, PACKED_ERROR)


def _normed(x: Tensor, norm: Tensor) -> Tensor:
    """float64, with what goes into the product rounded: x times the norm's weight."""
    rounded = (x.float() * norm.float()).to(x.dtype).double()
    return rounded * torch.rsqrt(x.double().square().mean(-1, keepdim=True) + EPS)
