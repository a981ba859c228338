"""Gemma's tokenizer.json, put together from the vocabulary of a GGUF file.

As files made from SentencePiece are: every way to make a token is a merge, the best token first;
runs of spaces and line breaks are tokens of their own besides.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from models.conversion.vocabulary import CONTROL, NORMAL, USER_DEFINED
from models.loaders.gguf import read_gguf
from models.loaders.metadata import ArrayValue

NAMES = {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"}


def write_gemma_tokenizer(folder: Path, file: Path) -> None:
    texts, types, scores = (
        _array(file, f"tokenizer.ggml.{name}") for name in ("tokens", "token_type", "scores")
    )
    named = [
        text.replace(" ", "▁") if kind == USER_DEFINED else text
        for text, kind in zip(texts, types, strict=True)
    ]
    # Runs are merged before all else, the shorter first.
    ranks = {
        text: (-1e9 + len(text) if kind == USER_DEFINED else -score)
        for text, kind, score in zip(named, types, scores, strict=True)
        if kind in (NORMAL, USER_DEFINED)
    }
    vocabulary = {text: index for index, text in enumerate(named)}
    spec = {
        "version": "1.0",
        "added_tokens": [
            _added(index, text, kind == CONTROL)
            for index, (text, kind) in enumerate(zip(named, types, strict=True))
            if kind in (CONTROL, USER_DEFINED)
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": vocabulary,
            "merges": _merges(ranks, vocabulary),
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(spec))
    settings = {**NAMES, "add_bos_token": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def _array(file: Path, key: str) -> list[Any]:
    value = read_gguf(file).metadata[key]
    assert isinstance(value, ArrayValue)
    return value.read()


def _added(index: int, text: str, special: bool) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": index, "content": text, "special": special, **flags}


def _merges(ranks: dict[str, float], vocabulary: dict[str, int]) -> list[list[str]]:
    found = [
        (rank, vocabulary[text], vocabulary[text[:cut]], vocabulary[text[cut:]], cut, text)
        for text, rank in ranks.items()
        for cut in range(1, len(text))
        if text[:cut] in ranks and text[cut:] in ranks
    ]
    return [[text[:cut], text[cut:]] for *_, cut, text in sorted(found)]
