"""One run: where it measures, what it has found, and how it goes on after what fails.

A part that raises is named and the next one begins. A device that a kernel has led astray answers
this process no more, and one that hangs never does: the rest is done in a new process then.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
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
from tests.bench.gpu import device_tests, floors, plan
from tests.bench.gpu.ceilings import CEILINGS
from tests.bench.gpu.plan import Point
from tests.bench.gpu.rig import Rig
from tests.bench.gpu.shapes import SHAPES, TINY

ENVIRONMENT = {
    "TRITON_CACHE_DIR": str(Path("build", "triton").resolve()),
    "TRITON_DEFAULT_FP_FUSION": "1",
    "OMP_NUM_THREADS": "1",
}
"""For all processes of a run: what one compiles the others find, and none takes all cores."""
LIMIT_S = 150
"""Of what is named in a report, a model at one kind of weights for instance, without a sign."""
TESTS_LIMIT_S = 330
LOST = "the device was lost: the rest was done in a new process"

Part = Callable[["Run"], Any]
"""Its result, or an iterator of its results."""


@dataclass
class Run:
    """`report` grows with each result, and so does its file `out`."""

    rig: Rig
    is_dry: bool
    is_quick: bool
    deadline: float
    """As `time.time` counts: it is that of a new process too."""
    out: Path | None = None
    report: dict[str, Any] = field(default_factory=dict)
    again: Callable[[], None] | None = None
    """Does the rest in a new process; None: there is no other."""
    _part: str = ""
    _silent_from: float = math.inf
    """When it is given up, by `time.monotonic`."""

    @staticmethod
    def of(is_dry: bool, is_quick: bool, minutes: float, out: Path | None = None) -> Run | None:
        """None: there is no device."""
        device = torch.device("cpu") if is_dry else device_tests.device()
        if device.type == "cpu" and not is_dry:
            return None
        if is_dry:
            torch.set_num_threads(1)
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        rig = Rig(device, rounds=1) if is_dry else Rig(device)
        run = Run(rig, is_dry, is_quick, time.time() + 60 * minutes, out)
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

    @property
    def ceilings(self) -> dict[str, float]:
        """NaN for what was not measured."""
        found = self.report.get("ceilings", {})
        return {name: math.nan if found.get(name) is None else found[name] for name in CEILINGS}

    @property
    def seconds_left(self) -> float:
        return self.deadline - time.time()

    def goes_on(self) -> bool:
        return self.seconds_left > 0

    def points(self, points: Sequence[Point]) -> Sequence[Point]:
        """Of a plan, what fits the device."""
        chosen = tuple(points)
        chosen = plan.quick(chosen) if self.is_quick else chosen
        chosen = plan.dry(chosen) if self.is_dry else chosen
        room = self.rig.free_bytes()
        return [one for one in chosen if _needed(self.shapes[one.shape], one) <= room]

    @contextmanager
    def naming(self, name: str, limit_s: float = LIMIT_S) -> Iterator[None]:
        """What fails inside is named in the report, and the run goes on."""
        self._silent_from = time.monotonic() + limit_s
        try:
            yield
        except Exception as error:
            traceback.print_exc()
            self.report["broken"][name] = f"{type(error).__name__}: {error}"[:500]

    def do(self, name: str, part: Part) -> None:
        if not self.goes_on():
            self.report["left_out"].append(name)
            return
        print(f"{name} ...", file=sys.stderr, flush=True)
        started, before = time.monotonic(), len(self.report["broken"])
        self._part = name
        with self.naming(name, TESTS_LIMIT_S if name == "tests" else LIMIT_S):
            self._keep(name, part(self))
        if len(self.report["broken"]) > before and not self.rig.answers():
            self.leave(LOST)
        with self.naming(f"memory after {name}"):
            self.rig.forget()
        self._silent_from = math.inf
        self.report["seconds"][name] = round(time.monotonic() - started, 1)
        self.write()

    def watch(self) -> None:
        """From now on leave what gives no sign for too long."""

        def wait() -> None:
            while time.monotonic() < self._silent_from:
                time.sleep(1)
            self.leave("no sign for too long: the rest was done in a new process")

        threading.Thread(target=wait, daemon=True).start()

    def leave(self, why: str) -> None:
        """End this part and this process; the other parts are done in a new one, if there is any
        to do them.
        """
        if self.again is None:
            return
        self.report["broken"][f"{self._part}, left"] = why
        self.report["seconds"][self._part] = -1
        self.write()
        self.again()

    def write(self) -> None:
        if self.out is not None:
            text = json.dumps(_without_nan(self.report), indent=1)
            self.out.write_text(text + "\n", encoding="utf-8")

    def _keep(self, name: str, result: Any) -> None:
        if not isinstance(result, Iterator):
            self.report[name] = result
            return
        kept = self.report[name] = []
        for one in result:
            kept.append(one)
            self.write()


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


def _without_nan(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, dict):
        return {key: _without_nan(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and math.isnan(value) else value
