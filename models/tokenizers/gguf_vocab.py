"""The vocabulary of a GGUF file, as llama.cpp itself reads it: exact by construction.

Loads the vocabulary only, never the weights. `encode` has no way to make a control token out of
text.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from models.errors import ModelFileError
from models.loaders.gguf import GGUFFile, read_gguf
from models.loaders.metadata import ArrayValue
from models.loaders.split import find_parts
from models.sizes import show_name
from models.tokenizers.native_log import route_native_log

_UNKNOWN, _CONTROL, _USER_DEFINED = 1 << 0, 1 << 3, 1 << 4
_LSTRIP, _RSTRIP = 1 << 7, 1 << 8
_NO_CONTROL = _UNKNOWN | _CONTROL
_SURROGATES = re.compile("[\ud800-\udfff]")
_END_KEYS = tuple(
    f"tokenizer.ggml.{name}"
    for name in (
        "eos_token_id",
        "eot_token_id",
        "eom_token_id",
        "eos_token_ids",
        "eot_token_ids",
        "eog_token_ids",
    )
)
_LOCAL = "tokenizer.localchat."
"""Keys of files that were converted here: what llama.cpp's tokenizer leaves to the program."""
_NOT_VOCABULARY = ("tokenizer.chat_template", "tokenizer.huggingface")


def tokenizer_fingerprint(file: GGUFFile) -> str:
    """A hash of the raw `tokenizer.*` values, chat templates excepted; 20 ms for 262,144 tokens."""
    digest = hashlib.sha256()
    with file.path.open("rb") as stream:
        for key in sorted(file.places):
            if not key.startswith("tokenizer.") or key.startswith(_NOT_VOCABULARY):
                continue
            start, end = file.places[key]
            stream.seek(start)
            digest.update(f"{key}\0{end - start}\0".encode())
            digest.update(stream.read(end - start))
    return digest.hexdigest()[:32]


