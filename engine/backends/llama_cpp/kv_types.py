"""The fixed table of KV storage types, and which one a model really gets. Knows no native code."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from engine.errors import UsageError

# ggml type numbers
_F16, _Q4_0, _Q8_0, _BF16 = 1, 2, 8, 30
_QUANTIZED = (_Q4_0, _Q8_0)
# Values of one quantized block; a head is stored in whole blocks.
_BLOCK = 32


@dataclass(frozen=True, slots=True)
class KVType:
    name: str
    type_k: int
    type_v: int
    needs_self_test: bool = False

    @property
    def needs_flash(self) -> bool:
        """A quantized V can only be read by flash attention."""
        return self.type_v in _QUANTIZED

    @property
    def quantized(self) -> bool:
        return self.type_k in _QUANTIZED or self.type_v in _QUANTIZED


F16 = KVType("f16", _F16, _F16)
KV_TYPES = {
    "auto": F16,  # never a quantized type by itself
    "f16": F16,
    "bf16": KVType("bf16", _BF16, _BF16),
    "k8": KVType("k8", _Q8_0, _F16),
    "q8": KVType("q8", _Q8_0, _Q8_0),
    "k8v4": KVType("k8v4", _Q8_0, _Q4_0),
    "q4": KVType("q4", _Q4_0, _Q4_0, needs_self_test=True),
}


@dataclass(frozen=True, slots=True)
class KVChoice:
    """What is really used, and a line for everything that differs from what was asked."""

    kv: KVType
    flash: bool
    notices: tuple[str, ...] = ()


def find_kv_type(name: str) -> KVType:
    """Raises UsageError for a name that is unknown, or known and not possible here."""
    if name == "fp8":
        raise UsageError(
            "kv_type fp8 needs an NVIDIA GPU of compute capability 8.9 or later.",
            "This model runs on llama.cpp.",
            "Use kv_type q8, which has a quarter of its error.",
        )
    if name not in KV_TYPES:
        nearest = difflib.get_close_matches(name, KV_TYPES, n=1, cutoff=0.0)[0]
        raise UsageError(
            f"Unknown kv_type {name!r}.",
            f"Allowed: {', '.join(KV_TYPES)}.",
            f"Did you mean {nearest}?",
        )
    return KV_TYPES[name]


def choose_kv(
    name: str, flash: bool | None, default_flash: bool, head_sizes: tuple[int, int]
) -> KVChoice:
    """The type of that name, or f16 with a notice where the model's heads do not fill whole blocks.

    `flash` is what the person asked for, `head_sizes` those of a key and a value (0: no attention).
    Raises UsageError as `find_kv_type` does.
    """
    kv = find_kv_type(name)
    if kv.quantized and (refused := _refusal(kv, head_sizes)):
        wanted = default_flash if flash is None else flash
        return KVChoice(F16, wanted, (f"kv_type f16 is used in place of {kv.name}: {refused}.",))
    if kv.needs_flash and flash is False:
        notice = f"Flash attention is on although it was switched off: kv_type {kv.name} needs it."
        return KVChoice(kv, True, (notice,))
    return KVChoice(kv, kv.needs_flash or (default_flash if flash is None else flash))


def without_flash(choice: KVChoice) -> KVChoice:
    """The next thing to try when the model refuses flash attention."""
    if choice.kv.needs_flash:
        reason = "the model cannot use flash attention"
        text = f"kv_type f16 is used in place of {choice.kv.name}: {reason}."
        return KVChoice(F16, False, (*choice.notices, text))
    return KVChoice(
        choice.kv, False, (*choice.notices, "Flash attention is off: the model cannot use it.")
    )


def plain(choice: KVChoice) -> KVChoice:
    """What every model can take."""
    text = f"kv_type f16 is used in place of {choice.kv.name}: the model refused it."
    return KVChoice(F16, False, (*choice.notices, text))


def _refusal(kv: KVType, head_sizes: tuple[int, int]) -> str | None:
    key, value = head_sizes
    if not key:
        return "the model has no keys and values to quantize"
    for size, kind, word in ((key, kv.type_k, "key"), (value, kv.type_v, "value")):
        if kind in _QUANTIZED and size % _BLOCK:
            return f"its {word} heads have {size} values, not a multiple of {_BLOCK}"
    return None
