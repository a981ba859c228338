"""Which KV types a device takes, and how a memory budget is shared out. No model is needed."""

from __future__ import annotations

import pytest

from engine.backends.torch_paged.held import Span
from engine.backends.torch_paged.kv_types import KV_TYPES, kv_format
from engine.backends.torch_paged.planning import kernel_compute
from engine.backends.torch_paged.settings import PagedSettings
from engine.backends.torch_paged.sizes import block_counts, demand
from engine.errors import OutOfMemory, UsageError
from tests.engine.tiny_decoders import tiny_config

TURING, AMPERE, ADA, HOPPER = (7, 5), (8, 0), (8, 9), (9, 0)


@pytest.mark.parametrize(
    ("dtype", "capability", "expected"),
    [
        ("bfloat16", HOPPER, "bf16"),
        ("float16", AMPERE, "bf16"),
        ("float32", AMPERE, "bf16"),
        ("float16", TURING, "f16"),
        ("float32", None, "f32"),
        ("bfloat16", None, "bf16"),
        ("float16", None, "f16"),
    ],
)
def test_auto_is_never_a_quantized_type(
    dtype: str, capability: tuple[int, int] | None, expected: str
) -> None:
    assert kv_format("auto", dtype, capability) == expected


@pytest.mark.parametrize("name", KV_TYPES[1:])
def test_a_named_type_is_used_where_the_device_can(name: str) -> None:
    assert kv_format(name, "bfloat16", ADA) == name
    assert kv_format(name, "float32", None) == name
    if name not in ("fp8", "bf16"):
        assert kv_format(name, "float16", TURING) == name


def test_a_type_that_the_device_cannot_take_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"fp8.*8\.9.*8\.0.*q8"):
        kv_format("fp8", "bfloat16", AMPERE)
    with pytest.raises(UsageError, match=r"bf16.*8\.0.*7\.5.*f16"):
        kv_format("bf16", "float16", TURING)
    with pytest.raises(UsageError, match=r"q9.*Did you mean q8"):
        kv_format("q9", "bfloat16", HOPPER)
    with pytest.raises(UsageError, match="f32"):
        kv_format("f32", "float32", HOPPER)


def settings(ctx: int, pool_bytes: int) -> PagedSettings:
    return PagedSettings(ctx, pool_bytes, 1000, max_rows=512)


@pytest.mark.parametrize("windows", [(None,), (None, 512), (4096,), (None, 4096, 128)])
@pytest.mark.parametrize("ctx", [512, 4096, 100_000])
def test_every_group_gets_between_what_one_needs_and_what_all_can_use(
    windows: tuple[int | None, ...], ctx: int
) -> None:
    spans = [Span(window, 64) for window in windows]
    sizes = [1000 * (1 + place) for place in range(len(spans))]
    wanted = [demand(span, settings(ctx, 0)) for span in spans]
    least = sum(one.least * size for one, size in zip(wanted, sizes, strict=True))
    most = sum(one.most * size for one, size in zip(wanted, sizes, strict=True))
    for budget in (least, least + 1, (least + most) // 2, most, 10 * most):
        counts = block_counts(spans, sizes, settings(ctx, budget))
        total = sum(count * size for count, size in zip(counts, sizes, strict=True))
        assert least <= total <= min(budget, most)
        assert total + sum(sizes) >= min(budget, most)
        for count, one in zip(counts, wanted, strict=True):
            assert one.least <= count <= one.most
    with pytest.raises(OutOfMemory, match=f"{ctx} tokens"):
        block_counts(spans, sizes, settings(ctx, least - 1))


def test_what_kernels_take_does_not_grow_with_the_context() -> None:
    """Keys and values are read where they lie."""
    config = tiny_config("full", 64)
    at = [kernel_compute(config, settings(ctx, 1 << 30), False) for ctx in (4096, 131_072)]
    assert at[0] == at[1]