class GGUFTokenizer:
    """Tokenizer of one GGUF file. Any thread may encode; `close` frees the native vocabulary.

    Raises ModelFileError when the file or its vocabulary cannot be read.
    """

    def __init__(self, path: Path) -> None:
        first = find_parts(path)[0]
        file = read_gguf(first)
        if not isinstance(file.metadata.get("tokenizer.ggml.tokens"), ArrayValue):
            raise _no_vocabulary(first, "It names no tokens.")
        from llama_cpp import llama_cpp

        route_native_log()
        self._native: Any = llama_cpp
        self._model = _load(llama_cpp, first)
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self._pieces: dict[int, bytes] = {}
        self.vocab_size = int(llama_cpp.llama_vocab_n_tokens(self._vocab))
        self.fingerprint = tokenizer_fingerprint(file)
        self._normalizer = file.metadata.get(f"{_LOCAL}normalizer")
        self._space_sign = file.metadata.get(f"{_LOCAL}space_sign")
        self._space = file.metadata.get(f"{_LOCAL}space")
        no_bos = file.metadata.get(f"{_LOCAL}no_bos") is True
        self.bos_id = None if no_bos else _id_or_none(llama_cpp.llama_vocab_bos(self._vocab))
        self.eos_id = _id_or_none(llama_cpp.llama_vocab_eos(self._vocab))
        self.add_bos = (
            bool(llama_cpp.llama_vocab_get_add_bos(self._vocab)) and self.bos_id is not None
        )
        self._special = self._read_special(file)
        self.end_ids = self._read_end_ids(file)
        self.control_tokens: Mapping[str, int] = MappingProxyType(self._read_control_tokens())
        unknown = {i for i, flags in self._special.items() if flags & _UNKNOWN}
        self._forbidden = frozenset(self.control_tokens.values()) - unknown
        self._puts_space = self._find_space()

    def encode(self, text: str) -> tuple[int, ...]:
        if self._space and text.startswith((" ", "▁")):  # the space is there already
            return self.encode_after(text)
        return self._encode(text)

    def encode_section(self, text: str) -> tuple[int, ...]:
        return self.encode_after(text) if self._space == "first" else self.encode(text)

    def encode_after(self, text: str) -> tuple[int, ...]:
        if not text or not self._puts_space:
            return self._encode(text)
        # A line break merges with nothing in these vocabularies, so it can stand for the text
        # before.
        lead, ids = self._encode("\n"), self._encode("\n" + text)
        return ids[len(lead) :] if ids[: len(lead)] == lead else self._encode(text)

    def piece(self, token_id: int) -> bytes:
        known = self._pieces.get(token_id)
        if known is None:
            known = self._pieces[token_id] = self._read_piece(token_id)
        return known

    def token_text(self, token_id: int) -> str:
        if not 0 <= token_id < self.vocab_size:
            return ""
        if token_id in self._special:
            return self._text(token_id)
        return self.piece(token_id).decode("utf-8", "replace")

    def find(self, text: str) -> int | None:
        if text in self._special_ids:
            return self._special_ids[text]
        ids = self.encode(text)
        return ids[0] if len(ids) == 1 and self.piece(ids[0]) == text.encode() else None

    def strips(self, token_id: int) -> tuple[bool, bool]:
        attributes = self._special.get(token_id, 0)
        return bool(attributes & _LSTRIP), bool(attributes & _RSTRIP)

    def close(self) -> None:
        """Free the native vocabulary; ids cannot be made from then on."""
        model, self._model = self._model, None
        if model is not None:
            self._native.llama_model_free(model)

    @cached_property
    def _special_ids(self) -> dict[str, int]:
        return {self._text(token_id): token_id for token_id in self._special}

    def _encode(self, text: str) -> tuple[int, ...]:
        text = _SURROGATES.sub("\ufffd", text)
        if self._normalizer == "NFC":
            text = unicodedata.normalize("NFC", text)
        data = text.encode("utf-8")
        if not data:
            return ()
        self._check_open()
        room = len(data) + 8
        ids = (ctypes.c_int32 * room)()
        count = self._native.llama_tokenize(self._vocab, data, len(data), ids, room, False, False)
        if count < 0:
            room = -count
            ids = (ctypes.c_int32 * room)()
            count = self._native.llama_tokenize(
                self._vocab, data, len(data), ids, room, False, False
            )
        found = tuple(ids[: max(count, 0)])
        return found if self._forbidden.isdisjoint(found) else tuple(self._without_control(found))

    def _without_control(self, ids: Iterable[int]) -> Iterator[int]:
        """Where llama.cpp merged two tokens into a control token, the two: it merges by the score
        of whatever text two tokens make.
        """
        for token_id in ids:
            if token_id in self._forbidden:
                yield from self._halves(self._text(token_id))
            else:
                yield token_id

    def _halves(self, text: str) -> tuple[int, ...]:
        halves = ((text[:cut], text[cut:]) for cut in range(1, len(text)))
        found = (self.encode_after(left) + self.encode_after(right) for left, right in halves)
        return min(found, key=len, default=())

    def _read_special(self, file: GGUFFile) -> dict[int, int]:
        """Attributes of the tokens that are matched as whole texts."""
        attribute, vocab = self._native.llama_vocab_get_attr, self._vocab
        found = {}
        for token_id in range(self.vocab_size):
            value = attribute(vocab, token_id)
            if value & (_NO_CONTROL | _USER_DEFINED):
                found[token_id] = value
        for name, flag in (("lstrip", _LSTRIP), ("rstrip", _RSTRIP)):
            for token_id in _ids_at(file, f"{_LOCAL}{name}_token_ids"):
                if token_id in found:
                    found[token_id] |= flag
        return found

    def _read_control_tokens(self) -> dict[str, int]:
        texts = (
            (self._text(token_id), token_id)
            for token_id, attributes in self._special.items()
            if attributes & _NO_CONTROL
        )
        return {text: token_id for text, token_id in texts if text}

    def _read_end_ids(self, file: GGUFFile) -> frozenset[int]:
        candidates = {*self._special, *_metadata_ids(file)}
        valid = {token_id for token_id in candidates if 0 <= token_id < self.vocab_size}
        named = valid & set(_metadata_ids(file))
        ends = self._native.llama_vocab_is_eog
        return frozenset(named | {i for i in valid if ends(self._vocab, i)})

    def _read_piece(self, token_id: int) -> bytes:
        if not 0 <= token_id < self.vocab_size or self._special.get(token_id, 0) & _NO_CONTROL:
            return b""
        self._check_open()
        room = 64
        for _ in range(2):
            buffer = ctypes.create_string_buffer(room)
            count = self._native.llama_token_to_piece(self._vocab, token_id, buffer, room, 0, False)
            if count >= 0:
                return self._with_spaces(token_id, buffer.raw[:count])
            room = -count
        return b""

    def _with_spaces(self, token_id: int, piece: bytes) -> bytes:
        """llama.cpp shows the sign for a space in tokens that it finds before all merging."""
        sign = self._space_sign
        if isinstance(sign, str) and self._special.get(token_id, 0) & _USER_DEFINED:
            return piece.replace(sign.encode(), b" ")
        return piece

    def _text(self, token_id: int) -> str:
        self._check_open()
        raw: bytes | None = self._native.llama_vocab_get_text(self._vocab, token_id)
        return (raw or b"").decode("utf-8", "replace")

    def _find_space(self) -> bool:
        ids = self._encode("a")
        return b"".join(map(self.piece, ids)) != b"a"

    def _check_open(self) -> None:
        if self._model is None:
            raise ValueError("the tokenizer is closed")


def _load(native: Any, path: Path) -> Any:
    native.llama_backend_init()
    parameters = native.llama_model_default_params()
    parameters.vocab_only = True
    model = native.llama_model_load_from_file(os.fsencode(path), parameters)
    if not model:
        raise _no_vocabulary(path, "llama.cpp could not read it; the log says why.")
    return model


def _no_vocabulary(path: Path, text: str) -> ModelFileError:
    return ModelFileError(
        f"The vocabulary of {show_name(path)} cannot be used.",
        text,
        "Use another file of the model, or a newer localchat.",
    )


def _id_or_none(token_id: int) -> int | None:
    return token_id if token_id >= 0 else None


def _metadata_ids(file: GGUFFile) -> Iterable[int]:
    for key in _END_KEYS:
        yield from _ids_at(file, key)


def _ids_at(file: GGUFFile, key: str) -> Iterable[int]:
    """Of a key that holds one id, some thousand, or none."""
    value = file.metadata.get(key)
    values = value.read() if isinstance(value, ArrayValue) and value.count <= 10_000 else [value]
    for item in values:
        if type(item) is int:
            yield item
