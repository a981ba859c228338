"""Rotary positions as a GGUF file describes them: header keys and tensors of divisors.

As llama.cpp reads them. A file holds Llama 3's scaling as its result, one divisor for each pair of
dims (`rope_freqs.weight`); that is a longrope whose short and long divisors are the same.
"""

from __future__ import annotations

import math

import numpy as np

from models.config import RopeScaling
from models.errors import ModelFileError, UnsupportedModel
from models.header_values import HeaderValues
from models.loaders.gguf import TensorInfo
from models.loaders.split import ModelFiles
from models.sizes import show_name

DIVISORS, SHORT, LONG = "rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"
ROPE_TENSORS = (DIVISORS, SHORT, LONG)
"""Read here; no parameters of the decoder."""

_KINDS = ("", "none", "linear", "yarn", "longrope")


def rope_scaling(
    files: ModelFiles, header: HeaderValues, architecture: str, rotary_size: int
) -> RopeScaling:
    """Of the layers that see everything.

    Raises:
        UnsupportedModel: the scaling is not known.
        ModelFileError: its numbers or divisors are missing or absurd.
    """
    prefix = f"{architecture}.rope.scaling"
    kind = header.text(f"{prefix}.type")
    if kind not in _KINDS:
        raise UnsupportedModel(
            f"{show_name(files.first.path)} cannot be used.",
            f"Its position scaling {kind[:80]!r} is not known to this version.",
            "Use another model, or a newer localchat.",
        )
    tensors = {one.name: one for one in files.tensors if one.name in ROPE_TENSORS}
    if DIVISORS in tensors:
        same = _divisors(files, tensors[DIVISORS], rotary_size)
        return RopeScaling(
            "longrope",
            original_context=_original(header, architecture),
            attention_factor=1.0,
            short_factor=same,
            long_factor=same,
        )
    if kind == "longrope" or LONG in tensors or SHORT in tensors:
        return _longrope(files, header, architecture, tensors, rotary_size)
    return _scaled(header, architecture, kind)


def rope_base(header: HeaderValues, key: str, default: float) -> float:
    """Raises ModelFileError when it is not above 1."""
    base = header.number(key)
    if base is None:
        return default
    if base <= 1:
        raise header.damaged(f"{key} is {base:g}")
    return base


def _longrope(
    files: ModelFiles,
    header: HeaderValues,
    architecture: str,
    tensors: dict[str, TensorInfo],
    rotary_size: int,
) -> RopeScaling:
    for name in (SHORT, LONG):
        if name not in tensors:
            raise header.damaged(f"the scaling longrope is named, but the tensor {name} is missing")
    factor = header.number(f"{architecture}.rope.scaling.attn_factor")
    return RopeScaling(
        "longrope",
        original_context=_original(header, architecture),
        attention_factor=1.0 if factor is None else factor,
        short_factor=_divisors(files, tensors[SHORT], rotary_size),
        long_factor=_divisors(files, tensors[LONG], rotary_size),
    )


def _scaled(header: HeaderValues, architecture: str, kind: str) -> RopeScaling:
    """Without a kind a factor means linear, under its old key too."""
    factor = _factor(header, architecture)
    if kind == "none" or factor == 1:
        return RopeScaling()
    if kind in ("", "linear"):
        return RopeScaling("linear", factor=factor)
    key = f"{architecture}.rope.scaling.yarn"
    if header.number(f"{key}_ext_factor") not in (None, 1.0, -1.0):
        raise UnsupportedModel(
            f"{show_name(header.file.path)} cannot be used.",
            f"{key}_ext_factor is not known to this version.",
            "Use another model, or a newer localchat.",
        )
    return RopeScaling(
        "yarn",
        factor=factor,
        original_context=_original(header, architecture),
        beta_fast=_number(header, f"{key}_beta_fast", 32.0),
        beta_slow=_number(header, f"{key}_beta_slow", 1.0),
        attention_factor=_yarn_attention(header, architecture, factor),
    )


def _yarn_attention(header: HeaderValues, architecture: str, factor: float) -> float | None:
    """As the config named it, or as a part of the formula's own value, as llama.cpp wants it."""
    given = header.number(f"{architecture}.rope.scaling.yarn_attn_factor")
    if given is not None:
        return given
    strength = header.number(f"{architecture}.rope.scaling.attn_factor")
    formula = 0.1 * math.log(factor) + 1 if factor > 1 else 1.0
    return None if strength is None else strength * formula


def _factor(header: HeaderValues, architecture: str) -> float:
    for name in ("scaling.factor", "scale_linear"):
        key = f"{architecture}.rope.{name}"
        factor = header.number(key)
        if factor:
            if factor < 0:
                raise header.damaged(f"{key} is {factor:g}")
            return factor
    return 1.0


def _original(header: HeaderValues, architecture: str) -> int:
    given = header.integer(f"{architecture}.rope.scaling.original_context_length")
    original = given or header.integer(f"{architecture}.context_length")
    if not original or original < 2:
        raise header.damaged("the context length before the position scaling is missing")
    return original


def _number(header: HeaderValues, key: str, default: float) -> float:
    value = header.number(key)
    return default if value is None else value


def _divisors(files: ModelFiles, tensor: TensorInfo, rotary_size: int) -> tuple[float, ...]:
    if tensor.shape != (rotary_size // 2,) or tensor.type.name != "F32":
        raise _bad(files, f"{tensor.name} is not {rotary_size // 2} numbers of type F32")
    with tensor.file.open("rb") as stream:
        stream.seek(tensor.offset)
        values = np.frombuffer(stream.read(tensor.byte_count), "<f4")
    divisors = tuple(float(value) for value in values)
    if not all(math.isfinite(value) and value > 0 for value in divisors):
        raise _bad(files, f"{tensor.name} holds a divisor that is not above 0")
    return divisors


def _bad(files: ModelFiles, text: str) -> ModelFileError:
    return ModelFileError(
        f"{show_name(files.first.path)} is damaged.",
        f"Its tensor {text}.",
        "Download the file again, or use another one.",
    )
