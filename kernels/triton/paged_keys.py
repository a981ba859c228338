"""Attention of a tile of rows over a range of a sequence's keys, read from the paged pool.

Scores, softmax and sums are float32; products are taken in fp16 for K in fp16, in bf16 for others.
Scales never touch a K or V tile: that of K multiplies the column of scores, that of V the column of
weights. V in 8 bits lies transposed in its block (`kv_layout.py`): the second product needs
neighbouring tokens in one register.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,assignment"
# mypy: disallow-untyped-calls=False
# Triton joins tuples, which then have other types, and doesn't unpack them. mypy's list has no room.
# ruff: noqa: RUF005, E501

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
UNSEEN = tl.constexpr(-1e30)
"""Score of a key that a row doesn't see. Infinity would make NaN of a tile that is unseen as a
whole.
"""


@triton.jit
def seen_scores(
    scores, key, position, cap, WINDOW: tl.constexpr, HAS_CAP: tl.constexpr
):  # fmt: skip
    """Scores [ROWS, TILE] capped, as powers of two, those of keys that a row doesn't see UNSEEN."""
    if HAS_CAP:
        # cap * tanh(scores / cap)
        scores = cap * (1.0 - 2.0 / (tl.exp2(scores * (2.0 * LOG2_E / cap)) + 1.0))
    seen = key[None, :] <= position[:, None]
    if WINDOW > 0:
        seen = seen & (key[None, :] > position[:, None] - WINDOW)
    return tl.where(seen, scores * LOG2_E, UNSEEN)


@triton.jit
def weighted(scores, best, total):
    """Weights of a tile's keys, the share of earlier ones that is kept, best scores and totals."""
    new_best = tl.maximum(best, tl.max(scores, 1))
    weight = tl.exp2(scores - new_best[:, None])
    kept = tl.exp2(best - new_best)
    return weight, kept, new_best, total * kept + tl.sum(weight, 1)


@triton.jit
def loaded(p, m, IS_WHOLE: tl.constexpr):
    """A tile; `m` masks the dims that pad a head to a power of two."""
    if IS_WHOLE:
        return tl.load(p)
    else:
        return tl.load(p, mask=m, other=0.0)


@triton.jit
def scales(p, m_key):
    """float32; free tokens may have NaN."""
    return tl.load(p, mask=m_key, other=0.0).to(tl.float32)


@triton.jit
def loaded_parts(
    p_rows, m_row, DTYPE: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr,
    PARTS: tl.constexpr,
):  # fmt: skip
    """Rows at `p_rows` [ROWS, 1], their dims in PARTS tiles [ROWS, WIDTH]."""
    d = tl.arange(0, WIDTH)[None, :]
    parts = (tl.load(p_rows + d, mask=m_row & (d < SIZE), other=0.0).to(DTYPE),)
    for i in tl.static_range(1, PARTS):
        parts = parts + (tl.load(p_rows + i * WIDTH + d, mask=m_row, other=0.0).to(DTYPE),)
    return parts


@triton.jit
def store_parts(p_rows, parts, m_row, SIZE: tl.constexpr, PARTS: tl.constexpr):
    """Inverse of `loaded_parts`."""
    WIDTH: tl.constexpr = parts[0].shape[1]
    d = tl.arange(0, WIDTH)[None, :]
    for i in tl.static_range(PARTS):
        numbers = parts[i].to(p_rows.dtype.element_ty)
        tl.store(p_rows + i * WIDTH + d, numbers, mask=m_row & (i * WIDTH + d < SIZE))


@triton.jit
def zero_parts(ROWS: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr):
    parts = (tl.zeros((ROWS, WIDTH), tl.float32),)
    for _ in tl.static_range(1, PARTS):
        parts = parts + (tl.zeros((ROWS, WIDTH), tl.float32),)
    return parts


@triton.jit
def _product(
    q, p_keys, p_scale, row, m_key, scale, FIRST: tl.constexpr, SIZE: tl.constexpr
):  # fmt: skip
    d = FIRST + tl.arange(0, q.shape[1])
    k = loaded(p_keys[:, None] + d[None, :], (d < SIZE)[None, :], FIRST + q.shape[1] <= SIZE)
    scores = tl.dot(q, tl.trans(k.to(q.dtype)))
    if p_scale is None:
        return scores * scale
    else:
        return scores * (scales(p_scale + row, m_key) * scale)[None, :]


