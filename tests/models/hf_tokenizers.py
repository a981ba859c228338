"""Small tokenizers of the kinds that models come with, written as Hugging Face folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

CORPUS = [
    "The quick brown fox jumps over the lazy dog. It's 2024, isn't it?",
    "def main(argv):\n    for i in range(10):\n        print(i, 'x' * 3)\n",
    "Ein Straßenköter läuft 1234 Meter; 你好，世界。 Привет, мир! 😀 👍🏽",
    "user assistant system <end> hello hello hello the the the and and of of",
] * 4
QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA_3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|").replace(r"\p{N}| ?", r"\p{N}{1,3}| ?")
CONTROLS = ("<|begin|>", "<|end|>", "<|im_start|>", "<|im_end|>")
BYTE_TOKENS = [f"<0x{value:02X}>" for value in range(256)]


def special(text: str, **flags: bool) -> AddedToken:
    return AddedToken(text, special=True, normalized=False, **flags)


def byte_level(pattern: str = LLAMA_3) -> Tokenizer:
    """As Llama 3 and Qwen: a split by a pattern, then bytes; BOS by the post-processor."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=pattern == LLAMA_3))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens([special(text) for text in CONTROLS])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False)])
    if pattern == LLAMA_3:
        bos = tokenizer.token_to_id("<|begin|>")
        tokenizer.post_processor = processors.TemplateProcessing(
            "<|begin|> $A", special_tokens=[("<|begin|>", bos)]
        )
    return tokenizer


def sentencepiece(prefix: str) -> Tokenizer:
    """As Llama 2 (`prefix` normalizer), Mistral (`first`) and Gemma (`none`): bytes where the
    vocabulary has no letter.
    """
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    sign = normalizers.Replace(" ", "▁")
    if prefix == "normalizer":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), sign])
    elif prefix == "first":
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        tokenizer.normalizer = sign
    steps: list[Any] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps)
    tokens = ["<unk>", "<s>", "</s>", *BYTE_TOKENS]
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=tokens, show_progress=False)
    tokenizer.train_from_iterator([text.replace("你", "") for text in CORPUS], trainer)
    return _with_specials(tokenizer, ["<unk>", "<s>", "</s>"])


def unigram() -> Tokenizer:
    """A vocabulary that lists its control tokens, which its search finds in text by itself."""
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0)]
    letters = sorted(set("".join(CORPUS) + "</>") - {" "})
    pieces += [("▁", -3.0), *((letter, -4.0) for letter in letters), ("▁the", -2.0), ("▁a", -2.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.add_special_tokens([special(text) for text in ("<unk>", "<s>", "</s>")])
    return tokenizer


def _with_specials(tokenizer: Tokenizer, kept: list[str]) -> Tokenizer:
    """Byte tokens of the trainer are no added tokens in real files."""
    spec = json.loads(tokenizer.to_str())
    spec["added_tokens"] = [one for one in spec["added_tokens"] if one["content"] in kept]
    return Tokenizer.from_str(json.dumps(spec))


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "llama 3": byte_level,
    "qwen": lambda: byte_level(QWEN),
    "llama 2": lambda: sentencepiece("normalizer"),
    "mistral": lambda: sentencepiece("first"),
    "gemma": lambda: sentencepiece("none"),
    "unigram": unigram,
}
NAMES: dict[str, dict[str, str]] = {
    "llama 3": {"bos_token": "<|begin|>", "eos_token": "<|im_end|>"},
    "qwen": {"eos_token": "<|im_end|>", "pad_token": "<|end|>"},
    **{
        kind: {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
        for kind in ("llama 2", "mistral", "gemma", "unigram")
    },
}


def write_tokenizer(folder: Path, kind: str, **settings: Any) -> Path:
    """The tokenizer's files, and an empty config.json where there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    KINDS[kind]().save(str(folder / "tokenizer.json"))
    named = {**NAMES[kind], "tokenizer_class": "PreTrainedTokenizerFast", **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    if not (folder / "config.json").exists():
        (folder / "config.json").write_text("{}")
    return folder
