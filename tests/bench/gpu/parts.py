"""The parts of a run, in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from itertools import groupby
from typing import Any

from tests.bench.gpu import beside, compiling, device_tests, plan, speed, synthetic
from tests.bench.gpu.ceilings import CEILINGS, READINGS
from tests.bench.gpu.loop import loop
from tests.bench.gpu.plan import Point
from tests.bench.gpu.rig import Rig
from tests.bench.gpu.run import Part, Run
from tests.bench.gpu.shapes import SHAPES, TINY
from tests.gpu.pass_checks import memory

TESTS_SHARE = 0.6
"""Of the time that is left: the tests may not take all of it where kernels compile slowly."""


def _tests(run: Run) -> dict[str, Any]:
    """While they run, other processes compile what is measured afterwards."""
    jobs = compiling.jobs([*run.points(plan.DECODE), *run.points(plan.PREFILL)])
    if run.is_dry:
        return {**device_tests.run_dry(run.rig), "compile_jobs": len(jobs), "compiled": 0}
    major, minor = run.rig.kernels.capability or (0, 0)
    limit_s = min(device_tests.LIMIT_S, TESTS_SHARE * run.seconds_left)
    pool, compiling_now = compiling.start(jobs, 10 * major + minor)
    found = device_tests.run_all(limit_s)
    done, late = wait(compiling_now, max(limit_s - found["seconds"], 1))
    # What is late is compiled where it is measured.
    pool.shutdown(wait=False, cancel_futures=True)
    failed = [str(one.exception())[:300] for one in done if one.exception() is not None]
    failed += [f"{len(late)} were not done in {limit_s:.0f} s"] if late else []
    compiled = sum(one.exception() is None for one in done)
    return {**found, "compile_jobs": len(jobs), "compiled": compiled, "not_compiled": failed}


def _ceilings(run: Run) -> dict[str, float]:
    """Each for itself: without one of them times are measured all the same."""
    found = dict.fromkeys(CEILINGS, math.nan)
    for name, measure in CEILINGS.items():
        with run.naming(f"ceilings {name}"):
            found[name] = measure(run.rig)
    readings = [found[name] for name in READINGS if not math.isnan(found[name])]
    return {**found, "read_bytes_per_s": max(readings, default=math.nan)}


Measure = Callable[[Rig, Point, Any, dict[str, float]], list[dict[str, Any]]]


def _speeds(points: Sequence[Point], measure: Measure) -> Part:
    def part(run: Run) -> Iterator[dict[str, Any]]:
        for (shape, weights), group in groupby(
            run.points(points), lambda one: (one.shape, one.weights)
        ):
            with run.naming(f"{measure.__name__} {shape} {weights}"):
                yield from _of_model(run, shape, weights, list(group), measure)
            run.rig.forget()

    return part


def _of_model(
    run: Run, shape: str, weights: str, points: list[Point], measure: Measure
) -> Iterator[dict[str, Any]]:
    """Points that share a model, which is made once."""
    decoder = synthetic.decoder(run.rig, run.shapes[shape], weights) if run.goes_on() else None
    for point in points:
        if decoder is None or not run.goes_on():
            run.report["left_out"].append(f"{measure.__name__} {point}")
            continue
        with run.naming(f"{measure.__name__} {point}"):
            yield from measure(run.rig, point, decoder, run.ceilings)


def _attention(run: Run) -> Iterator[dict[str, Any]]:
    config = run.shapes["8B"]
    length = plan.DRY_LENGTH if run.is_dry else plan.ATTENTION_LENGTH
    for kv in plan.ATTENTION_KV:
        with run.naming(f"attention {kv}"):
            yield speed.attention(run.rig, config, kv, length, run.ceilings)


def _torch_attention(run: Run) -> Iterator[dict[str, float]]:
    config = run.shapes["8B"]
    long, prompt = (plan.DRY_LENGTH, 32) if run.is_dry else (plan.ATTENTION_LENGTH, 4096)
    for length, new in ((long, 1), (prompt, prompt)):
        with run.naming(f"torch_attention {new} of {length}"):
            yield beside.torch_attention(run.rig, config, length, new)


def _generate(run: Run) -> Iterator[dict[str, Any]]:
    tokens = 4 if run.is_dry else 64
    wanted = [(shape, False) for shape in plan.GENERATED] + [(plan.COMPILED, True)]
    for shape, is_static in wanted:
        if run.is_quick or not run.goes_on():
            run.report["left_out"].append(f"generate {shape}")
            continue
        cache = "static" if is_static else "dynamic"
        with run.naming(f"generate {shape} {cache}"):
            result = beside.generate(run.rig, run.shapes[shape], tokens, is_static)
            yield {"shape": shape, "cache": cache, **result}
        run.rig.forget()


def _loop(run: Run) -> Iterator[dict[str, Any]]:
    """The smallest shape: there the engine's own work weighs the most."""
    decoder = synthetic.decoder(run.rig, run.shapes["0.6B"], "bf16")
    tokens = 6 if run.is_dry else 256
    for count in (1, 2) if run.is_dry else (1, 8):
        with run.naming(f"loop of {count}"):
            yield from loop(run.rig, decoder, tokens, count)


def _memory(run: Run) -> dict[str, float]:
    if run.is_dry:
        return memory(run.rig, TINY, 128, 64)
    return memory(run.rig, SHAPES["0.6B"], 32_768)


PARTS: dict[str, Part] = {
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
