"""Keeps the search graph of a vector file in step with it, by a process of its own.

Graphs are made only for very many vectors. One that is there gets the rows that are new when they
have become many, and is made again when many of its rows are free.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from app.errors import file_error
from app.knowledge import graph_file
from app.knowledge.child_environment import child_environment
from app.knowledge.graph_child import END, GO, Job
from app.knowledge.process_end import ending
from app.knowledge.root_reading import Stopped
from app.knowledge.states import SyncProgress
from app.knowledge.vector_graph import NoGraph, is_installed
from app.knowledge.vectors import flags
from app.paths import sync_folder
from app.sanitize import single_line

if TYPE_CHECKING:
    from app.knowledge.graph_file import Flags
    from app.knowledge.vectors import Rows, Vectors

LOG = logging.getLogger("localchat.knowledge")
COMMAND = (sys.executable, "-P", "-m", "app.knowledge.graph_child")
"""-P: a folder named `app` where the person stands is not ours."""
SHARE = 0.1
"""Of the rows in use. A graph may lack so many: a search compares them all. So many of its own may
be free: they are asked for in vain.
"""
STEP_SECONDS = 300.0
"""Writing a graph of a GB to a slow disk; who says nothing for longer hangs, and is killed."""
SHORTEST_REST_S, LONGEST_REST_S = 60.0, 3600.0
"""After a failure, until the next try."""


class GraphFailed(Exception):
    """The process could not make it."""


class GraphBuilding:
    """Of one base. After a failure searches do without, and the next try waits: each time longer,
    and never shorter than the last one took.
    """

    def __init__(
        self, command: Sequence[str] = COMMAND, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock`: seconds."""
        self._command = tuple(command)
        self._clock = clock
        self._rest_s = SHORTEST_REST_S
        self._resting_until = float("-inf")

    def update(
        self,
        vectors: Vectors,
        used: Rows,
        report: Callable[[SyncProgress], bool | None],
        wait: Callable[[Callable[[], bool]], bool],
    ) -> None:
        """Makes, extends or removes the graph, whichever these rows in use ask for. One process at
        a time.

        `report` is called often and may stop it; `wait` blocks while an answer is written. Raises
        Stopped; a graph that was far on its way is kept then.
        """
        if len(used) <= vectors.exact_rows:
            try:
                graph_file.remove(vectors.path)
            except OSError as error:
                LOG.warning("a search graph that is not needed stays: %s", error)
            return
        if self._clock() < self._resting_until or not is_installed():
            return
        base, added = plan(vectors, used)
        graph_file.tidy(vectors.path)
        total = int(added.sum())
        was_stopped = False

        def go_on(done: int) -> bool:
            nonlocal was_stopped
            progress = SyncProgress("graph", done, total, is_searchable=True)

            def is_wanted() -> bool:
                return report(progress) is not False

            was_stopped = not (is_wanted() and wait(is_wanted))
            return not was_stopped

        if total:
            self._write(vectors, base, added, go_on)
        if was_stopped:
            raise Stopped

    def _write(
        self, vectors: Vectors, base: Path | None, added: Flags, go_on: Callable[[int], bool]
    ) -> None:
        target = graph_file.next_path(vectors.path)
        part = target.with_name(target.name + graph_file.UNFINISHED)
        kept = None if base is None else str(base)
        job = Job(str(vectors.path), vectors.size, vectors.owner, str(part), kept)
        began = self._clock()
        try:
            if make(self._command, job, added, go_on):
                put_in_place(part, target, vectors.path)
            self._rest_s = SHORTEST_REST_S
        except GraphFailed as error:
            now = self._clock()
            rest_s = max(self._rest_s, now - began)
            self._resting_until = now + rest_s
            self._rest_s = min(2 * rest_s, LONGEST_REST_S)
            LOG.warning("no search graph was made: %s", error)
        finally:
            graph_file.tidy(vectors.path)


def plan(vectors: Vectors, used: Rows) -> tuple[Path | None, Flags]:
    """The graph that stays or is extended, and the rows to add to it [rows], none where it has
    enough; no graph, and all rows in use, where one is to be made anew.
    """
    live = flags(used, len(vectors))
    try:
        graph = vectors.graph()
    except NoGraph:
        return None, live
    held = graph.held_of(len(live))
    if (held & ~live).sum() > SHARE * len(used):
        return None, live
    missing = live & ~held
    return graph.path, missing & (missing.sum() > SHARE * len(used))


def put_in_place(part: Path, target: Path, vectors: Path) -> None:
    """From now on searches use it, and rows that it does not hold may be written anew. Raises
    GraphFailed.
    """
    try:
        part.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        raise GraphFailed(file_error(error, target).text) from error
    graph_file.tidy(vectors)


def make(command: Sequence[str], job: Job, added: Flags, is_wanted: Callable[[int], bool]) -> bool:
    """Whether the process wrote a graph. Raises GraphFailed."""
    import numpy as np

    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**child_environment(os.environ), "OMP_NUM_THREADS": "1"},
        )
    except OSError as error:
        raise GraphFailed(str(error)) from error
    with ending(process) as (sending, receiving):
        try:
            sending.write(json.dumps({**asdict(job), "rows": len(added)}).encode("ascii") + b"\n")
            sending.write(np.packbits(added).tobytes())
            sending.flush()
            while "done" in (told := read(process, receiving)):
                sending.write(GO if is_wanted(told["done"]) else END)
                sending.flush()
        except (OSError, ValueError) as error:
            raise GraphFailed("its process ended") from error
    if "kept" not in told:
        raise GraphFailed(single_line(str(told.get("error"))))
    return bool(told["kept"])


def read(process: subprocess.Popen[bytes], receiving: IO[bytes]) -> dict[str, Any]:
    watchdog = threading.Timer(STEP_SECONDS, process.kill)
    watchdog.daemon = True
    watchdog.start()
    try:
        line = receiving.readline()
    finally:
        watchdog.cancel()
    if not line.endswith(b"\n"):
        raise GraphFailed("its process ended")
    told: dict[str, Any] = json.loads(line)
    return told
