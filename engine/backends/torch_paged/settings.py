"""What a paged backend is opened with."""

from __future__ import annotations

from dataclasses import dataclass

MAX_ROWS = 2048
# Tokens beyond its window that a sequence keeps: as many can be taken back without a restore point.
SPARE_TOKENS = 64
BLOCK_TOKENS = 64


@dataclass(frozen=True, slots=True)
class PagedSettings:
    ctx: int
    """Most tokens of one sequence."""
    pool_bytes: int
    """Most bytes of all KV pools together."""
    vocab_size: int
    """Ids that the tokenizer knows; output rows beyond them are padding."""
    device: str = "cpu"
    dtype: str = "float32"
    """Of the activations: `float32`, `bfloat16` or `float16`."""
    kv_type: str = "auto"
    test_ids: tuple[int, ...] = ()
    """Ids of `self_test_text.TEXT`; only `q4` needs them."""
    block: int = BLOCK_TOKENS
    max_sequences: int = 8
    max_rows: int = MAX_ROWS
    spare: int = SPARE_TOKENS
    kernels: str = "auto"
    """`auto`, `triton` or `reference`: which implementation of each op is wanted."""
    weights: str = "auto"
    """`auto`: as the file has them; `int8`: matrices of safetensors are rounded to 8 bits."""
    records: bool = False
    """Whether passes of usual shapes are recorded once and replayed."""

    @property
    def repacks(self) -> bool:
        """Whether packed weights are laid out for kernels."""
        return self.device != "cpu" and self.kernels != "reference"

    @property
    def rounds(self) -> bool:
        """Whether matrices become 8-bit integers."""
        return self.weights == "int8"
