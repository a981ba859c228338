"""What the header of a GGUF file says about embedding with it. Loads no weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.embedding.prefixes import Prefixes, prefixes_for
from engine.errors import OutOfMemory, UnsupportedModel
from models.architectures import EMBEDDING, RUNNABLE
from models.description import files_fingerprint
from models.free_memory import free_memory
from models.header_values import HeaderValues
from models.loaders.split import read_model
from models.sizes import show_bytes, show_name

NEXT_STEP = "Choose an embedding model, or none: documents are then searched by their words."
MOST_TOKENS = 1_024
"""Of a text; the rest has no say. A chunk of 900 characters has 200 to 500."""
POOLED = frozenset({1, 2, 3})
"""Mean, first token, last token: one vector a text. 0 is none, 4 a reranker's score."""


@dataclass(frozen=True, slots=True)
class EmbeddingHeader:
    path: Path
    """The first file."""
    name: str
    architecture: str
    prefixes: Prefixes
    file_bytes: int
    fingerprint: str
    """Of the weights, the tokenizer and the words in front."""
    unknown_id: int | None


def read_header(path: Path) -> EmbeddingHeader:
    """Raises ModelNotFound, ModelFileError, UnsupportedModel, OutOfMemory."""
    files = read_model(path)
    header = HeaderValues(files.first)
    name = show_name(files.first.path)
    architecture = header.text("general.architecture")
    if architecture not in EMBEDDING and architecture not in RUNNABLE:
        raise UnsupportedModel(
            f"{name} cannot embed.",
            f"Its architecture {architecture[:80]!r} is not known to this version.",
            NEXT_STEP,
        )
    if header.integer(f"{architecture}.pooling_type") not in POOLED:
        raise UnsupportedModel(
            f"{name} is no embedding model.",
            "Its header does not say how the vectors of its tokens become one of the text.",
            NEXT_STEP,
        )
    check_memory(name, files.byte_count)
    title = header.text("general.name")[:200]
    prefixes = prefixes_for(architecture, title, header.text("general.basename")[:200], name)
    return EmbeddingHeader(
        path=files.first.path,
        name=name,
        architecture=architecture,
        prefixes=prefixes,
        file_bytes=files.byte_count,
        fingerprint=f"{name} {files_fingerprint(files)} {MOST_TOKENS}",
        unknown_id=header.integer("tokenizer.ggml.unknown_token_id"),
    )


def check_memory(name: str, needed: int) -> None:
    free = free_memory()
    if needed > free:
        raise OutOfMemory(
            f"{name} does not fit into the memory.",
            f"It has {show_bytes(needed)}; {show_bytes(free)} are free.",
            "Close other programs, or choose a smaller embedding model.",
        )
