"""A safetensors folder in, one GGUF file out, for llama.cpp.

Everything that can be refused is refused before the first weight is written. Memory is bounded by a
chunk of rows, not by the model.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.config import ModelConfig
from models.conversion.gguf_file import (
    FILE_TYPES,
    Progress,
    atomic,
    byte_count,
    new_writer,
    require_room,
    write_header,
    write_tensors,
)
from models.conversion.hyperparameters import ARCHITECTURES
from models.conversion.metadata import ModelFacts, add_metadata, read_license
from models.conversion.proof import prove
from models.conversion.tensors import Kind, PlannedTensor, plan_tensors
from models.conversion.vocabulary import Vocabulary, read_vocabulary
from models.errors import LoadingStopped
from models.hf_config import config_from_hf
from models.hf_folder import FolderFiles, read_folder
from models.loaders.safetensors_index import read_safetensors
from models.sizes import show_name
from models.tokenizers.hf_tokenizer import HFTokenizer

_HEADER_ROOM = 1 << 20
"""Bytes for the table of tensors and the padding between them."""


@dataclass(frozen=True)
class _Plan:
    files: FolderFiles
    config: ModelConfig
    reference: HFTokenizer
    vocabulary: Vocabulary
    tensors: tuple[PlannedTensor, ...]
    kind: Kind

    def writer(self) -> Any:
        """A GGUFWriter with all key-values."""
        writer = new_writer(ARCHITECTURES[self.config.family].name)
        folder = self.files.path.resolve()
        facts = ModelFacts(show_name(folder), read_license(folder))
        add_metadata(writer, facts, self.config, self.vocabulary)
        writer.add_file_type(FILE_TYPES[self.kind])
        return writer


def ignore_progress(done: int, total: int) -> bool:
    """For conversions that nobody watches."""
    return True


def convert_folder(
    folder: Path,
    target_folder: Path,
    kind: Kind = "Q8_0",
    progress: Progress = ignore_progress,
) -> Path:
    """Writes `<name>-<kind>.gguf` into `target_folder` and returns its path.

    Raises what `convert_to` raises.
    """
    return convert_to(folder, target_folder / converted_name(folder, kind), kind, progress)


def converted_name(folder: Path, kind: Kind) -> str:
    return f"{folder.resolve().name}-{kind}.gguf"


def convert_to(
    folder: Path, target: Path, kind: Kind = "Q8_0", progress: Progress = ignore_progress
) -> Path:
    """Writes the model of `folder` as the GGUF file `target`, completely or not at all.

    Matrices are stored as `kind` (Q8_0: rows that are no multiple of 32 values as F16), all else as
    F32. `progress` gets bytes written and in all; False stops.

    Raises:
        ModelNotFound, ModelFileError: the folder is incomplete or damaged.
        UnsupportedModel: llama.cpp cannot run it, or would read text differently; the text names
            the setting, or the text that becomes other tokens.
        LocalchatError: no room on the disk (with figures), or the system refuses to write.
        LoadingStopped: `progress` returned False.
    """
    plan = _plan(folder, kind)
    tensor_bytes = sum(map(byte_count, plan.tensors))
    if not progress(0, tensor_bytes):
        raise LoadingStopped("The conversion was stopped.")
    with atomic(target) as temporary:
        header = _prove(plan, target.parent)
        require_room(target.parent, header + _HEADER_ROOM + tensor_bytes)
        writer = plan.writer()
        try:
            write_header(writer, temporary, plan.tensors)
            write_tensors(writer, plan.tensors, progress)
        finally:
            writer.close()
    return target


def _plan(folder: Path, kind: Kind) -> _Plan:
    files = read_folder(folder)
    config = config_from_hf(files.config)
    weights = read_safetensors(folder)
    tensors = plan_tensors(config, weights, files.config, kind)
    reference = HFTokenizer(folder)
    vocabulary = read_vocabulary(files, config.vocab_size, reference)
    return _Plan(files, config, reference, vocabulary, tensors, kind)


def _prove(plan: _Plan, folder: Path) -> int:
    """Proves the tokenizer with a file that holds nothing else; returns the file's bytes."""
    with tempfile.TemporaryDirectory(prefix=".vocabulary.", dir=folder) as place:
        path = Path(place) / "vocabulary.gguf"
        writer = plan.writer()
        try:
            write_header(writer, path)
        finally:
            writer.close()
        prove(plan.reference, path, plan.vocabulary)
        return path.stat().st_size
