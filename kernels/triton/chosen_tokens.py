"""Tokens that an earlier launch chose, where ids are read: negative ones tell which."""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def known_tokens(token, p_chosen, m):
    """int64 ids, of which t < 0 stands for chosen[-1 - t]; `m`: which of them are looked at."""
    is_chosen = (token < 0) & m
    return tl.where(is_chosen, tl.load(p_chosen + (-1 - token), mask=is_chosen, other=0), token)
