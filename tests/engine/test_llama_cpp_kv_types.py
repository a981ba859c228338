"""The fixed table of storage types: what is used, what is refused, and that nothing is silent."""

from __future__ import annotations

import pytest

from engine.backends.llama_cpp.kv_types import KV_TYPES, choose_kv, find_kv_type, without_flash
from engine.errors import UsageError


def test_only_a_quantized_value_forces_flash_attention() -> None:
    forced = {name for name, kv in KV_TYPES.items() if kv.needs_flash}
    assert forced == {"q8", "k8v4", "q4"}
    for name in KV_TYPES:
        assert choose_kv(name, None, False, (64, 64)).flash is (name in forced)
        assert choose_kv(name, True, False, (64, 64)).flash


def test_auto_is_never_quantized() -> None:
    assert not KV_TYPES["auto"].quantized
    assert choose_kv("auto", None, False, (64, 64)).kv.name == "f16"


def test_fp8_names_q8_and_an_unknown_name_its_nearest() -> None:
    with pytest.raises(UsageError, match="q8"):
        find_kv_type("fp8")
    with pytest.raises(UsageError, match="Did you mean k8v4"):
        find_kv_type("kv84")
    with pytest.raises(UsageError, match="Allowed"):
        find_kv_type("")


@pytest.mark.parametrize("name", ["k8", "q8", "k8v4", "q4"])
@pytest.mark.parametrize("heads", [(80, 64), (48, 48), (0, 0)])
def test_heads_that_do_not_fill_blocks_get_f16_and_a_notice(
    name: str, heads: tuple[int, int]
) -> None:
    choice = choose_kv(name, None, False, heads)
    assert (choice.kv.name, choice.flash) == ("f16", False)
    assert "f16" in choice.notices[0]
    assert name in choice.notices[0]


def test_only_the_quantized_side_has_to_fill_blocks() -> None:
    assert choose_kv("k8", None, False, (64, 80)).kv.name == "k8"


def test_a_switch_that_cannot_be_followed_is_said() -> None:
    asked_off = choose_kv("q8", False, False, (64, 64))
    assert asked_off.flash
    assert "needs it" in asked_off.notices[0]
    refused = without_flash(asked_off)
    assert (refused.kv.name, refused.flash, len(refused.notices)) == ("f16", False, 2)
    assert without_flash(choose_kv("k8", True, False, (64, 64))).kv.name == "k8"
