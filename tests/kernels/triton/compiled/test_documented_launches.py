"""The launches that docs/kernels.md names are those of the decoder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernels.weight_planes import empty_planes
from models.candidates import CandidateChooser
from models.token_choice import RULES, TokenChooser
from tests.kernels.triton.dry_run import dry_run
from tests.kernels.triton.meta_model import CONFIG, NoNewMemory, decoder, empty, pools, step

FILE = Path(__file__).parents[4] / "docs" / "kernels.md"
LAYERS = len(CONFIG.layers)
PASSES = {
    "decode step, drafts": ("bf16", [1]),
    "decode step, packed weights": ("Q4_K", [1]),
    "prompt, packed weights": ("Q4_K", [64]),
}
BEFORE, BEHIND, CHOICE = "before the layers", "behind the layers", "choice of a token"


def documented() -> dict[str, list[str]]:
    """Of one layer by the pass, and around the layers."""
    section = FILE.read_text(encoding="utf-8").partition("## Launches")[2].partition("\n## ")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    cells = ([cell.strip() for cell in line] for line in lines)
    return {one[0]: one[1].replace("`", "").split() for one in cells if one[1].startswith("`")}


@pytest.mark.parametrize("name", PASSES)
def test_a_layer_launches_what_is_written(name: str) -> None:
    kind, new = PASSES[name]
    is_packed = kind != "bf16"
    matrix = (
        (lambda name, shape: empty_planes(kind, shape, torch.device("meta"))) if is_packed else None
    )
    model = decoder(CONFIG, matrix=matrix)
    room = model.workspace(sum(new), 1).part(sum(new), 1)
    with dry_run(90) as launches:
        model.forward(step(CONFIG, new, 1), pools(CONFIG, "q8"), room=room)
    written = documented()
    whole = [*written[BEFORE], *written[name] * LAYERS, *written[BEHIND]]
    assert [one.name for one in launches] == whole


def test_the_choice_of_a_token_launches_what_is_written() -> None:
    """For the architecture that the candidates are compiled for anyway."""
    ops, device = decoder(CONFIG, (8, 0)).ops, torch.device("meta")
    candidates = CandidateChooser(ops, CONFIG.vocab_size, 4, device)
    tokens = TokenChooser(ops, candidates.count, 4, device)
    logits = empty(4, CONFIG.vocab_size, dtype=torch.float32)
    rules = empty(4, len(RULES), dtype=torch.float64)
    with dry_run(80) as launches, NoNewMemory() as memory:
        tokens.choose(candidates.choose(logits), rules)
    assert [one.name for one in launches] == documented()[CHOICE]
    assert not memory.found


def test_every_line_is_known() -> None:
    assert documented().keys() == {*PASSES, BEFORE, BEHIND, CHOICE}
