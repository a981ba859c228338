"""Runs a freshly loaded decoder on two tokens: weights that overflow or hold NaN are found before
anybody waits for an answer."""

from __future__ import annotations

import torch

from kernels.kv_layout import BLOCK_TOKENS
from models.decoder import Decoder
from models.errors import ModelFileError
from models.kv_groups import kv_layouts
from models.kv_storage import make_pools
from models.model_input import ModelInput

KV_FORMATS: dict[torch.dtype, str] = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
}
"""Plain storage for each dtype of activations."""


def check_finite(decoder: Decoder, name: str) -> None:
    """`name`: of the model's file or folder, for the message.

    Raises ModelFileError when a logit of either token is NaN or infinite.
    """
    device = decoder.weights.norm.device
    layouts = kv_layouts(decoder.config, KV_FORMATS[decoder.weights.dtype])
    # Block 0 of a pool holds no tokens.
    pools = make_pools(layouts, [2] * len(layouts), device)
    positions = torch.arange(2, device=device)
    given = ModelInput(
        tokens=torch.arange(2, device=device).clamp(max=decoder.config.vocab_size - 1),
        positions=positions,
        slots=tuple(BLOCK_TOKENS + positions for _ in pools),
        first_row=torch.tensor([0, 2], device=device),
        lengths=torch.tensor([2], device=device),
        tables=tuple(torch.ones(1, 1, dtype=torch.int64, device=device) for _ in pools),
        wanted=positions,
        new=(2,),
    )
    wrong = int((~torch.isfinite(decoder.forward(given, pools))).sum())
    if wrong:
        raise ModelFileError(
            f"{name} computes nonsense.",
            f"On two tokens {wrong:,} of {2 * decoder.config.vocab_size:,} values are no finite "
            f"numbers: its weights are damaged, or too large for {_short(decoder.weights.dtype)}.",
            "Download the model again, or use another version of it.",
        )


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
