"""Attention of new tokens over everything their sequence holds in the paged pool.

out = softmax(f(scale * q k^T) + mask) v, f(s) = cap * tanh(s / cap) where a cap is given. H query
heads share Hkv KV heads, H / Hkv neighbours each. Everything is computed in float32, a sequence at
a time, so that a sequence does not depend on its neighbours.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.hadamard import hadamard
from kernels.kv_pool import KVPool
from kernels.kv_store import read_stored

SCORE_COUNT = 2**22
"""Scores held at a time, 16 MiB: longer prompts are done in chunks of rows."""


def paged_attention(
    q: Tensor,
    pool: KVPool,
    layer: int,
    first_row: Tensor,
    lengths: Tensor,
    table: Tensor,
    scale: float,
    window: int | None = None,
    cap: float | None = None,
    is_turned: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """q [T, H, D]; returns the same shape in q's dtype, zeros for rows of no sequence and of
    empty ones.

    first_row int64 [B + 1], lengths int64 [B]: sequence b holds lengths[b] tokens, and its rows
    first_row[b] .. first_row[b + 1] - 1 are the last of them, their K and V stored before.
    table int64 [B, N]: its blocks. `window`: tokens a token sees, itself included.
    `is_turned`: q comes rotated like the K that is stored, as `qkv_store.py` returns it. Of an
    `out` that is given, rows before the first sequence's are left: another call has filled them.
    """
    turns = pool.layout.format.rotates_k and not is_turned
    borders, counts = first_row.tolist(), lengths.tolist()
    if out is None:
        out = torch.zeros_like(q)
    else:
        out[borders[0] :] = 0
    for b, length in enumerate(counts):
        rows = slice(borders[b], borders[b + 1])
        # A sequence without tokens may have a row that only pads the pass.
        if rows.start < rows.stop and length:
            place = pool, layer, length, table[b]
            out[rows] = _one_sequence(q[rows], *place, scale, window, cap, turns)
    return out


def _one_sequence(
    q: Tensor,
    pool: KVPool,
    layer: int,
    length: int,
    table: Tensor,
    scale: float,
    window: int | None,
    cap: float | None,
    turns: bool,
) -> Tensor:
    kind = pool.layout.format
    count, first = q.shape[0], length - q.shape[0]
    start = _first_seen(first, window)
    k, v = read_stored(pool, layer, table, start, length)
    wide = q.float() * scale
    wide = hadamard(wide) if turns else wide
    step = max(1, SCORE_COUNT // (q.shape[1] * (length - start)))
    found = []
    for row in range(0, count, step):
        stop = min(row + step, count)
        begin, end = _first_seen(first + row, window), first + stop
        seen = slice(begin - start, end - start)
        positions = torch.arange(first + row, end, device=q.device)
        keys = torch.arange(begin, end, device=q.device)
        hidden = _hidden(positions, keys, window)
        found.append(_attend(wide[row:stop], k[:, seen], v[:, seen], hidden, cap))
    out = torch.cat(found)
    return (hadamard(out) if kind.rotates_v else out).to(q.dtype)


def _first_seen(position: int, window: int | None) -> int:
    return 0 if window is None else max(0, position - window + 1)


def _hidden(positions: Tensor, keys: Tensor, window: int | None) -> Tensor:
    """bool [rows, keys]: what a row must not see."""
    distance = positions.unsqueeze(1) - keys
    return distance < 0 if window is None else (distance < 0) | (distance >= window)


def _attend(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor, cap: float | None) -> Tensor:
    """q [R, H, D], k and v [Hkv, L, D], hidden [R, L] -> [R, H, D]."""
    rows, heads, size = q.shape
    # [Hkv, G * R, D]: the heads of a group read its keys in one product.
    grouped = q.transpose(0, 1).reshape(k.shape[0], -1, size)
    scores = grouped @ k.transpose(1, 2)
    if cap is not None:
        scores = cap * torch.tanh(scores / cap)
    scores = scores.view(heads, rows, -1).masked_fill_(hidden, -torch.inf)
    shares = scores.softmax(-1).view(k.shape[0], -1, k.shape[1])
    return (shares @ v).view(heads, rows, size).transpose(0, 1)
