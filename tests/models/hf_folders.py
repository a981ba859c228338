"""Whole tiny models as Hugging Face folders: random weights, a tokenizer and a chat template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers

from tests.models.hf_models import hf_model
from tests.models.hf_tokenizers import write_tokenizer

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCAB = 419
"""As many as the tokenizer has tokens; more are padding."""

SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "bos_token_id": None,
    "pad_token_id": None,
    "eos_token_id": None,
}


def write_folder(
    folder: Path, template: str | None = TEMPLATE, dtype: torch.dtype = torch.float32, **sizes: Any
) -> Path:
    """A Llama with the byte-level tokenizer of Qwen."""
    folder.mkdir(parents=True)
    config = transformers.LlamaConfig(**{**SIZES, **sizes})
    hf_model(config).to(dtype).save_pretrained(folder)
    settings = {} if template is None else {"chat_template": template}
    return write_tokenizer(folder, "qwen", **settings)


def change_config(folder: Path, **changes: Any) -> None:
    """A value of None takes the key out."""
    file = folder / "config.json"
    values = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({key: v for key, v in values.items() if v is not None}))


def greedy_answer(folder: Path, question: str, count: int) -> tuple[list[int], list[int]]:
    """Prompt and greedy answer to a first question, by transformers."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    turns = [{"role": "user", "content": question}]
    found = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt")
    prompt = found["input_ids"]
    ends = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|end|>"])
    said = model.generate(
        prompt, max_new_tokens=count, do_sample=False, eos_token_id=ends, pad_token_id=ends[0]
    )
    return prompt[0].tolist(), said[0, prompt.shape[1] :].tolist()
