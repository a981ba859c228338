"""The parts of a run, in order, and what they share."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from models.config import ModelConfig
from models.decoder_memory import parameter_count
from tests.bench.gpu import beside, compiling, device_tests, floors, plan, speed, synthetic
from tests.bench.gpu.ceilings import ceilings
from tests.bench.gpu.loop import loop
from tests.bench.gpu.plan import Point
from tests.bench.gpu.rig import Rig
from tests.bench.gpu.shapes import SHAPES, TINY
from tests.gpu.pass_checks import memory

ENVIRONMENT = {
    "TRITON_CACHE_DIR": str(Path("build", "triton").resolve()),
    "TRITON_DEFAULT_FP_FUSION": "1",
}
"""For all processes of a run: what one compiles the others find."""


@dataclass
class Run:
    """`report` grows with each part."""

    rig: Rig
    is_dry: bool
    is_quick: bool
    deadline: float
    report: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(is_dry: bool, is_quick: bool, minutes: float) -> Run | None:
        """None: there is no device."""
        device = torch.device("cpu") if is_dry else device_tests.device()
        if device.type == "cpu" and not is_dry:
            return None
        if is_dry:
            torch.set_num_threads(1)
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        rig = Rig(device, rounds=1) if is_dry else Rig(device)
        run = Run(rig, is_dry, is_quick, time.monotonic() + 60 * minutes)
        run.report = {
            "device": rig.name,
            "capability": rig.kernels.capability,
            "torch": torch.__version__,
            "triton": _version(),
            "dry": is_dry,
            "seconds": {},
            "broken": {},
            "left_out": [],
        }
        return run

    @property
    def shapes(self) -> dict[str, ModelConfig]:
        return dict.fromkeys(SHAPES, TINY) if self.is_dry else SHAPES

    def goes_on(self) -> bool:
        return time.monotonic() < self.deadline

    def points(self, points: Sequence[Point]) -> Sequence[Point]:
        """Of a plan, what fits the device."""
        chosen = tuple(points)
        chosen = plan.quick(chosen) if self.is_quick else chosen
        chosen = plan.dry(chosen) if self.is_dry else chosen
        room = self.rig.free_bytes()
        return [one for one in chosen if _needed(self.shapes[one.shape], one) <= room]

    @contextmanager
    def naming(self, name: str) -> Iterator[None]:
        """What fails inside is named in the report, and the run goes on."""
        try:
            yield
        except Exception as error:
            traceback.print_exc()
            self.report["broken"][name] = f"{type(error).__name__}: {error}"[:500]

    def do(self, name: str, part: Callable[[Run], Any]) -> None:
        if not self.goes_on():
            self.report["left_out"].append(name)
            return
        print(f"{name} ...", file=sys.stderr, flush=True)
        started = time.monotonic()
        with self.naming(name):
            self.report[name] = part(self)
        self.rig.forget()
        self.report["seconds"][name] = round(time.monotonic() - started, 1)


def _needed(config: ModelConfig, point: Point) -> float:
    """Bytes of weights, and of keys and values at the greatest length."""
    weights = parameter_count(config) * floors.WEIGHT_BYTES[point.weights]
    return weights + floors.attention_bytes(config, point.kv, max(point.lengths))


def _version() -> str:
    try:
        import triton
    except ImportError:
        return "none"
    return str(triton.__version__)


def _tests(run: Run) -> dict[str, Any]:
    """While they run, other processes compile what is measured afterwards."""
    jobs = compiling.jobs([*run.points(plan.DECODE), *run.points(plan.PREFILL)])
    if run.is_dry:
        return {**device_tests.run_dry(run.rig), "compile_jobs": len(jobs), "compiled": 0}
    major, minor = run.rig.kernels.capability or (0, 0)
    pool, compiled = compiling.start(jobs, 10 * major + minor)
    found = device_tests.run_all()
    pool.shutdown(wait=True)
    failed = [str(one.exception())[:300] for one in compiled if one.exception() is not None]
    done = len(compiled) - len(failed)
    return {**found, "compile_jobs": len(jobs), "compiled": done, "not_compiled": failed}


def _ceilings(run: Run) -> dict[str, float]:
    return ceilings(run.rig)


Measure = Callable[[Rig, Point, Any, dict[str, float]], list[dict[str, Any]]]


def _speeds(points: Sequence[Point], measure: Measure) -> Callable[[Run], list[dict[str, Any]]]:
    def part(run: Run) -> list[dict[str, Any]]:
        return list(_measured(run, run.points(points), measure))

    return part


def _measured(run: Run, points: Sequence[Point], measure: Measure) -> Iterator[dict[str, Any]]:
    for point, decoder in speed.models(run.rig, points, run.shapes, run.goes_on):
        if decoder is None:
            run.report["left_out"].append(f"{measure.__name__} {point}")
            continue
        with run.naming(f"{measure.__name__} {point}"):
            yield from measure(run.rig, point, decoder, run.report["ceilings"])
        # The next one is made while nothing holds this one.
        del decoder


def _attention(run: Run) -> list[dict[str, Any]]:
    config = run.shapes["8B"]
    length = plan.DRY_LENGTH if run.is_dry else plan.ATTENTION_LENGTH
    found = []
    for kv in plan.ATTENTION_KV:
        with run.naming(f"attention {kv}"):
            found.append(speed.attention(run.rig, config, kv, length, run.report["ceilings"]))
    return found


def _torch_attention(run: Run) -> list[dict[str, float]]:
    config = run.shapes["8B"]
    long, prompt = (plan.DRY_LENGTH, 32) if run.is_dry else (plan.ATTENTION_LENGTH, 4096)
    return [
        beside.torch_attention(run.rig, config, long),
        beside.torch_attention(run.rig, config, prompt, prompt),
    ]


def _generate(run: Run) -> list[dict[str, Any]]:
    tokens = 4 if run.is_dry else 64
    wanted = [(shape, False) for shape in plan.GENERATED] + [(plan.COMPILED, True)]
    found = []
    for shape, is_static in wanted:
        if run.is_quick or not run.goes_on():
            run.report["left_out"].append(f"generate {shape}")
            continue
        cache = "static" if is_static else "dynamic"
        with run.naming(f"generate {shape} {cache}"):
            result = beside.generate(run.rig, run.shapes[shape], tokens, is_static)
            found.append({"shape": shape, "cache": cache, **result})
        run.rig.forget()
    return found


def _loop(run: Run) -> list[dict[str, Any]]:
    """The smallest shape: there the engine's own work weighs the most."""
    decoder = synthetic.decoder(run.rig, run.shapes["0.6B"], "bf16")
    tokens = 6 if run.is_dry else 256
    batches = (1, 2) if run.is_dry else (1, 8)
    return [one for count in batches for one in loop(run.rig, decoder, tokens, count)]


def _memory(run: Run) -> dict[str, float]:
    if run.is_dry:
        return memory(run.rig, TINY, 128, 64)
    return memory(run.rig, SHAPES["0.6B"], 32_768)


PARTS: dict[str, Callable[[Run], Any]] = {
    "tests": _tests,
    "ceilings": _ceilings,
    "decode": _speeds(plan.DECODE, speed.decode),
    "attention": _attention,
    "prefill": _speeds(plan.PREFILL, speed.prefill),
    "hit": _speeds(plan.HIT, speed.hit),
    "torch_attention": _torch_attention,
    "loop": _loop,
    "memory": _memory,
    "generate": _generate,
}
"""The most telling first; the one that may be cut short last."""
