"""The key-value part of a converted file: what the model is, and its tokenizer.

Keys that llama.cpp does not know begin with `tokenizer.localchat.`: what its tokenizer leaves to
the program (`models/tokenizers/gguf_vocab.py` reads them).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.config import ModelConfig
from models.conversion.hyperparameters import add_hyperparameters
from models.conversion.vocabulary import Vocabulary

NORMALIZER = "tokenizer.localchat.normalizer"
SPACE = "tokenizer.localchat.space"
SPACE_SIGN = "tokenizer.localchat.space_sign"
NO_BOS = "tokenizer.localchat.no_bos"
LEFT_STRIPS = "tokenizer.localchat.lstrip_token_ids"
RIGHT_STRIPS = "tokenizer.localchat.rstrip_token_ids"

_LICENSE = re.compile(r"^license:[ \t]*(\S.*)$", re.MULTILINE)
_README_HEAD = 10_000


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a converted file says of itself beside the arithmetic."""

    name: str
    license: str = ""


def add_metadata(
    writer: Any, facts: ModelFacts, config: ModelConfig, vocabulary: Vocabulary
) -> None:
    """Fills a GGUFWriter. Raises UnsupportedModel for what llama.cpp cannot compute."""
    writer.add_type("model")
    writer.add_name(_plain_name(facts.name))
    writer.add_license(facts.license)
    writer.add_quantization_version(2)
    add_hyperparameters(writer, config)
    _add_tokenizer(writer, vocabulary)


def read_license(folder: Path) -> str:
    """What the head of the folder's README.md names; empty where it names none."""
    try:
        with (folder / "README.md").open(encoding="utf-8", errors="replace") as file:
            head = file.read(_README_HEAD)
    except OSError:
        return ""
    found = _LICENSE.search(head.split("\n---", 1)[0]) if head.startswith("---\n") else None
    return found[1].strip("\"' ") if found else ""


def _plain_name(name: str) -> str:
    """llama.cpp gives the tokens of a model of this name other rules, and aborts without them."""
    for word in ("phi-3", "phi3"):
        while (at := name.lower().find(word)) >= 0:
            name = f"{name[: at + 3]} {name[at + len(word) - 1 :]}"
    return name


def _add_tokenizer(writer: Any, vocabulary: Vocabulary) -> None:
    kind = vocabulary.kind
    writer.add_tokenizer_model(kind.model)
    writer.add_tokenizer_pre(kind.pre)
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    writer.add_token_scores(vocabulary.scores)
    writer.add_token_merges(vocabulary.merges)
    if kind.model == "llama":
        writer.add_add_space_prefix(kind.space != "never")
    _add_special(writer, vocabulary)
    writer.add_string(NORMALIZER, kind.normalizer)
    # llama.cpp knows of "never" and "always" only.
    writer.add_string(SPACE, kind.space if kind.space in ("unless there", "first") else "")
    writer.add_string(SPACE_SIGN, "" if kind.byte_level else "▁")
    writer.add_array(LEFT_STRIPS, vocabulary.left_strips)
    writer.add_array(RIGHT_STRIPS, vocabulary.right_strips)
    if vocabulary.template:
        writer.add_chat_template(vocabulary.template)


def _add_special(writer: Any, vocabulary: Vocabulary) -> None:
    """llama.cpp assumes ids of its own for what is not named."""
    named = (
        (writer.add_bos_token_id, vocabulary.bos),
        (writer.add_eos_token_id, vocabulary.eos),
        (writer.add_unk_token_id, vocabulary.unknown),
        (writer.add_pad_token_id, vocabulary.padding),
    )
    for add, token_id in named:
        if token_id is not None and token_id < len(vocabulary.tokens):
            add(token_id)
    writer.add_array("tokenizer.ggml.eos_token_ids", vocabulary.ends)
    writer.add_add_bos_token(vocabulary.add_bos)
    writer.add_add_eos_token(False)
    if vocabulary.bos is None:
        writer.add_bool(NO_BOS, True)
