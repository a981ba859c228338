"""Everything that passes launch is launched while a model is loaded: the first launch of a variant
compiles it, for seconds.

Nothing is compiled here: what Triton tells variants apart by is noted instead.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from triton.runtime.jit import JITFunction

from engine.backends.base import Row
from engine.backends.torch_paged.backend import TorchPagedBackend
from engine.backends.torch_paged.batch import model_input
from engine.backends.torch_paged.graphs import Runner
from engine.backends.torch_paged.held import Held, Run, Span
from engine.backends.torch_paged.pass_kinds import all_kinds, kind_of
from engine.backends.torch_paged.settings import PagedSettings
from models.decoder import Decoder
from models.kv_groups import kv_groups
from tests.bench.gpu import compiling, plan
from tests.kernels.triton.meta_model import GEMMA, decoder, pools

DEVICE = torch.device("meta")
ARCHITECTURE = 90
BLOCK, ROWS, PASSES = 64, 512, 30
PROMPTS = (1, 2, 5, 17, 20, 33, 60, 100, 300)


def fact(param: Any, value: object) -> object:
    """What a variant depends on of an argument."""
    if isinstance(value, Tensor):
        is_free = param.do_not_specialize or param.do_not_specialize_on_alignment
        return value.dtype, is_free or value.data_ptr() % 16 == 0
    if isinstance(value, int) and not (param.is_constexpr or isinstance(value, bool)):
        return None if param.do_not_specialize else (value == 1, value % 16 == 0)
    return type(value) if isinstance(value, float) else value


class Launches:
    """Takes the place of `JITFunction.run`."""

    def __init__(self) -> None:
        self.variants: set[object] = set()

    def note(self, kernel: JITFunction, given: dict[str, Any]) -> None:
        facts = {one.name: fact(one, given.pop(one.name)) for one in kernel.params}
        self.variants.add((kernel.__name__, repr(facts), repr(given)))


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    found = Launches()

    def run(self: JITFunction, *, grid: object, warmup: bool, **given: Any) -> Any:
        found.note(self, given)
        return SimpleNamespace(src=SimpleNamespace(signature={}, constants={}, attrs={}))

    monkeypatch.setattr(JITFunction, "run", run)
    # A recording runs what it records, and no tensor here has numbers.
    monkeypatch.setattr(Runner, "capture", lambda self, key, pass_of_kind: pass_of_kind())
    monkeypatch.setattr(Decoder, "key_rule", "none")
    return found


def some_rows(made: random.Random) -> list[Row]:
    """A prompt or two beside answers."""
    answers = [Row(n, 0, (0,), True) for n in range(made.randint(0, 6))]
    prompts = [
        Row(6 + n, 0, (0,) * made.choice(PROMPTS), made.random() < 0.5)
        for n in range(made.randint(1, 2))
    ]
    return answers + prompts


@pytest.mark.parametrize("heads", [8, 16, 32])
def test_no_pass_launches_what_was_not_launched_before(launches: Launches, heads: int) -> None:
    config = replace(GEMMA, heads=heads)
    model, held = decoder(config), pools(config, "q8")
    settings = PagedSettings(
        1024, 1 << 30, config.vocab_size, device="meta", dtype="bfloat16", kv_type="q8",
        max_rows=ROWS, records=True,
    )  # fmt: skip
    backend = TorchPagedBackend(model, config, settings)
    backend.warm_up(lambda done, total: True)
    assert not any("recorded" in one for one in backend.notices)
    warm = set(launches.variants)
    spans = [Span(group.window, BLOCK) for group in kv_groups(config)]

    def plain(rows: Sequence[Row]) -> None:
        runs = [tuple(Run(0, [0] * span.end(len(row.ids))) for span in spans) for row in rows]
        given = model_input(rows, [Held(0, one) for one in runs], spans, DEVICE)
        model.forward(given, held)

    made = random.Random(0)
    kinds = all_kinds(settings.max_sequences, settings.max_rows, settings.spare)
    passes = [some_rows(made) for _ in range(PASSES)]
    for rows in (one for one in passes if kind_of(one, kinds) is None):
        plain(rows)
    assert not launches.variants - warm


def test_what_is_measured_on_a_device_can_be_compiled_before(launches: Launches) -> None:
    wanted = compiling.jobs([*plan.DECODE, *plan.PREFILL])
    kinds = {(job.shape, job.weights): job for job in wanted}
    for job in kinds.values():
        assert "decode_attention_kernel" in {
            *compiling.compile_job(replace(job, tokens=1), ARCHITECTURE)
        }
