"""Tiny random models with a tokenizer each, saved as Hugging Face folders."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import PreTrainedConfig, PreTrainedModel

from models.conversion.pre_tokenizer import GPT_4O, LLAMA_3, QWEN_2, TEKKEN
from models.conversion.proof_texts import PROOF_TEXTS
from tests.models.hf_models import SIZES, hf_model

BYTE_TOKENS = [f"<0x{value:02X}>" for value in range(256)]
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
GPT_2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
GPT_4O_NAME = "granite-embed-multi-97m"
SPECIAL = ("<unk>", "<s>", "</s>", "<|im_end|>")
_RARE = set("𠜎Ω\n\0")
"""Letters that only bytes spell."""


def byte_level(pre: str, size: int = 900, own_cuts: bool = False) -> Tokenizer:
    """As the models that llama.cpp calls `pre`, trained on the proof's texts: on whole texts, so
    that merges run over every place where two kinds differ, or as such models are trained.
    """
    tokenizer = Tokenizer(models.BPE(ignore_merges=pre in ("llama-bpe", "tekken")))
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet, show_progress=False, max_token_length=9
    )
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre] if own_cuts else BYTES
    tokenizer.train_from_iterator(PROOF_TEXTS, trainer)
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre]
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    return _with_tokens(tokenizer)


def _split(pattern: str) -> Any:
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), BYTES])


PRE_TOKENIZERS: dict[str, Any] = {
    "llama-bpe": _split(LLAMA_3),
    "smaug-bpe": _split(LLAMA_3),
    "qwen2": _split(QWEN_2),
    "tekken": _split(TEKKEN),
    GPT_4O_NAME: _split(GPT_4O),
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), GPT_2]),
    "gpt-2": GPT_2,
}
"""By llama.cpp's name."""


def sentence_pieces(space: str) -> Tokenizer:
    """`space`: `prepended` as Llama 2, `first` as Mistral, `replaced` as Gemma, or a scheme of
    Metaspace. Every way to make a token is listed, as in files made from SentencePiece.
    """
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.BpeTrainer(vocab_size=1700, show_progress=False, max_token_length=12)
    words.train_from_iterator((" ".join(text.split("\n")) for text in PROOF_TEXTS), trainer)
    learned = sorted(words.get_vocab().items(), key=lambda item: item[1])
    tokens = [text for text, _ in learned if not set(text) & _RARE]
    tokens = [*(text for text in tokens if len(text) > 1), "▁▁", "▁▁▁▁", *filter(_single, tokens)]
    named = [*SPECIAL[:3], *BYTE_TOKENS, *tokens]
    vocabulary = {text: index for index, text in enumerate(named)}
    tokenizer = Tokenizer(
        models.BPE(vocabulary, _all_merges(tokens), unk_token="<unk>", byte_fallback=True)
    )
    if space == "prepended":
        steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        tokenizer.normalizer = normalizers.Sequence(steps)
    elif space == "replaced":
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=space, split=False)
    parts: list[Any] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(parts)
    if space == "replaced":  # Gemma names runs of spaces and of line breaks besides
        runs = [AddedToken(text, normalized=False) for text in ("▁▁", "▁▁▁▁", "\n\n")]
        tokenizer.add_tokens(runs)
    return _with_tokens(tokenizer, user_defined=space not in ("first", "always"))


def _single(text: str) -> bool:
    return len(text) == 1


def _all_merges(tokens: list[str]) -> list[tuple[str, str]]:
    ranks = {text: rank for rank, text in enumerate(tokens)}
    merges: list[tuple[str, str]] = []
    for text in tokens:
        halves = [(text[:cut], text[cut:]) for cut in range(1, len(text))]
        known = [pair for pair in halves if pair[0] in ranks and pair[1] in ranks]
        merges += sorted(known, key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
    return merges


def _with_tokens(tokenizer: Tokenizer, user_defined: bool = True) -> Tokenizer:
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in SPECIAL])
    if user_defined:
        tokenizer.add_tokens([AddedToken("<think>", normalized=False)])
    return tokenizer


def write_tokenizer(folder: Path, tokenizer: Tokenizer, **settings: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    named = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps({**named, **settings}))
    return folder


def write_model(
    folder: Path, config: PreTrainedConfig, tokenizer: Tokenizer, **settings: Any
) -> PreTrainedModel:
    """The model, float32; its vocabulary has some rows more than the tokenizer tokens."""
    config = copy.deepcopy(config)
    text = getattr(config, "text_config", config)
    text.vocab_size = tokenizer.get_vocab_size() + 3
    model = hf_model(config)
    model.save_pretrained(folder, **settings)
    write_tokenizer(folder, tokenizer)
    return model


def tiny_llama(folder: Path, pre: str = "llama-bpe", **changes: Any) -> PreTrainedModel:
    config = transformers.LlamaConfig(**{**SIZES, "num_hidden_layers": 1, **changes})
    return write_model(folder, config, byte_level(pre))


def half(model: PreTrainedModel) -> PreTrainedModel:
    """The same with every value rounded to 16 bit."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half().float())
    return model


def rope(**parameters: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_theta": 10_000.0, **parameters}}


YARN_ROPE = rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)
LLAMA_3_ROPE = rope(
    rope_type="llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=32,
)
