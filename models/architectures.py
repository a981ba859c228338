"""Which architectures the llama.cpp build runs, and the few facts of them that a header does not
say.

Tables only.
"""

from __future__ import annotations

RUNNABLE: frozenset[str] = frozenset(
    [
        "afmoe",
        "apertus",
        "arcee",
        "arctic",
        "arwkv7",
        "baichuan",
        "bailingmoe",
        "bailingmoe2",
        "bailingmoe3",
        "bitnet",
        "bloom",
        "chameleon",
        "chatglm",
        "codeshell",
        "cogvlm",
        "cohere2",
        "cohere2moe",
        "command-r",
        "dbrx",
        "deci",
        "deepseek",
        "deepseek2",
        "deepseek2-ocr",
        "deepseek32",
        "deepseek4",
        "dots1",
        "ernie4_5",
        "ernie4_5-moe",
        "exaone",
        "exaone-moe",
        "exaone4",
        "falcon",
        "falcon-h1",
        "gemma",
        "gemma2",
        "gemma3",
        "gemma3n",
        "gemma4",
        "glm-dsa",
        "glm4",
        "glm4moe",
        "gpt-oss",
        "gpt2",
        "gptj",
        "gptneox",
        "granite",
        "granitehybrid",
        "granitemoe",
        "grok",
        "grovemoe",
        "hunyuan-dense",
        "hunyuan-moe",
        "hunyuan_vl",
        "internlm2",
        "jais",
        "jais2",
        "jamba",
        "kimi-linear",
        "laguna",
        "lfm2",
        "lfm2moe",
        "llama",
        "llama4",
        "maincoder",
        "mamba",
        "mamba2",
        "mellum",
        "mimo2",
        "minicpm",
        "minicpm3",
        "minimax-m2",
        "mistral3",
        "mistral4",
        "mpt",
        "nanbeige",
        "nemotron",
        "nemotron_h",
        "nemotron_h_moe",
        "olmo",
        "olmo2",
        "olmoe",
        "openelm",
        "orion",
        "paddleocr",
        "pangu-embedded",
        "phi2",
        "phi3",
        "phimoe",
        "plamo",
        "plamo2",
        "plamo3",
        "plm",
        "qwen",
        "qwen2",
        "qwen2moe",
        "qwen2vl",
        "qwen3",
        "qwen35",
        "qwen35moe",
        "qwen3moe",
        "qwen3next",
        "qwen3vl",
        "qwen3vlmoe",
        "refact",
        "rwkv6",
        "rwkv6qwen2",
        "rwkv7",
        "seed_oss",
        "smallthinker",
        "smollm3",
        "stablelm",
        "starcoder",
        "starcoder2",
        "step35",
        "xverse",
    ]
)
"""Names of `general.architecture` that can answer a chat."""

EMBEDDING: tuple[str, ...] = (
    "bert",
    "modern-bert",
    "nomic-bert",
    "nomic-bert-moe",
    "neo-bert",
    "jina-bert-v2",
    "jina-bert-v3",
    "eurobert",
    "gemma-embedding",
    "llama-embed",
)
"""Made for embedding; some of RUNNABLE were trained further for it."""

NOT_FOR_CHAT: dict[str, str] = {
    **dict.fromkeys(EMBEDDING, "an embedding model, which writes no text"),
    **dict.fromkeys(
        ("t5", "t5encoder"), "an encoder-decoder model, which needs another kind of engine"
    ),
    **dict.fromkeys(
        ("dream", "llada", "llada-moe", "rnd1"),
        "a diffusion model, which does not write token by token",
    ),
    "clip": "an image encoder, which belongs beside a language model",
    "wavtokenizer-dec": "an audio decoder, which writes no text",
    "gemma4-assistant": "a draft model for another one",
    "eagle3": "a draft model for another one",
    "dflash": "a draft model for another one",
}
"""Known, and of no use here, with the reason."""

WINDOW_PERIOD: dict[str, int] = {
    "gemma2": 2,
    "gpt-oss": 2,
    "cohere2": 4,
    "exaone4": 4,
    "llama4": 4,
    "olmo2": 4,
    "smallthinker": 4,
    "afmoe": 4,
    "gemma3n": 5,
    "gemma3": 6,
}
"""Of n layers in turn the last attends to everything, the others to a window, unless the header
says otherwise."""

RECURRENT: frozenset[str] = frozenset(["arwkv7", "mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7"])
"""No attention at all: the memory of a sequence has a fixed size."""

HYBRID: frozenset[str] = frozenset(
    [
        "falcon-h1",
        "granitehybrid",
        "jamba",
        "kimi-linear",
        "lfm2",
        "lfm2moe",
        "nemotron_h",
        "nemotron_h_moe",
        "plamo2",
        "qwen35",
        "qwen35moe",
        "qwen3next",
    ]
)
"""Some layers are recurrent."""

PLAIN: frozenset[str] = frozenset(
    ["gemma", "gemma2", "gemma3", "llama", "mistral3", "qwen2", "qwen3", "smollm3"]
)
"""Separate q, k, v and output matrices in each layer, of the sizes that the head counts give."""
