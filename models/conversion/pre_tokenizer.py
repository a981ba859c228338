"""What llama.cpp calls a tokenizer, derived from the structure of its `tokenizer.json`.

A table of structures, no hash of results and no model name: what is not in the table is refused.
Whether llama.cpp's kind of that name makes the same ids is proven afterwards (`proof.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from models.errors import UnsupportedModel
from models.sizes import show_text

Step = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TokenizerKind:
    model: Literal["gpt2", "llama"]
    """llama.cpp's algorithm: merges by rank, or merges by the score of the result."""
    pre: str
    """llama.cpp's name of the way text is cut before merging."""
    normalizer: Literal["", "NFC"] = ""
    """llama.cpp applies none: the program does it before it asks for ids."""
    space: Literal["never", "always", "unless there", "first"] = "never"
    """Where a space is put before text: before every piece between control tokens, before those
    that have none, or before those only at the beginning of a prompt."""
    byte_level: bool = True
    """A letter stands for each byte; else bytes are tokens of their own, like `<0x0A>`."""


_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SLASH_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+",
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*",
)

LLAMA_3 = rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}{{1,3}}{_TAIL}"
QWEN_2 = rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}{_TAIL}"
TEKKEN = rf"{_CASED[0]}|{_CASED[1]}|\p{{N}}{_SLASH_TAIL}"
GPT_4O = "|".join(
    (
        rf"{_CASED[0]}{_CONTRACTIONS}?",
        rf"{_CASED[1]}{_CONTRACTIONS}?",
        rf"\p{{N}}{{1,3}}{_SLASH_TAIL}",
    )
)

Cuts = tuple[str, ...]
"""The steps that cut a text, in order, without the letters for bytes."""

_GPT_2 = "gpt-2's pattern"
_DIGITS = "single digits"

BYTE_LEVEL: Mapping[tuple[Cuts, bool], str] = MappingProxyType(
    {
        ((f"split {LLAMA_3}",), True): "llama-bpe",
        ((f"split {LLAMA_3}",), False): "smaug-bpe",
        ((f"split {QWEN_2}",), False): "qwen2",
        ((f"split {TEKKEN}",), True): "tekken",
        # llama.cpp's "gpt-4o" cuts words at marks, as in Hindi and Thai; this one does not.
        ((f"split {GPT_4O}",), False): "granite-embed-multi-97m",
        ((f"split {GPT_4O}",), True): "granite-embed-multi-97m",
        ((_DIGITS, _GPT_2), False): "smollm",
        ((r"split \p{N}", _GPT_2), False): "smollm",
        ((_GPT_2,), False): "gpt-2",
    }
)
"""Cuts, and whether a word that is a token needs no merges -> llama.cpp's name."""

_PREPEND, _REPLACE = "prepend ▁", "replace ' ' ▁"
_SPACES = "split ' ' with the text before"

_BY_SCORE = TokenizerKind("llama", "default", space="always", byte_level=False)
_UNLESS_THERE = replace(_BY_SCORE, space="unless there")
_ONCE = replace(_BY_SCORE, space="first")
# Merges by rank over whole lines, the spaces written as a sign: nothing else is in that kind.
_BY_RANK = TokenizerKind("gpt2", "sarvam-moe", byte_level=False)

SENTENCE_PIECES: Mapping[tuple[Cuts, Cuts], TokenizerKind] = MappingProxyType(
    {
        ((_PREPEND, _REPLACE), ()): _BY_SCORE,
        ((), ("metaspace always",)): _UNLESS_THERE,
        ((), ("metaspace first",)): _ONCE,
        ((), ("metaspace never",)): _BY_RANK,
        ((_REPLACE,), ()): _BY_RANK,
        # No space is left where the second step looks for one.
        ((_REPLACE,), (_SPACES,)): _BY_RANK,
    }
)
"""Normalizer and cuts -> llama.cpp's kind."""

NORMALIZERS: Mapping[Cuts, Literal["", "NFC"]] = MappingProxyType({(): "", ("NFC",): "NFC"})
"""Those of byte-level tokenizers."""


