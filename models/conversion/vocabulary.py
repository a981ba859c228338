"""A folder's tokenizer in the terms of a GGUF file: tokens by id, their types, merges or scores.

Which algorithm llama.cpp runs over it is `pre_tokenizer.py`'s word; whether the ids are the same is
`proof.py`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken

from models.conversion.pre_tokenizer import TokenizerKind, tokenizer_kind
from models.errors import UnsupportedModel
from models.hf_folder import FolderFiles, token_content
from models.sizes import show_text
from models.tokenizers.hf_build import build_tokenizer, read_spec
from models.tokenizers.hf_tokenizer import HFTokenizer

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
"""Token types as GGUF numbers them."""
_BYTE_TOKEN = re.compile(r"<0x[0-9A-F]{2}>")
_LAST_SCORE = -1e9


@dataclass(frozen=True, slots=True)
class Vocabulary:
    kind: TokenizerKind
    tokens: tuple[str, ...]
    """By id; ids without a token have a text that no other has."""
    types: tuple[int, ...]
    merges: tuple[str, ...]
    """By rank; empty where scores decide."""
    scores: tuple[float, ...]
    """The higher, the earlier; empty where ranks decide."""
    bos: int | None
    eos: int
    unknown: int | None
    padding: int | None
    add_bos: bool
    ends: tuple[int, ...]
    left_strips: tuple[int, ...]
    """Control tokens that swallow the white space before them."""
    right_strips: tuple[int, ...]
    template: str | None


def read_vocabulary(files: FolderFiles, vocab_size: int, reference: HFTokenizer) -> Vocabulary:
    """Of a folder whose embedding has `vocab_size` rows and whose tokenizer is `reference`.

    Raises ModelFileError or UnsupportedModel when there is no tokenizer.json, or none that
    llama.cpp has a counterpart for.
    """
    spec = read_spec(files)
    kind = tokenizer_kind(spec)
    tokenizer = build_tokenizer(files, spec)
    added: Mapping[int, AddedToken] = tokenizer.get_added_tokens_decoder()
    texts = _texts_by_id(tokenizer.get_vocab(with_added_tokens=True), added, vocab_size)
    unknown = tokenizer.token_to_id(token_content(spec["model"].get("unk_token")))
    pairs = _merge_pairs(spec["model"])
    ends = tuple(sorted(i for i in reference.end_ids if i < vocab_size))
    if not ends:
        raise _refused("It names no token that ends an answer; llama.cpp would take some other.")
    ranked = kind.model == "gpt2"
    types = tuple(_type(i, texts, added, kind, unknown) for i in range(vocab_size))
    tokens = tuple(texts.get(i, f"[PAD{i}]") for i in range(vocab_size))
    _check_tokens(tokens, types, kind)
    return Vocabulary(
        kind=kind,
        tokens=tokens,
        types=types,
        merges=tuple(f"{left} {right}" for left, right in pairs) if ranked else (),
        scores=() if ranked else _scores(tokens, pairs),
        bos=reference.bos_id,
        eos=ends[0] if reference.eos_id is None else reference.eos_id,
        unknown=unknown,
        padding=tokenizer.token_to_id(token_content(files.tokenizer.get("pad_token"))),
        add_bos=reference.add_bos,
        ends=ends,
        left_strips=tuple(i for i, t in sorted(added.items()) if t.special and t.lstrip),
        right_strips=tuple(i for i, t in sorted(added.items()) if t.special and t.rstrip),
        template=files.template,
    )


def _texts_by_id(
    vocabulary: Mapping[str, int], added: Mapping[int, AddedToken], vocab_size: int
) -> dict[int, str]:
    """Control tokens without a row in the embedding are left out: no text makes them."""
    texts = {token_id: text for text, token_id in vocabulary.items()}
    for token_id, text in texts.items():
        if token_id >= vocab_size and not (token_id in added and added[token_id].special):
            raise _refused(
                f"The token {show_text(text)} has the id {token_id:,}, but the model has only "
                f"{vocab_size:,} rows."
            )
    return texts


def _type(
    token_id: int,
    texts: Mapping[int, str],
    added: Mapping[int, AddedToken],
    kind: TokenizerKind,
    unknown: int | None,
) -> int:
    if token_id not in texts:
        return UNUSED
    if token_id == unknown and kind.model == "llama":
        return UNKNOWN
    if token_id in added:
        return CONTROL if added[token_id].special else USER_DEFINED
    if not kind.byte_level and _BYTE_TOKEN.fullmatch(texts[token_id]):
        return BYTE
    return NORMAL


def _merge_pairs(model: Mapping[str, Any]) -> list[tuple[str, str]]:
    return list(_pairs(model.get("merges")))


def _pairs(merges: object) -> Iterator[tuple[str, str]]:
    """Written as `left right`, or as a list of two."""
    for merge in merges if isinstance(merges, list) else []:
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(parts, list) or len(parts) != 2 or any(" " in part for part in parts):
            raise _refused(f"It merges {show_text(str(merge)[:80])}, which a GGUF file cannot say.")
        yield str(parts[0]), str(parts[1])


def _scores(tokens: tuple[str, ...], pairs: list[tuple[str, str]]) -> tuple[float, ...]:
    """The order in which merges were learned, as a score of what they make.

    A file made from SentencePiece lists every way to make a token, the best token first.
    """
    ranks: dict[str, int] = {}
    for rank, (left, right) in enumerate(pairs):
        ranks.setdefault(left + right, rank)
    return tuple(-float(ranks[text]) if text in ranks else _LAST_SCORE for text in tokens)


def _check_tokens(tokens: tuple[str, ...], types: tuple[int, ...], kind: TokenizerKind) -> None:
    """llama.cpp reads a token up to the first zero byte, and ends the process at one that comes
    twice.
    """
    seen: set[str] = set()
    for text in tokens:
        if text in seen or not text or "\0" in text:
            raise _refused(
                f"The token {show_text(text)!r} comes twice, is empty or holds a zero byte."
            )
        seen.add(text)
    if not kind.byte_level and types.count(BYTE) != 256:
        raise _refused(f"It has tokens for {types.count(BYTE)} of the 256 bytes.")


def _refused(text: str) -> UnsupportedModel:
    return UnsupportedModel(
        "The model's tokenizer cannot be written into a GGUF file.",
        text,
        "Get the model as a GGUF file, or run it on a machine with CUDA.",
    )
