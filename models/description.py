"""What a model is, from its headers alone: size, shape, context, tokenizer ids, chat template.

Loads no weights and needs no native code. Raises before anything is allocated when the file is
damaged or of a kind that cannot run.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from models.architectures import NOT_FOR_CHAT, RUNNABLE
from models.errors import UnsupportedModel
from models.folder_description import describe_folder
from models.header_values import HeaderValues
from models.hf_folder import is_model_folder
from models.layers import layer_shapes
from models.loaders.ggml_types import FILE_TYPES
from models.loaders.gguf import ArrayValue, GGUFFile
from models.loaders.split import ModelFiles, read_model
from models.model_description import ModelDescription, SpecialIds, template_hash
from models.shape_checks import check_shapes
from models.sizes import show_name, show_text
from models.tokenizers.gguf_vocab import tokenizer_fingerprint

TRAINED_CONTEXT = "localchat.trained_context"
"""Key of our converted files: what the model was trained on, where less of it is usable."""
_SAMPLES = 32
_SAMPLE_BYTES = 4096
_KNOWN_ROPE_SCALINGS = ("none", "linear", "yarn", "longrope")


def describe(path: Path) -> ModelDescription:
    """Read and check a GGUF file's header, or a safetensors folder.

    Raises ModelNotFound, ModelFileError or UnsupportedModel.
    """
    return describe_folder(path) if is_model_folder(path) else describe_gguf(path)


def describe_gguf(path: Path) -> ModelDescription:
    """Raises ModelNotFound, ModelFileError or UnsupportedModel."""
    files = read_model(path)
    header = HeaderValues(files.first)
    architecture = _architecture(files, header)
    shapes = layer_shapes(header, architecture)
    embedding = header.positive(f"{architecture}.embedding_length")
    vocab_size = _vocab_size(files, header)
    check_shapes(files, header, architecture, shapes, embedding, vocab_size)
    _check_rope(files, header, architecture)
    template = header.text("tokenizer.chat_template") or None
    return ModelDescription(
        path=files.first.path,
        files=tuple(part.path for part in files.parts),
        name=show_name(files.first.path),
        title=show_text(header.text("general.name")[:200]),
        architecture=architecture,
        quantization=_quantization(files, header),
        parameters=sum(_values(tensor.shape) for tensor in files.tensors),
        weights_bytes=sum(tensor.byte_count for tensor in files.tensors),
        file_bytes=files.byte_count,
        ctx_train=header.integer(f"{architecture}.context_length") or None,
        layers=shapes.layers,
        embedding=embedding,
        heads=shapes.heads,
        shapes=shapes,
        feed_forward=max(header.integers(f"{architecture}.feed_forward_length"), default=0),
        vocab_size=vocab_size,
        fingerprint=files_fingerprint(files),
        tokenizer=tokenizer_fingerprint(files.first),
        template=template,
        template_hash=template_hash(template),
        ids=_special_ids(header, vocab_size),
        license=show_text(header.text("general.license")[:200]),
        context_before_conversion=header.integer(TRAINED_CONTEXT),
    )


def _architecture(files: ModelFiles, header: HeaderValues) -> str:
    name = header.text("general.architecture")
    if name in RUNNABLE and header.text("general.type") in ("", "model"):
        return name
    title = f"{show_name(files.first.path)} cannot be used."
    kind = header.text("general.type")[:80]
    if not name:
        reason = "Its header names no architecture."
    elif name in NOT_FOR_CHAT:
        reason = f"It is {NOT_FOR_CHAT[name]} ({name})."
    elif name in RUNNABLE:
        reason = f"It holds no whole model but what is called {kind!r}."
    else:
        reason = f"Its architecture {name[:80]!r} is not known to this version."
    raise UnsupportedModel(title, reason, "Use another model, or a newer localchat.")


def _check_rope(files: ModelFiles, header: HeaderValues, architecture: str) -> None:
    kind = header.text(f"{architecture}.rope.scaling.type")
    if kind and kind not in _KNOWN_ROPE_SCALINGS:
        raise UnsupportedModel(
            f"{show_name(files.first.path)} cannot be used.",
            f"Its position scaling {kind[:80]!r} is not known to this version.",
            "Use another model, or a newer localchat.",
        )


def _vocab_size(files: ModelFiles, header: HeaderValues) -> int:
    tokens = files.metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, ArrayValue) or tokens.count == 0:
        raise UnsupportedModel(
            f"{show_name(files.first.path)} cannot be used.",
            "It holds no vocabulary (tokenizer.ggml.tokens).",
            "Get a GGUF file that was converted together with its tokenizer.",
        )
    for key in ("tokenizer.ggml.scores", "tokenizer.ggml.token_type"):
        other = files.metadata.get(key)
        if isinstance(other, ArrayValue) and other.count != tokens.count:
            raise header.damaged(f"{key} has {other.count:,} entries for {tokens.count:,} tokens")
    return tokens.count


def _special_ids(header: HeaderValues, vocab_size: int) -> SpecialIds:
    def token_id(name: str) -> int | None:
        key = f"tokenizer.ggml.{name}_token_id"
        values = header.integers(key)
        for value in values:
            # -1 in two's complement is how some writers say "none".
            if value in (-1, 2**32 - 1):
                continue
            if not 0 <= value < vocab_size:
                raise header.damaged(f"{key} is {value:,}, outside the {vocab_size:,} tokens")
        valid = [value for value in values if 0 <= value < vocab_size]
        return valid[0] if valid else None

    for name in ("unknown", "padding", "seperator", "separator"):
        token_id(name)
    add_bos = header.value("tokenizer.ggml.add_bos_token")
    return SpecialIds(
        token_id("bos"),
        token_id("eos"),
        token_id("eot"),
        token_id("eom"),
        add_bos if isinstance(add_bos, bool) else None,
    )


def _quantization(files: ModelFiles, header: HeaderValues) -> str:
    """The file's own word where it has one, else the storage type with the most bytes."""
    file_type = header.integer("general.file_type")
    if file_type is not None and file_type in FILE_TYPES:
        return FILE_TYPES[file_type]
    sizes: dict[str, int] = {}
    for tensor in files.tensors:
        sizes[tensor.type.name] = sizes.get(tensor.type.name, 0) + tensor.byte_count
    return max(sizes, key=lambda name: sizes[name])


def _values(shape: tuple[int, ...]) -> int:
    count = 1
    for dimension in shape:
        count *= dimension
    return count


def files_fingerprint(files: ModelFiles) -> str:
    """Header bytes, sizes and evenly spread samples of the weights of every part."""
    digest = hashlib.sha256()
    for part in files.parts:
        _hash_part(digest, part)
    return digest.hexdigest()[:32]


def _hash_part(digest: hashlib._Hash, part: GGUFFile) -> None:
    digest.update(part.byte_count.to_bytes(8, "little"))
    with part.path.open("rb") as stream:
        digest.update(stream.read(part.data_offset))
        room = max(part.byte_count - part.data_offset - _SAMPLE_BYTES, 0)
        for index in range(_SAMPLES):
            stream.seek(part.data_offset + room * index // (_SAMPLES - 1))
            digest.update(stream.read(_SAMPLE_BYTES))
