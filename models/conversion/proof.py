"""Proves that the tokenizer of a converted file is the folder's: the same ids for every text.

The folder's own `tokenizer.json` is the reference; the other side is llama.cpp with a file that
holds the vocabulary and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from models.conversion.proof_texts import PROOF_TEXTS
from models.conversion.vocabulary import CONTROL, UNKNOWN, USER_DEFINED, Vocabulary
from models.errors import UnsupportedModel
from models.tokenizers.gguf_vocab import GGUFTokenizer
from models.tokenizers.hf_tokenizer import HFTokenizer

Encode = Callable[[str], tuple[int, ...]]
MAX_TOKENS = 400
"""Tokens with a text of their own that are tried; vocabularies reserve thousands of one kind."""
SPELLED = (CONTROL, UNKNOWN, USER_DEFINED)
_SHOWN_IDS = 12


def prove(
    reference: HFTokenizer,
    file: Path,
    vocabulary: Vocabulary,
    texts: tuple[str, ...] = PROOF_TEXTS,
) -> None:
    """`file` is a GGUF with the vocabulary, which was made of the reference.

    Raises UnsupportedModel naming the text, escaped, or the token that is treated differently.
    """
    tokenizer = GGUFTokenizer(file)
    try:
        _compare_tokens(vocabulary, reference, tokenizer)
        pairs = (
            (reference.encode, tokenizer.encode),
            (reference.encode_section, tokenizer.encode_section),
            (reference.encode_after, tokenizer.encode_after),
        )
        for text in texts:
            _compare(text, pairs, vocabulary.kind.pre)
        for text in _texts_with_tokens(vocabulary, reference, tokenizer):
            # Behind such a token both put a space, but only one of them within other text.
            _compare(text, pairs[:2], vocabulary.kind.pre)
    finally:
        tokenizer.close()


def _compare(text: str, pairs: Sequence[tuple[Encode, Encode]], pre: str) -> None:
    """Ways to encode of the folder and of llama.cpp: at the beginning of a prompt, behind a control
    token, behind other text.
    """
    for expected, found in pairs:
        wanted, made = expected(text), found(text)
        if wanted != made:
            raise _differs(
                f"With llama.cpp's kind {pre} the text {_escaped(text)} becomes "
                f"{_around(made, wanted)} instead of {_around(wanted, made)}."
            )


def _texts_with_tokens(
    vocabulary: Vocabulary, reference: HFTokenizer, tokenizer: GGUFTokenizer
) -> Iterator[str]:
    """Texts that spell control tokens, and those that hold tokens found before all cutting.

    llama.cpp counts some more tokens to its control tokens, which then no text can make: the ids
    of such texts differ on purpose.
    """
    only_there = tokenizer.control_tokens.keys() - reference.control_tokens.keys()
    typed = zip(vocabulary.tokens, vocabulary.types, strict=True)
    spelled = [text for text, kind in typed if kind in SPELLED and text not in only_there]
    for text in spelled[:MAX_TOKENS]:
        yield f"a{text}b"
        yield f"{text}{text} {text}\n{text}"


def _compare_tokens(
    vocabulary: Vocabulary, reference: HFTokenizer, tokenizer: GGUFTokenizer
) -> None:
    facts: tuple[tuple[str, object, object], ...] = (
        ("the token before a prompt", reference.bos_id, tokenizer.bos_id),
        ("whether a prompt begins with it", reference.add_bos, tokenizer.add_bos),
        ("the token that ends an answer", vocabulary.eos, tokenizer.eos_id),
        ("tokens that end an answer", reference.end_ids - tokenizer.end_ids, frozenset()),
    )
    for what, wanted, found in facts:
        if wanted != found:
            raise _differs(f"In llama.cpp {what} would be {found} instead of {wanted}.")
    for text, token_id in reference.control_tokens.items():
        if token_id < tokenizer.vocab_size:
            _compare_control(text, token_id, reference, tokenizer)


def _compare_control(
    text: str, token_id: int, reference: HFTokenizer, tokenizer: GGUFTokenizer
) -> None:
    if tokenizer.control_tokens.get(text) != token_id:
        raise _differs(f"{_escaped(text)} would not be a control token in llama.cpp.")
    if tokenizer.strips(token_id) != reference.strips(token_id):
        raise _differs(f"{_escaped(text)} would treat the white space beside it differently.")


def _around(ids: tuple[int, ...], other: tuple[int, ...]) -> str:
    """The ids from a little before the first that differs."""
    same = next((i for i, (a, b) in enumerate(zip(ids, other, strict=False)) if a != b), 0)
    start = max(0, same - 3)
    shown = ids[start : start + _SHOWN_IDS]
    before, after = "..., " if start else "", ", ..." if len(ids) > start + _SHOWN_IDS else ""
    return f"[{before}{', '.join(map(str, shown))}{after}]"


def _escaped(text: str) -> str:
    shown = ascii(text)
    return shown if len(shown) <= 200 else f"{shown[:200]}..."


def _differs(text: str) -> UnsupportedModel:
    return UnsupportedModel(
        "The model cannot be converted: llama.cpp would read text differently.",
        text,
        "Get the model as a GGUF file, or run it on a machine with CUDA.",
    )
