from __future__ import annotations

from gguf.constants import GGML_QUANT_SIZES, LlamaFileType

from models.loaders.ggml_types import FILE_TYPES, GGML_TYPES


def test_sizes_equal_those_of_the_gguf_package() -> None:
    ours = {
        kind.id: (kind.name, (kind.block_values, kind.block_bytes)) for kind in GGML_TYPES.values()
    }
    theirs = {int(kind): (kind.name, sizes) for kind, sizes in GGML_QUANT_SIZES.items()}
    assert ours == theirs


def test_file_type_names_equal_those_of_the_gguf_package() -> None:
    theirs = {
        int(kind): kind.name.removeprefix("MOSTLY_").removeprefix("ALL_").removesuffix("_MOE")
        for kind in LlamaFileType
        if kind.name != "GUESSED"
    }
    assert theirs == FILE_TYPES
