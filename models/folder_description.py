"""What a Hugging Face folder is, from config.json, the weights' headers and the texts beside them.

Loads no weights and needs no tensor library. Raises before anything is allocated when the folder is
incomplete or of a kind that cannot run.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from models.config import ModelConfig
from models.errors import UnsupportedModel
from models.hf_config import config_from_hf
from models.hf_folder import (
    CONFIG,
    TOKENIZER,
    FolderFiles,
    folder_name,
    read_folder,
    token_ids,
    weight_files,
)
from models.layers import LayerShapes
from models.loaders.safetensors_index import read_safetensors
from models.loaders.safetensors_plan import plan_safetensors
from models.model_description import ModelDescription, SpecialIds, template_hash
from models.sizes import show_text
from models.tokenizers.fingerprint import folder_fingerprint

_LICENSE = re.compile(r"^license:[ \t]*([\w.+-]+)", re.MULTILINE)
_README_BYTES = 8192


def describe_folder(path: Path) -> ModelDescription:
    """Read and check a folder's files. Raises ModelFileError or UnsupportedModel."""
    files = read_folder(path)
    weight_files(path)
    config = folder_config(files)
    _check_tokenizer(files)
    weights = read_safetensors(path)
    plan_safetensors(weights, config)
    return ModelDescription(
        path=path,
        files=tuple(shard.path for shard in weights.shards),
        name=files.name,
        title=folder_name(path),
        architecture=config.family,
        quantization=weights.dtype,
        parameters=weights.parameters,
        weights_bytes=weights.weights_bytes,
        file_bytes=weights.file_bytes,
        ctx_train=config.context,
        layers=len(config.layers),
        embedding=config.hidden,
        heads=config.heads,
        shapes=_shapes(config),
        feed_forward=config.feed_forward,
        vocab_size=config.vocab_size,
        fingerprint=_fingerprint(path, weights.fingerprint()),
        tokenizer=folder_fingerprint(files),
        template=files.template,
        template_hash=template_hash(files.template),
        ids=_special_ids(files),
        license=_license(path),
        format="safetensors",
    )


def folder_config(files: FolderFiles) -> ModelConfig:
    """Raises UnsupportedModel naming the folder and what is unknown in it."""
    try:
        return config_from_hf(files.config)
    except UnsupportedModel as error:
        reason = f"{error.title} {error.text}".strip()
        raise UnsupportedModel(
            f"{files.name} cannot be used.", show_text(reason), error.next_step
        ) from error


def _check_tokenizer(files: FolderFiles) -> None:
    if not (files.path / TOKENIZER).is_file():
        raise UnsupportedModel(
            f"{files.name} cannot be used.",
            f"It holds no {TOKENIZER}; other kinds of tokenizer files are not read.",
            f"Get the model with its {TOKENIZER}, or as a GGUF file.",
        )


def _shapes(config: ModelConfig) -> LayerShapes:
    windows = [layer.window for layer in config.layers if layer.window is not None]
    return LayerShapes(
        heads=config.heads,
        kv_heads=(config.kv_heads,) * len(config.layers),
        key_length=config.head_size,
        value_length=config.head_size,
        window=max(windows, default=None),
        window_layers=tuple(layer.window is not None for layer in config.layers),
        recurrent_layers=0,
        recurrent_values=0,
    )


def _special_ids(files: FolderFiles) -> SpecialIds:
    said = files.tokenizer.get("add_bos_token")
    return SpecialIds(
        bos=next(token_ids(files.config.get("bos_token_id")), None),
        eos=next(token_ids(files.config.get("eos_token_id")), None),
        eot=None,
        eom=None,
        add_bos=said if isinstance(said, bool) else None,
    )


def _fingerprint(path: Path, weights: str) -> str:
    digest = hashlib.sha256((path / CONFIG).read_bytes())
    digest.update(weights.encode())
    return digest.hexdigest()[:32]


def _license(path: Path) -> str:
    """As the head of README.md names it; empty when it does not."""
    try:
        with (path / "README.md").open("rb") as stream:
            head = stream.read(_README_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    found = _LICENSE.search(head)
    return found[1][:200] if found else ""
