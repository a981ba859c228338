"""The tokenizer of a Hugging Face folder: `tokenizer.json`, read by the `tokenizers` package.

Knows the folder's other files only as sources of special tokens and end ids. `encode` has no way to
make a control token out of text: the package is told not to match special tokens, and what a
vocabulary would still make of their spelling is cut apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tokenizers import AddedToken, Tokenizer

from models.errors import UnsupportedModel
from models.hf_folder import FolderFiles, read_folder, token_content, token_ids
from models.tokenizers.fingerprint import folder_fingerprint
from models.tokenizers.hf_build import build_tokenizer, prefix_once, read_spec, without_prefix
from models.tokenizers.hf_pieces import PieceRules, UnknownDecoder, piece_rules

_SURROGATES = re.compile("[\ud800-\udfff]")
_TURN_ENDS = frozenset(
    (
        "<|eot_id|>",
        "<|eom_id|>",
        "<|im_end|>",
        "<|end|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|end_of_turn|>",
        "<|return|>",
        "<|call|>",
        "<EOT>",
        "<｜end▁of▁sentence｜>",
    )
)
"""Spellings that end a turn in every model that has them, as in llama.cpp."""


class HFTokenizer:
    """Tokenizer of one folder. Any thread may encode.

    Raises ModelFileError or UnsupportedModel when there is no tokenizer.json, or none that can be
    used.
    """

    def __init__(self, folder: Path) -> None:
        files = read_folder(folder)
        self._files = files
        spec = read_spec(files)
        self._rules = _rules(files, spec)
        self._whole = build_tokenizer(files, spec)
        bare = without_prefix(spec)
        self._after = self._whole if bare is None else build_tokenizer(files, bare)
        self._section = self._after if prefix_once(spec) else self._whole
        self._added: Mapping[int, AddedToken] = self._whole.get_added_tokens_decoder()
        self._pieces: dict[int, bytes] = {}
        self.vocab_size = 1 + max(self._whole.get_vocab(with_added_tokens=True).values())
        self.fingerprint = folder_fingerprint(files)
        self.bos_id = self._named("bos_token", "bos_token_id")
        self.eos_id = self._named("eos_token", "eos_token_id")
        self.add_bos = self.bos_id is not None and self._puts_bos(spec)
        self.control_tokens: Mapping[str, int] = MappingProxyType(
            {token.content: i for i, token in self._added.items() if token.special}
        )
        self.end_ids = frozenset(self._ends())
        # Letters that the vocabulary lacks may become the unknown token, but never the end.
        unknown = {self._named("unk_token", "")} - self.end_ids
        self._forbidden = frozenset(self.control_tokens.values()) - unknown

    def encode(self, text: str) -> tuple[int, ...]:
        return self._encode(self._whole, text)

    def encode_section(self, text: str) -> tuple[int, ...]:
        return self._encode(self._section, text)

    def encode_after(self, text: str) -> tuple[int, ...]:
        return self._encode(self._after, text)

    def piece(self, token_id: int) -> bytes:
        known = self._pieces.get(token_id)
        if known is None:
            known = self._pieces[token_id] = self._read_piece(token_id)
        return known

    def token_text(self, token_id: int) -> str:
        if not 0 <= token_id < self.vocab_size:
            return ""
        if token_id in self._added:
            return str(self._added[token_id].content)
        return self.piece(token_id).decode("utf-8", "replace")

    def find(self, text: str) -> int | None:
        if text in self._added_ids:
            return self._added_ids[text]
        ids = self.encode_after(text)
        return ids[0] if len(ids) == 1 and self.piece(ids[0]) == text.encode() else None

    def strips(self, token_id: int) -> tuple[bool, bool]:
        token = self._added.get(token_id)
        return (False, False) if token is None else (bool(token.lstrip), bool(token.rstrip))

    def close(self) -> None:
        """Nothing native is held."""

    @cached_property
    def _added_ids(self) -> dict[str, int]:
        return {str(token.content): token_id for token_id, token in self._added.items()}

    def _encode(self, tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
        if not text.isascii():
            text = _SURROGATES.sub("\ufffd", text)
        if not text:
            return ()
        encoding = tokenizer.encode(text, add_special_tokens=False)
        ids = encoding.ids
        if self._forbidden.isdisjoint(ids):
            return tuple(ids)
        return tuple(self._cut(tokenizer, text, ids, encoding.offsets))

    def _cut(
        self, tokenizer: Tokenizer, text: str, ids: list[int], offsets: list[tuple[int, int]]
    ) -> Iterator[int]:
        """Ids of the text cut behind the first letter of everything that became a control token.

        A vocabulary that lists its control tokens among the others finds them by itself.
        """
        found = zip(ids, offsets, strict=True)
        cuts = sorted({s + 1 for i, (s, e) in found if i in self._forbidden and e - s > 1})
        if not cuts:
            yield from (i for i in ids if i not in self._forbidden)
            return
        for start, end in zip((0, *cuts), (*cuts, len(text)), strict=True):
            yield from self._encode(self._after if start else tokenizer, text[start:end])

    def _read_piece(self, token_id: int) -> bytes:
        token = self._added.get(token_id)
        if token is not None:
            return b"" if token.special else self._rules.bytes_of_added(token.content)
        text = self._whole.id_to_token(token_id) if 0 <= token_id < self.vocab_size else None
        return b"" if text is None else self._rules.bytes_of(text)

    def _named(self, name: str, key: str) -> int | None:
        """The id of a token that the tokenizer's settings name, else of the one in config.json."""
        for source in (self._files.tokenizer, self._files.special_tokens):
            if content := token_content(source.get(name)):
                found: int | None = self._whole.token_to_id(content)
                if found is not None:
                    return found
        return next(token_ids(self._files.config.get(key)), None)

    def _puts_bos(self, spec: Mapping[str, Any]) -> bool:
        said = self._files.tokenizer.get("add_bos_token")
        if isinstance(said, bool):
            return said
        if not spec.get("post_processor"):
            return False
        return self._whole.encode("a", add_special_tokens=True).ids[:1] == [self.bos_id]

    def _ends(self) -> Iterable[int]:
        named = (
            self._files.tokenizer.get("eos_token"),
            self._files.special_tokens.get("eos_token"),
        )
        spellings = {token_content(one) for one in named} | _TURN_ENDS
        text_config = self._files.config.get("text_config")
        inner = text_config.get("eos_token_id") if isinstance(text_config, dict) else None
        for value in (
            self._files.generation.get("eos_token_id"),
            self._files.config.get("eos_token_id"),
            inner,
        ):
            yield from (i for i in token_ids(value) if i < self.vocab_size)
        yield from (i for text, i in self.control_tokens.items() if text in spellings)


def _rules(files: FolderFiles, spec: Mapping[str, Any]) -> PieceRules:
    try:
        return piece_rules(spec)
    except UnknownDecoder as unknown:
        raise UnsupportedModel(
            f"{files.name} cannot be used.",
            f"The decoder {str(unknown)[:80]!r} of its tokenizer is not known to this version.",
            "Use another model, or a newer localchat.",
        ) from unknown