def tokenizer_kind(spec: Mapping[str, Any]) -> TokenizerKind:
    """Of a whole `tokenizer.json`. Raises UnsupportedModel naming the part that is not known."""
    model = _merging_model(spec)
    normalizer = tuple(map(_described, _steps(spec.get("normalizer"))))
    cuts = tuple(map(_described, _steps(spec.get("pre_tokenizer"))))
    if "bytes" in cuts or _GPT_2 in cuts:
        cuts = tuple(cut for cut in cuts if cut != "bytes")
        return _byte_level(normalizer, cuts, bool(model.get("ignore_merges")))
    if (kind := SENTENCE_PIECES.get((normalizer, cuts))) and model.get("byte_fallback"):
        return kind
    if kind:
        raise _unknown("model", "merges without tokens for single bytes")
    raise _unknown("normalizer and pre-tokenizer", " then ".join((*normalizer, *cuts)) or "none")


def _byte_level(normalizer: Cuts, cuts: Cuts, whole_words: bool) -> TokenizerKind:
    if normalizer not in NORMALIZERS:
        raise _unknown("normalizer", " then ".join(normalizer))
    pre = BYTE_LEVEL.get((cuts, whole_words))
    if pre is None:
        merging = "words that are tokens kept whole" if whole_words else "words always merged"
        raise _unknown("pre-tokenizer", f"{' then '.join(cuts) or 'none'}, {merging}")
    return TokenizerKind("gpt2", pre, NORMALIZERS[normalizer])


def _merging_model(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    model = spec.get("model")
    kind = model.get("type", "BPE") if isinstance(model, Mapping) else None
    if not isinstance(model, Mapping) or kind != "BPE":
        raise _unknown("model", str(kind))
    for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(name):
            raise _unknown("model", f"{name} of {model[name]!r}")
    return model


def _steps(part: object) -> Iterator[Step]:
    """A pipeline's steps in order, nested sequences opened."""
    if not isinstance(part, Mapping):
        return
    inner = part.get("normalizers") or part.get("pretokenizers") or []
    if part.get("type") == "Sequence":
        for step in inner:
            yield from _steps(step)
        return
    yield part


def _described(step: Step) -> str:
    """A step in the words of the tables; words that no table has for all others."""
    kind = str(step.get("type"))
    describe = _DESCRIPTIONS.get(kind)
    return (describe(step) if describe else None) or f"{kind} {_settings(step)}".strip()


def _split(step: Step) -> str | None:
    behavior = (step.get("behavior"), bool(step.get("invert")))
    pattern = step.get("pattern")
    if not isinstance(pattern, Mapping):
        return None
    if pattern.get("String") == " " and behavior == ("MergedWithPrevious", False):
        return _SPACES
    # Every pattern of the table matches all of a text: what is left between matches is nothing.
    if "Regex" in pattern and behavior in (("Isolated", False), ("Removed", True)):
        return f"split {pattern['Regex']}"
    return None


def _bytes(step: Step) -> str | None:
    if step.get("add_prefix_space", True):
        return None
    return _GPT_2 if step.get("use_regex", True) else "bytes"


def _metaspace(step: Step) -> str | None:
    if step.get("replacement", "▁") != "▁" or step.get("split", True):
        return None
    return f"metaspace {step.get('prepend_scheme', 'always')}"


def _replace(step: Step) -> str | None:
    plain = step.get("pattern") == {"String": " "} and step.get("content") == "▁"
    return _REPLACE if plain else None


_DESCRIPTIONS: Mapping[str, Callable[[Step], str | None]] = {
    "Split": _split,
    "ByteLevel": _bytes,
    "Metaspace": _metaspace,
    "Replace": _replace,
    "Digits": lambda step: _DIGITS if step.get("individual_digits") else None,
    "Prepend": lambda step: _PREPEND if step.get("prepend") == "▁" else None,
    "NFC": lambda step: "NFC",
}


def _settings(step: Step) -> str:
    return ", ".join(f"{key} {value}" for key, value in step.items() if key != "type")


def _unknown(part: str, found: str) -> UnsupportedModel:
    return UnsupportedModel(
        "The model's tokenizer has no counterpart in llama.cpp that is known here.",
        f"The {part} in its tokenizer.json: {show_text(found[:400])}.",
        "Get the model as a GGUF file, or run it on a machine with CUDA.",
    )
