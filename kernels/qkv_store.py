"""Between the projections and attention: bias, head norm, RoPE, then K and V into the pool.

Plain torch, the oracle of `triton/qkv_store.py`. Q comes back as attention there wants it: rotated
like the K that is stored (`kv_layout.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from kernels.hadamard import hadamard
from kernels.kv_pool import KVPool
from kernels.kv_store import store_kv
from kernels.rms_norm import rms_norm
from kernels.rope import apply_rope


@dataclass(frozen=True, slots=True)
class Biases:
    """q [H * D], k and v [Hkv * D]."""

    q: Tensor
    k: Tensor
    v: Tensor


@dataclass(frozen=True, slots=True)
class HeadNorms:
    """Weights [D] of the norms of each head of q and of k, as `rms_norm` takes them."""

    q: Tensor
    k: Tensor
    eps: float
    offset: float = 0.0


def store_qkv(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pool: KVPool,
    layer: int,
    slots: Tensor,
    biases: Biases | None = None,
    norms: HeadNorms | None = None,
    angles: tuple[Tensor, Tensor] | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """q [T, H, D], k and v [T, Hkv, D]; returns q's shape and dtype. float32 inside.

    slots int64 [T] as in `store_kv`; `angles`: cosines and sines [T, R / 2].
    """
    wide_q, wide_k, wide_v = q.float(), k.float(), v.float()
    if biases is not None:
        wide_q = wide_q + biases.q.float().view(q.shape[1:])
        wide_k = wide_k + biases.k.float().view(k.shape[1:])
        wide_v = wide_v + biases.v.float().view(v.shape[1:])
    if norms is not None:
        wide_q = rms_norm(wide_q, norms.q, norms.eps, norms.offset)
        wide_k = rms_norm(wide_k, norms.k, norms.eps, norms.offset)
    if angles is not None:
        wide_q, wide_k = apply_rope(wide_q, *angles), apply_rope(wide_k, *angles)
    store_kv(pool, layer, wide_k, wide_v, slots)
    turned = (hadamard(wide_q) if pool.layout.format.rotates_k else wide_q).to(q.dtype)
    return turned if out is None else out.copy_(turned)
