"""Laws of the tokenizers of Hugging Face folders. The oracle is transformers on the same files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from models.errors import ModelFileError, UnsupportedModel
from models.templates.formatter import complete_text
from models.templates.prompt import encode_prompt
from models.templates.rendered import Rendered
from models.templates.turns import Turn
from models.tokenizers.hf_tokenizer import HFTokenizer
from tests.models.hf_tokenizers import CONTROLS, KINDS, write_tokenizer

NASTY = (
    "a 1 22 333 4444 3.14 x1 2y",
    "你好，世界。 これは テスト 한국어",
    "😀👍🏽 👩‍👩‍👧‍👦 🇩🇪",
    "e\u0301 n\u0303 ä ﬁ ½ \u200d \ufeff",
    "one\r\ntwo\r\n\r\nthree\rfour\n\n\nfive",
    "nul\0inside \x07 \x1b[31m",
    "def f(x):\n\treturn {'a': x ** 2}  # done\n\n",
    "  leading, trailing   ",
    "don't I'LL we've \u2019s",
    "▁ already ▁▁ Ġ Ċ <0x0A> <0xFF>",
    " ",
    "\n",
)
SPELLINGS = (*CONTROLS, "<s>", "</s>", "<unk>", "<|im_", "end|>", "</", "s>", " ", "x", "</s", ">")
Pair = tuple[HFTokenizer, PreTrainedTokenizerFast]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Pair]:
    """Of each kind ours and the oracle, from the same folder."""
    made = {}
    for kind in KINDS:
        folder = write_tokenizer(tmp_path_factory.mktemp("tokenizer"), kind)
        made[kind] = HFTokenizer(folder), PreTrainedTokenizerFast.from_pretrained(folder)
    return made


def theirs(oracle: Any, text: str, split: bool = False) -> tuple[int, ...]:
    ids = oracle(text, add_special_tokens=False, split_special_tokens=split)["input_ids"]
    return tuple(ids)


def decoded(tokenizer: HFTokenizer, ids: tuple[int, ...]) -> str:
    return b"".join(map(tokenizer.piece, ids)).decode("utf-8", "replace")


def without_prefix(kind: str, text: str) -> str:
    return text.removeprefix(" ") if kind in ("llama 2", "mistral", "unigram") else text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", NASTY)
def test_ids_of_nasty_texts_are_those_of_transformers(
    pairs: Mapping[str, Pair], kind: str, text: str
) -> None:
    ours, oracle = pairs[kind]
    assert ours.encode(text) == theirs(oracle, text)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "unigram"])
@settings(max_examples=60, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_any_text_gives_the_oracles_ids_and_comes_back(
    pairs: Mapping[str, Pair], kind: str, text: str
) -> None:
    ours, oracle = pairs[kind]
    ids = ours.encode(text)
    assert ids == theirs(oracle, text)
    plain = text.replace("▁", " ") if kind in ("llama 2", "mistral", "gemma") else text
    whole = decoded(ours, ids)
    assert whole in (plain, " " + plain)
    assert decoded(ours, ours.encode_after(text)) == plain


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=80, deadline=None)
@given(pieces=st.lists(st.sampled_from(SPELLINGS), max_size=8))
def test_no_spelling_in_a_text_becomes_a_control_token(
    pairs: Mapping[str, Pair], kind: str, pieces: list[str]
) -> None:
    ours, oracle = pairs[kind]
    text = "".join(pieces)
    unknown = ours.control_tokens.get("<unk>")
    for encode in (ours.encode, ours.encode_section, ours.encode_after):
        ids = encode(text)
        assert not set(ids) & (set(ours.control_tokens.values()) - {unknown})
        assert not set(ids) & ours.end_ids
    if kind != "unigram":
        assert ours.encode(text) == theirs(oracle, text, split=True)
        assert not set(ours.encode(text)) & set(ours.control_tokens.values())


def test_the_search_of_a_vocabulary_is_cut_short(pairs: Mapping[str, Pair]) -> None:
    """There the package itself makes the control token, whatever it is told."""
    ours, oracle = pairs["unigram"]
    end = ours.control_tokens["</s>"]
    assert end in theirs(oracle, "a</s>b", split=True)
    assert end not in ours.encode("a</s>b </s></s>")
    assert decoded(ours, ours.encode("a</s>b </s></s>")) == " a</s>b </s></s>"


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_prompt_has_the_oracles_ids(pairs: Mapping[str, Pair], kind: str) -> None:
    """Runs between control tokens get a space exactly where transformers puts one."""
    ours, oracle = pairs[kind]
    open_, close = ("<|im_start|>", "<|im_end|>") if "<|im_start|>" in ours.control_tokens else (
        "<s>", "</s>",
    )  # fmt: skip
    for text in (
        f"{open_}user\nHello there, the fox{close}\n{open_}assistant\n",
        f"Before {open_}Hello{close}{open_} spaced {close}",
        "only text",
    ):
        rendered = Rendered(text, (), frozenset(), ())
        bos = (ours.bos_id,) if ours.add_bos else ()
        prompt = encode_prompt(rendered, ours)
        expected = theirs(oracle, text)
        assert prompt.ids == (expected if expected[:1] == bos else (*bos, *expected))


def test_text_that_goes_on_joins_as_one_text_does(pairs: Mapping[str, Pair]) -> None:
    for kind in ("llama 2", "mistral", "gemma", "unigram", "qwen"):
        ours, _ = pairs[kind]
        whole = ours.encode("the ") + ours.encode_after("fox")
        assert without_prefix(kind, decoded(ours, whole)) == "the fox"


def test_bos_comes_from_the_post_processor_or_the_setting(tmp_path: Path) -> None:
    plain = HFTokenizer(write_tokenizer(tmp_path / "a", "llama 3"))
    assert plain.add_bos
    assert plain.token_text(plain.bos_id or 0) == "<|begin|>"
    assert not HFTokenizer(write_tokenizer(tmp_path / "b", "llama 3", add_bos_token=False)).add_bos
    assert HFTokenizer(write_tokenizer(tmp_path / "c", "gemma", add_bos_token=True)).add_bos
    none = HFTokenizer(write_tokenizer(tmp_path / "d", "qwen", add_bos_token=True))
    assert (none.bos_id, none.add_bos) == (None, False)


def test_ends_are_the_union_of_all_sources(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path / "a", "llama 3", eos_token="<|end|>")
    (folder / "config.json").write_text(json.dumps({"eos_token_id": 3}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [5, 10**6]}))
    (folder / "special_tokens_map.json").write_text(
        json.dumps({"eos_token": {"content": "<|begin|>"}})
    )
    ours = HFTokenizer(folder)
    named = {ours.control_tokens[text] for text in ("<|end|>", "<|begin|>", "<|im_end|>")}
    assert ours.end_ids == named | {3, 5}


def test_tokens_of_the_settings_are_added_and_named_ones_are_control_tokens(
    tmp_path: Path,
) -> None:
    declared = {
        "600": {"content": "<|late|>", "special": True, "rstrip": True, "normalized": False},
        "601": {"content": "<tool>", "special": False, "normalized": False},
    }
    folder = write_tokenizer(
        tmp_path / "a", "qwen", added_tokens_decoder=declared, eos_token="<think>"
    )
    ours, oracle = HFTokenizer(folder), PreTrainedTokenizerFast.from_pretrained(folder)
    late = ours.control_tokens["<|late|>"]
    assert late == oracle.convert_tokens_to_ids("<|late|>")
    assert ours.strips(late) == (False, True)
    assert late not in ours.encode("<|late|>")
    tool = ours.find("<tool>")
    assert ours.encode("a<tool>b")[1] == tool == oracle.convert_tokens_to_ids("<tool>")
    assert ours.piece(tool or 0) == b"<tool>"
    assert ours.control_tokens["<think>"] in ours.end_ids
    assert ours.control_tokens["<think>"] not in ours.encode("<think>")


def test_control_tokens_add_no_text_and_unknown_ids_none(pairs: Mapping[str, Pair]) -> None:
    ours, _ = pairs["qwen"]
    end = ours.control_tokens["<|im_end|>"]
    assert ours.find("<|im_end|>") == end
    assert (ours.piece(end), ours.token_text(end)) == (b"", "<|im_end|>")
    assert ours.find("no such single token") is None
    for bad in (-1, ours.vocab_size, 2**31):
        assert (ours.piece(bad), ours.token_text(bad)) == (b"", "")


def test_byte_tokens_are_bytes(pairs: Mapping[str, Pair]) -> None:
    ours, _ = pairs["llama 2"]
    ids = ours.encode_after("你")
    assert [ours.piece(i) for i in ids] == [bytes([value]) for value in "你".encode()]


def test_lone_surrogates_become_replacement_marks(pairs: Mapping[str, Pair]) -> None:
    ours, _ = pairs["qwen"]
    assert decoded(ours, ours.encode("a\ud800b")) == "a\ufffdb"


def test_fingerprints_follow_what_decides_over_ids(tmp_path: Path) -> None:
    def fingerprint(name: str, kind: str, **changes: Any) -> str:
        return HFTokenizer(write_tokenizer(tmp_path / name, kind, **changes)).fingerprint

    plain = fingerprint("a", "qwen")
    assert fingerprint("b", "qwen", chat_template="{{ 1 }}") == plain
    others = {
        fingerprint("c", "gemma"),
        fingerprint("d", "qwen", eos_token="<|end|>"),
        fingerprint("e", "qwen", add_bos_token=True),
    }
    assert len({plain, *others}) == 4


def test_many_threads_get_the_same_ids(pairs: Mapping[str, Pair]) -> None:
    ours, _ = pairs["llama 3"]
    texts = [f"text {number} – " * 50 for number in range(40)]
    expected = [ours.encode(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ours.encode, texts)) == expected


@pytest.mark.model
@pytest.mark.parametrize("folder", ["starter_folder", "window_folder"])
def test_real_vocabularies_written_by_transformers(
    request: pytest.FixtureRequest, folder: str
) -> None:
    path = request.getfixturevalue(folder)
    ours, oracle = HFTokenizer(path), AutoTokenizer.from_pretrained(path)
    for text in NASTY:
        assert ours.encode(text) == theirs(oracle, text)
    for text, token_id in ours.control_tokens.items():
        assert token_id not in ours.encode(f"a{text}b{text}")
    prompt = encode_prompt(complete_text([Turn("user", "1 + 1")]), ours)
    assert prompt.ids == tuple(oracle("1 + 1")["input_ids"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no tokenizer that can be read"),
        ("{", "is no JSON"),
        ("[]", "holds no object"),
        ("{}", "tokenizer.json"),
        ('{"model": {"type": "Martian"}}', "tokenizer.json"),
    ],
)
def test_unusable_tokenizers_are_a_readable_error(
    tmp_path: Path, content: str | None, words: str
) -> None:
    folder = write_tokenizer(tmp_path / "a", "qwen")
    (folder / "tokenizer.json").unlink()
    if content is not None:
        (folder / "tokenizer.json").write_text(content)
    with pytest.raises(ModelFileError) as caught:
        HFTokenizer(folder)
    assert words in str(caught.value)
    assert str(caught.value).isprintable()


def test_an_unknown_decoder_is_refused_by_name(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path / "a", "qwen")
    spec = json.loads((folder / "tokenizer.json").read_text())
    spec["decoder"] = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    (folder / "tokenizer.json").write_text(json.dumps(spec))
    with pytest.raises(UnsupportedModel, match="'WordPiece'"):
        HFTokenizer(folder)
