"""The tokenizer of a converted file: llama.cpp's kind is derived from the structure, and proven."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from models.conversion import vocabulary as vocabularies
from models.conversion.convert import convert_folder
from models.conversion.pre_tokenizer import TokenizerKind, tokenizer_kind
from models.conversion.proof_texts import PROOF_TEXTS
from models.errors import UnsupportedModel
from models.tokenizers.gguf_vocab import GGUFTokenizer
from models.tokenizers.hf_tokenizer import HFTokenizer
from tests.models.conversion_folders import (
    GPT_4O_NAME,
    PRE_TOKENIZERS,
    byte_level,
    sentence_pieces,
    tiny_llama,
    write_model,
    write_tokenizer,
)
from tests.models.hf_models import FAMILIES

EXACT = ("llama-bpe", "smaug-bpe", "qwen2", "smollm", "gpt-2")
SPACES = ("prepended", "first", "always", "never", "replaced")
KINDS: dict[str, Callable[[], Tokenizer]] = {
    **{pre: (lambda pre=pre: byte_level(pre)) for pre in EXACT},
    # llama.cpp tells capitals from small letters in ASCII only: elsewhere no merge may run over
    # the place where such a model would have cut.
    GPT_4O_NAME: lambda: byte_level(GPT_4O_NAME, own_cuts=True),
    **{space: (lambda space=space: sentence_pieces(space)) for space in SPACES},
}
OTHER_TEXTS = (
    "Words,  and   many    spaces \n\n\n in      between",
    "Zwölf Boxkämpfer jagen 23 Viktor über den großen Sylter Deich. \t\t 4 5  6",
    "x = y[3:] if z else -1  # ½ done\r\n\r\n",
    "Ich hab's; I'VE 'em   ",
    "<s> and </s> and <|im_end|> typed by a person",
)


def converted(folder: Path, target: Path) -> GGUFTokenizer:
    return GGUFTokenizer(convert_folder(folder, target, "F16"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_ids_as_the_folders_tokenizer(kind: str, tmp_path: Path) -> None:
    write_model(tmp_path / "m", FAMILIES["llama"], KINDS[kind]())
    tokenizer, reference = converted(tmp_path / "m", tmp_path), HFTokenizer(tmp_path / "m")
    for text in (*OTHER_TEXTS, *PROOF_TEXTS):
        assert tokenizer.encode(text) == reference.encode(text), text
        assert tokenizer.encode_section(text) == reference.encode_section(text), text
        assert tokenizer.encode_after(text) == reference.encode_after(text), text
        pieces = [tokenizer.piece(token_id) for token_id in tokenizer.encode(text)]
        assert pieces == [reference.piece(token_id) for token_id in reference.encode(text)], text
    assert tokenizer.control_tokens.items() >= reference.control_tokens.items()
    assert tokenizer.bos_id == reference.bos_id
    assert tokenizer.eos_id == reference.eos_id
    assert reference.end_ids <= tokenizer.end_ids
    for text in OTHER_TEXTS:
        pieces = [tokenizer.piece(i) for i in tokenizer.encode(text)]
        assert b"".join(pieces).decode().strip() == text.strip()
    tokenizer.close()


def derived(kind: str) -> TokenizerKind:
    make = KINDS.get(kind, lambda: byte_level(kind))
    return tokenizer_kind(json.loads(make().to_str()))


def test_where_llama_cpps_own_kind_is_not_exact_the_folder_is_refused(tmp_path: Path) -> None:
    tokenizer = byte_level("tekken", own_cuts=True)
    write_model(tmp_path / "m", FAMILIES["llama"], tokenizer)
    with pytest.raises(UnsupportedModel, match=r"kind tekken the text '\\u0928"):
        convert_folder(tmp_path / "m", tmp_path / "out", "F16")


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
def test_the_kind_follows_from_the_structure(pre: str) -> None:
    assert derived(pre).pre == pre


def test_a_split_that_keeps_what_it_matches_is_the_same_structure() -> None:
    spec = json.loads(byte_level("qwen2").to_str())
    split = spec["pre_tokenizer"]["pretokenizers"][0]
    split["behavior"], split["invert"] = "Removed", True
    assert tokenizer_kind(spec).pre == "qwen2"


SAME_CUTS = [{"llama-bpe", "smaug-bpe"}]
"""Only words that no merge makes tell them apart."""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [pair for pair in itertools.permutations(PRE_TOKENIZERS, 2) if set(pair) not in SAME_CUTS],
    ids=lambda pre: pre,
)
def test_a_wrong_kind_is_refused_naming_the_text(
    right: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_llama(tmp_path / "m", right)
    false = replace(derived(right), pre=wrong)
    monkeypatch.setattr(vocabularies, "tokenizer_kind", lambda spec: false)
    with pytest.raises(UnsupportedModel, match=rf"kind {wrong} the text ['\"].+['\"] becomes \["):
        convert_folder(tmp_path / "m", tmp_path / "out", "F16")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("right", "false"),
    [
        ("qwen2", {"normalizer": ""}),
        ("prepended", {"space": "never"}),
        ("prepended", {"space": "unless there"}),
        ("first", {"space": "always"}),
        ("always", {"space": "first"}),
        ("replaced", {"model": "llama", "pre": "default", "space": "always"}),
    ],
)
def test_a_wrong_normalizer_or_space_is_refused(
    right: str, false: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(tmp_path / "m", FAMILIES["llama"], KINDS[right]())
    wrong = replace(derived(right), **false)
    monkeypatch.setattr(vocabularies, "tokenizer_kind", lambda spec: wrong)
    with pytest.raises(UnsupportedModel, match="the text"):
        convert_folder(tmp_path / "m", tmp_path / "out", "F16")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda t: setattr(t, "normalizer", normalizers.NFKC()), "normalizer.*NFKC"),
        (lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.Whitespace()), "Whitespace"),
        (
            lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.ByteLevel()),
            "ByteLevel add_prefix_space True",
        ),
        (
            lambda t: setattr(
                t,
                "pre_tokenizer",
                pre_tokenizers.Sequence(
                    [pre_tokenizers.Digits(), pre_tokenizers.ByteLevel(add_prefix_space=False)]
                ),
            ),
            "individual_digits False",
        ),
    ],
    ids=["normalizer", "pre-tokenizer", "space first", "runs of digits"],
)
def test_an_unknown_structure_is_refused_by_name(
    change: Callable[[Tokenizer], Any], named: str, tmp_path: Path
) -> None:
    tokenizer = byte_level("gpt-2")
    change(tokenizer)
    with pytest.raises(UnsupportedModel, match=named):
        tokenizer_kind(json.loads(tokenizer.to_str()))


def test_another_algorithm_is_refused_by_name() -> None:
    spec = json.loads(Tokenizer(models.Unigram([("a", 0.0)])).to_str())
    with pytest.raises(UnsupportedModel, match="Unigram"):
        tokenizer_kind(spec)


def test_pieces_without_byte_tokens_are_refused(tmp_path: Path) -> None:
    tokenizer = sentence_pieces("replaced")
    tokenizer.model.byte_fallback = False
    with pytest.raises(UnsupportedModel, match="single bytes"):
        tokenizer_kind(json.loads(tokenizer.to_str()))


def with_token(tokenizer: Tokenizer, token: AddedToken) -> Tokenizer:
    tokenizer.add_special_tokens([token]) if token.special else tokenizer.add_tokens([token])
    return tokenizer


def test_white_space_that_a_control_token_swallows_is_known_to_the_file(tmp_path: Path) -> None:
    token = AddedToken("<|user|>", special=True, normalized=False, lstrip=True, rstrip=True)
    tokenizer = with_token(byte_level("gpt-2"), token)
    write_model(tmp_path / "phi-3 Phi3", FAMILIES["llama"], tokenizer)
    made = converted(tmp_path / "phi-3 Phi3", tmp_path)
    assert made.strips(tokenizer.token_to_id("<|user|>")) == (True, True)
    assert made.strips(tokenizer.token_to_id("<s>")) == (False, False)
    made.close()


def test_a_token_with_a_zero_byte_is_refused_before_llama_cpp_sees_it(tmp_path: Path) -> None:
    tokenizer = with_token(byte_level("gpt-2"), AddedToken("a\0b", normalized=False))
    write_model(tmp_path / "m", FAMILIES["llama"], tokenizer)
    with pytest.raises(UnsupportedModel, match="zero byte"):
        convert_folder(tmp_path / "m", tmp_path / "out", "F16")


def test_a_token_without_a_row_is_refused_unless_no_text_makes_it(tmp_path: Path) -> None:
    tokenizer = byte_level("gpt-2")
    write_model(tmp_path / "m", FAMILIES["llama"], tokenizer)
    for index in range(5):
        image = AddedToken(f"<image {index}>", special=True, normalized=False)
        tokenizer.add_special_tokens([image])
    write_tokenizer(tmp_path / "m", tokenizer)
    converted(tmp_path / "m", tmp_path).close()
    tokenizer.add_tokens([AddedToken("[typed]", normalized=False)])
    write_tokenizer(tmp_path / "m", tokenizer)
    with pytest.raises(UnsupportedModel, match=r"\[typed\] has the id 910"):
        convert_folder(tmp_path / "m", tmp_path / "out", "F16")


def test_without_a_token_before_a_prompt_llama_cpps_own_is_not_taken(tmp_path: Path) -> None:
    write_model(tmp_path / "m", FAMILIES["llama"], byte_level("qwen2"))
    (tmp_path / "m" / "tokenizer_config.json").write_text('{"eos_token": "</s>"}')
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    config["bos_token_id"] = None
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    made = converted(tmp_path / "m", tmp_path)
    assert made.bos_id is None
    assert not made.add_bos
    made.close()


def test_the_chat_template_and_ends_are_in_the_file(tmp_path: Path) -> None:
    from models.description import describe

    tokenizer = byte_level("llama-bpe")
    write_model(tmp_path / "m", FAMILIES["llama"], tokenizer)
    (tmp_path / "m" / "chat_template.jinja").write_text("{{ messages[0].content }}")
    end = tokenizer.token_to_id("<|im_end|>")
    (tmp_path / "m" / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, end]}))
    path = convert_folder(tmp_path / "m", tmp_path, "F16")
    assert describe(path).template == "{{ messages[0].content }}"
    made = GGUFTokenizer(path)
    assert {1, end, tokenizer.token_to_id("</s>")} <= made.end_ids
    made.close()
