"""The launches that docs/kernels.md names are those of the decoder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernels.weight_planes import empty_planes
from tests.kernels.triton.dry_run import dry_run
from tests.kernels.triton.meta_model import CONFIG, decoder, pools, step

FILE = Path(__file__).parents[4] / "docs" / "kernels.md"
LAYERS = len(CONFIG.layers)
PASSES = {
    "decode step, drafts": ("bf16", [1]),
    "decode step, packed weights": ("Q4_K", [1]),
    "prompt, packed weights": ("Q4_K", [64]),
}


def documented() -> dict[str, list[str]]:
    """Of one layer, by the pass."""
    section = FILE.read_text(encoding="utf-8").partition("## Launches")[2].partition("\n## ")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return {line[0].strip(): line[1].replace("`", "").split() for line in lines[2:]}


@pytest.mark.parametrize("name", PASSES)
def test_a_layer_launches_what_is_written(name: str) -> None:
    kind, new = PASSES[name]
    is_packed = kind != "bf16"
    matrix = (lambda shape: empty_planes(kind, shape, torch.device("meta"))) if is_packed else None
    model = decoder(CONFIG, matrix=matrix)
    room = model.workspace(sum(new), 1).part(sum(new), 1)
    with dry_run(90) as launches:
        model.forward(step(CONFIG, new, 1), pools(CONFIG, "q8"), room=room)
    # The embedding before, the last norm and the head behind.
    names = [one.name for one in launches][1:-2]
    assert names == documented()[name] * LAYERS


def test_every_pass_is_known() -> None:
    assert documented().keys() == PASSES.keys()
