"""What `quantization_config` of a config.json says of stored weights: 8-bit floats or a refusal.

Two formats are known: `fp8`, with scales by matrix or by block, and `compressed-tensors` as far as
its weights are 8-bit floats. Needs no tensor library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from models.hf_values import refuse_value

KEY = "quantization_config"
METHODS = ("compressed-tensors", "fp8")
FLOAT_FORMATS = ("float-quantized", "naive-quantized")
STRATEGIES = ("tensor", "channel", "block")
Block = tuple[int, int]
"""Rows and columns that share a scale."""


def check_quantization(given: object) -> None:
    """Raises UnsupportedModel for anything but 8-bit floats; None is no quantization at all."""
    if given is None:
        return
    method = given.get("quant_method") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or method not in METHODS:
        refuse_value(KEY, method, METHODS)
    if method == "compressed-tensors":
        _check_compressed(given)
    block_of({KEY: given})


def block_of(config: Mapping[str, Any]) -> Block | None:
    """The block that a `config.json` names for its scales; None where it names none.

    Raises UnsupportedModel when it is not two counts.
    """
    quantization = config.get(KEY)
    if not isinstance(quantization, Mapping):
        return None
    given = quantization.get("weight_block_size")
    blocks = [given, *(weights.get("block_structure") for weights in _groups(quantization))]
    named = [block for block in blocks if block is not None]
    for block in named:
        if not isinstance(block, list) or len(block) != 2 or not all(map(_is_count, block)):
            refuse_value("weight_block_size", block)
        if block != named[0]:
            refuse_value("block_structure", block, [str(named[0])])
    return (named[0][0], named[0][1]) if named else None


def _check_compressed(given: Mapping[str, Any]) -> None:
    if given.get("format") not in FLOAT_FORMATS:
        refuse_value("format", given.get("format"), FLOAT_FORMATS)
    if given.get("transform_config"):
        refuse_value("transform_config", given["transform_config"])
    sparsity = given.get("sparsity_config")
    if sparsity and (not isinstance(sparsity, Mapping) or sparsity.get("format") != "dense"):
        refuse_value("sparsity_config", sparsity)
    for weights in _groups(given):
        if (weights.get("type"), weights.get("num_bits")) != ("float", 8):
            refuse_value("weights", f"{weights.get('type')} of {weights.get('num_bits')} bits")
        if weights.get("strategy") not in STRATEGIES:
            refuse_value("strategy", weights.get("strategy"), STRATEGIES)


def _groups(quantization: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The weights of each group of layers, as compressed-tensors describes them."""
    groups = quantization.get("config_groups")
    for group in groups.values() if isinstance(groups, Mapping) else ():
        weights = group.get("weights") if isinstance(group, Mapping) else None
        if isinstance(weights, Mapping):
            yield weights


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0