@triton.jit
def products(
    q, p_keys, p_scale, row, m_key, scale,
    SIZE: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Scores of q, parts [ROWS, WIDTH], with keys at `p_keys` [TILE], whose first scales lie at
    `row`.
    """
    scores = _product(q[0], p_keys, p_scale, row, m_key, scale, 0, SIZE)
    for i in tl.static_range(1, PARTS):
        first = i * q[0].shape[1]
        scores += _product(q[i], p_keys, p_scale, row + i * BLOCK, m_key, scale, first, SIZE)
    return scores


@triton.jit
def _added(
    out, weight, p_rows, p_columns, p_scale, row, m_key,
    DTYPE: tl.constexpr, FIRST: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr,
    V_KIND: tl.constexpr,
):  # fmt: skip
    """out [ROWS, WIDTH] and the weighted dims of V from FIRST on. `p_rows` [TILE]: tokens' first
    numbers; `p_columns`: the same where V lies transposed.
    """
    d = FIRST + tl.arange(0, out.shape[1])
    m_dim = d < SIZE
    if p_scale is None:
        p_values = p_rows[:, None] + d[None, :]
        v = tl.load(p_values, mask=m_key[:, None] & m_dim[None, :], other=0.0)
        return tl.dot(weight.to(v.dtype), v, out)
    else:
        p_values = p_columns[None, :] + d[:, None] * BLOCK
        v = loaded(p_values, m_dim[:, None], FIRST + out.shape[1] <= SIZE).to(DTYPE)
        if V_KIND == "fp8":
            # Free bytes may be NaN, which no weight of 0 makes harmless.
            v = tl.where(m_key[None, :], v, 0.0)
        weight = weight * scales(p_scale + row, m_key)[None, :]
        return tl.dot(weight.to(DTYPE), tl.trans(v), out)


@triton.jit
def _sums(
    out, kept, weight, p_values, at, p_scale, row, m_key,
    DTYPE: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr,
    V_KIND: tl.constexpr,
):  # fmt: skip
    """Parts of out, `kept` of each row, and the weighted V of tokens `at` of blocks `p_values`."""
    p_rows, p_columns = p_values + at * SIZE, p_values + at
    sums = (_added(out[0] * kept[:, None], weight, p_rows, p_columns, p_scale, row, m_key,
                   DTYPE, 0, SIZE, BLOCK, V_KIND),)  # fmt: skip
    for i in tl.static_range(1, PARTS):
        first = i * out[0].shape[1]
        sums = sums + (_added(out[i] * kept[:, None], weight, p_rows, p_columns,
                              p_scale, row + i * BLOCK, m_key,
                              DTYPE, first, SIZE, BLOCK, V_KIND),)  # fmt: skip
    return sums


@triton.jit
def means(out, total, PARTS: tl.constexpr):
    """Parts of sums over their rows' totals."""
    found = (out[0] / total[:, None],)
    for i in tl.static_range(1, PARTS):
        found = found + (out[i] / total[:, None],)
    return found


@triton.jit
def attend_keys(
    q, position, low, start, end, length, i_kv,
    p_k, p_v, p_k_scale, p_v_scale, p_table,
    k_step, v_step, k_scale_step, v_scale_step, scale, cap,
    ROWS: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr,
    BLOCK: tl.constexpr, WINDOW: tl.constexpr, HAS_CAP: tl.constexpr, V_KIND: tl.constexpr,
    TILE: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """q, PARTS tiles [ROWS, WIDTH] in the dtype of products, rows at `position`, over keys
    start .. end - 1.

    Each part of the dims has scales of its own. Keys before `low` are seen by no row and may be
    gone. `p_table`: the sequence's blocks; steps are elements between blocks. Returns log2 of the
    sums of weights, and the weighted means of V, in parts.
    """
    p_k += i_kv * (BLOCK * SIZE)
    p_v += i_kv * (BLOCK * SIZE)
    best = tl.full((ROWS,), UNSEEN, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    out = zero_parts(ROWS, WIDTH, PARTS)
    for start_of_tile in tl.range(start, end, TILE, num_stages=STAGES):
        key = start_of_tile + tl.arange(0, TILE)
        m_key = (key >= low) & (key < length)
        # The bound is put on block numbers: one on keys would cost the wide loads.
        block = tl.load(p_table + tl.minimum(key // BLOCK, (length - 1) // BLOCK)).to(tl.int64)
        at = key % BLOCK
        row = i_kv * (BLOCK * PARTS) + at
        scores = products(q, p_k + block * k_step + at * SIZE, p_k_scale,
                          block * k_scale_step + row, m_key, scale, SIZE, PARTS, BLOCK)  # fmt: skip
        scores = seen_scores(scores, key, position, cap, WINDOW, HAS_CAP)
        weight, kept, best, total = weighted(scores, best, total)
        out = _sums(out, kept, weight, p_v + block * v_step, at, p_v_scale,
                    block * v_scale_step + row, m_key,
                    q[0].dtype, SIZE, PARTS, BLOCK, V_KIND)  # fmt: skip
    return best + tl.log2(total), means(out, total, PARTS)
