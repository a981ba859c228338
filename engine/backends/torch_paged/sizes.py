"""How many blocks each KV group gets of a memory budget. Arithmetic only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.backends.torch_paged.held import Span
from engine.backends.torch_paged.settings import PagedSettings
from engine.errors import OutOfMemory

# Blocks beyond those that tokens lie in: the sentinel, and a shared block that is copied.
_EXTRA = 2
# Restore points of a sequence for which a window's pool is made; more are kept while there is room.
_MARKS = 2
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Demand:
    """Blocks of one group."""

    least: int
    """Without which one sequence of full length cannot be computed."""
    most: int
    """More than all sequences together can use."""


def demand(span: Span, settings: PagedSettings) -> Demand:
    whole = span.end(settings.ctx)
    if span.window is None:
        return Demand(whole + _EXTRA, settings.max_sequences * (whole + 1) + _EXTRA)
    # A run of tokens may begin and end inside a block.
    rows = span.end(settings.max_rows) + 1
    live = span.end(span.window + settings.spare) + 1
    marks = _MARKS * (span.end(span.window) + 1)
    one = min(whole, live + rows)
    return Demand(
        one + _EXTRA,
        max(one, settings.max_sequences * min(whole + 1, live + marks) + rows) + _EXTRA,
    )


def block_counts(
    spans: Sequence[Span], record_bytes: Sequence[int], settings: PagedSettings
) -> tuple[int, ...]:
    """Blocks of each group, as far as the budget goes: at least what one sequence needs, the rest
    in proportion to what all could use. Raises OutOfMemory.
    """
    demands = [demand(span, settings) for span in spans]
    least = sum(one.least * size for one, size in zip(demands, record_bytes, strict=True))
    most = sum(one.most * size for one, size in zip(demands, record_bytes, strict=True))
    if least > settings.pool_bytes:
        raise OutOfMemory(
            f"There is no memory for a context of {settings.ctx} tokens.",
            f"Its keys and values take {-(-least // _MIB)} MiB; "
            f"{settings.pool_bytes // _MIB} MiB are free for them.",
            "Set a smaller ctx, or a kv_type that takes less, such as q8.",
        )
    share = min(1.0, (settings.pool_bytes - least) / (most - least))
    return tuple(one.least + int(share * (one.most - one.least)) for one in demands)
