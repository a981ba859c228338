"""Makes the `tokenizers` object of a Hugging Face folder, so that no text becomes a control token.

Knows the layout of `tokenizer.json` and which of the folder's other files add tokens to it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tokenizers import AddedToken, Tokenizer

from models.errors import ModelFileError, UnsupportedModel
from models.hf_folder import TOKENIZER, FolderFiles, token_content

_MAX_BYTES = 512 << 20
_NAMED = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token")
_LISTED = ("additional_special_tokens", "extra_special_tokens")
Step = dict[str, Any]


def read_spec(files: FolderFiles) -> dict[str, Any]:
    path = files.path / TOKENIZER
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise _unusable(files, "It is too large.")
        spec = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise UnsupportedModel(
            f"{files.name} has no tokenizer that can be read.",
            f"There is no {TOKENIZER} in it; other tokenizer files are not read.",
            f"Get the model with its {TOKENIZER}, or as a GGUF file.",
        ) from error
    except OSError as error:
        raise _unusable(files, f"It cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise _unusable(files, f"It is no JSON: {str(error)[:200]}.") from error
    if not isinstance(spec, dict):
        raise _unusable(files, "It holds no object.")
    return spec


def build_tokenizer(files: FolderFiles, spec: Mapping[str, Any]) -> Tokenizer:
    """With every special token known as such, and none of them matched in text."""
    try:
        tokenizer = Tokenizer.from_str(json.dumps(spec))
    except Exception as error:  # the package raises nothing narrower
        raise _unusable(files, f"{str(error)[:200]}.") from error
    if tokenizer.get_vocab_size() == 0:
        raise _unusable(files, "It names no tokens.")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    for token in _declared(files):
        tokenizer.add_tokens([token])
    known = {token.content: token for token in tokenizer.get_added_tokens_decoder().values()}
    for content in _special_texts(files):
        if tokenizer.token_to_id(content) is not None:
            token = copy.copy(known.get(content)) or AddedToken(content, normalized=False)
            token.special = True
            tokenizer.add_special_tokens([token])
    tokenizer.encode_special_tokens = True
    return tokenizer


def _declared(files: FolderFiles) -> Iterator[AddedToken]:
    """Tokens that only tokenizer_config.json adds, in the order of their ids."""
    declared = files.tokenizer.get("added_tokens_decoder")
    if not isinstance(declared, dict):
        return
    numbered = sorted((int(key), one) for key, one in declared.items() if key.isdigit())
    for _, one in numbered:
        if content := token_content(one):
            flags = {
                name: bool(one.get(name)) for name in ("single_word", "lstrip", "rstrip", "special")
            }
            yield AddedToken(content, normalized=bool(one.get("normalized", True)), **flags)


def _special_texts(files: FolderFiles) -> Iterator[str]:
    for source in (files.tokenizer, files.special_tokens):
        for name in _NAMED:
            if content := token_content(source.get(name)):
                yield content
        for name in _LISTED:
            listed = source.get(name)
            values = list(listed.values()) if isinstance(listed, dict) else listed
            if isinstance(values, list):
                yield from filter(None, map(token_content, values))


def without_prefix(spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same tokenizer without the space that it puts before a text; None when it puts none."""
    bare = {key: value for key, value in spec.items() if key not in ("normalizer", "pre_tokenizer")}
    bare["normalizer"] = _map_steps(spec.get("normalizer"), _no_prepending)
    bare["pre_tokenizer"] = _map_steps(spec.get("pre_tokenizer"), _no_leading_space)
    same = all(bare[key] == spec.get(key) for key in ("normalizer", "pre_tokenizer"))
    return None if same else bare


def prefix_once(spec: Mapping[str, Any]) -> bool:
    """Whether only the very beginning of a prompt gets the space, and no text behind a control
    token.
    """
    found = json.dumps(spec.get("pre_tokenizer"))
    return '"prepend_scheme": "first"' in found


def _map_steps(part: Any, change: Callable[[Step], Step | None]) -> Any:
    """A pipeline with every step changed; a step changed to None goes."""
    if not isinstance(part, dict):
        return part
    for name in ("normalizers", "pretokenizers"):
        if isinstance(part.get(name), list):
            steps = (_map_steps(step, change) for step in part[name])
            return {**part, name: [step for step in steps if step is not None]}
    return change(part)


def _no_prepending(step: Step) -> Step | None:
    return None if step.get("type") == "Prepend" else step


def _no_leading_space(step: Step) -> Step:
    if step.get("type") == "Metaspace" and step.get("prepend_scheme", "always") != "never":
        plain = {key: value for key, value in step.items() if key != "add_prefix_space"}
        return {**plain, "prepend_scheme": "never"}
    if step.get("type") == "ByteLevel" and step.get("add_prefix_space", True):
        return {**step, "add_prefix_space": False}
    return step


def _unusable(files: FolderFiles, text: str) -> ModelFileError:
    return ModelFileError(
        f"The tokenizer of {files.name} cannot be used.",
        f"{TOKENIZER}: {text}",
        "Download the file again, or get the model as a GGUF file.",
    )
