"""Compiles what the measurements will launch, in many processes at once: one after the other would
take as long as everything else.

Each process runs passes on tensors without numbers for the device's architecture; what it compiles
lies in Triton's cache then, under the very names that the device's launches look for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

from tests.bench.gpu.plan import NEW_TOKENS, Point

PROCESSES = 12
PASSES = (1, 2 * NEW_TOKENS, 2048)
"""Tokens of one: a step, a prompt behind a prefix, a piece of a long prompt."""


@dataclass(frozen=True, slots=True)
class Job:
    shape: str
    weights: str
    kv: str
    tokens: int


def jobs(points: Iterable[Point]) -> list[Job]:
    """Each once, in order."""
    wanted = (Job(one.shape, one.weights, one.kv, tokens) for one in points for tokens in PASSES)
    return list(dict.fromkeys(wanted))


def compile_job(job: Job, architecture: int) -> list[str]:
    """Names of the kernels that a pass launches, recorded and plain."""
    import torch

    from kernels.weight_planes import empty_planes
    from models.decoder import Decoder
    from models.ops import KernelSettings
    from models.parameters import parameter_shapes
    from models.weights import Matrix, weights_from_slots
    from tests.bench.gpu.shapes import SHAPES
    from tests.kernels.triton import meta_model
    from tests.kernels.triton.dry_run import dry_run

    config = SHAPES[job.shape]
    config = replace(config, layers=config.layers[:2])

    def made(shape: tuple[int, ...]) -> Matrix:
        if job.weights == "bf16" or len(shape) == 1:
            return meta_model.empty(*shape)
        return empty_planes(job.weights, shape, torch.device("meta"))

    slots = {slot: made(shape) for slot, shape in parameter_shapes(config).items()}
    settings = KernelSettings((architecture // 10, architecture % 10))
    model = Decoder(config, weights_from_slots(slots, config), kernels=settings)
    pools = meta_model.pools(config, job.kv)
    with dry_run(architecture) as launches:
        room = model.workspace(job.tokens, 1).part(job.tokens, 1)
        recorded = meta_model.step(config, [job.tokens], 1)
        # Where nothing is recorded, no token was chosen before.
        for given in (recorded, replace(recorded, chosen=None)):
            model.forward(given, pools, room=room)
    return [one.name for one in launches]


def start(wanted: Iterable[Job], architecture: int) -> tuple[ProcessPoolExecutor, list[Future]]:
    count = min(PROCESSES, os.cpu_count() or 1)
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"))
    return pool, [pool.submit(compile_job, job, architecture) for job in wanted]
