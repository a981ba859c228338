"""Renders chat templates in a process of their own, which can be killed: templates come from model
files.

`TemplateChild` is the client; `python -m models.templates.child` the process: one JSON line in, one
out, Jinja2 only. It is given two seconds and 512 MB a job, stays alive between jobs, and ends with
its standard input. What nobody waits for any more can be stopped earlier from another thread.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import IO, Any

from models.errors import RenderingStopped, TemplateError
from models.sizes import show_text
from models.templates.job import RenderJob, prepare
from models.templates.rendered import Rendered, read_marks

RENDER_SECONDS = 2.0
START_SECONDS = 30.0
"""Python and Jinja2 start in 0.1 s; a machine that swaps needs longer."""
MEMORY_BYTES = 512 * 1024 * 1024
_NEXT_STEP = "Use another model file, or one whose chat template is repaired."


class TemplateChild:
    """One template's renderer. Calls from several threads run one after the other."""

    def __init__(
        self, template: str, bos: str = "", eos: str = "", seconds: float = RENDER_SECONDS
    ) -> None:
        self._setup = {"template": template, "bos_token": bos, "eos_token": eos}
        self._seconds = seconds
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._rendering = False
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def render(self, job: RenderJob) -> Rendered:
        """Raises TemplateError: the template's own message, or what limit it broke;
        RenderingStopped from `stop` on.
        """
        prepared = prepare(job)
        plain, marked = self._texts(job, [prepared.plain, prepared.marked])
        return read_marks(job, prepared, plain, marked)

    def stop(self) -> None:
        """From any thread: end what is being rendered, and render nothing until `resume`."""
        self._stopped.set()
        process = self._process
        if self._rendering and process is not None:
            process.kill()

    def resume(self) -> None:
        self._stopped.clear()

    def close(self) -> None:
        with self._lock:
            self._stop()

    @property
    def pid(self) -> int | None:
        """Of the running process; None between jobs when it was killed or not started yet."""
        return self._process.pid if self._process else None

    def _texts(self, job: RenderJob, versions: Sequence[list[dict[str, Any]]]) -> list[str]:
        request = {
            "versions": versions,
            "date": job.date,
            "variables": {
                **job.variables,
                "add_generation_prompt": job.add_generation_prompt and not job.continue_last,
            },
        }
        with self._lock:
            self._rendering = True  # before looking whether it was stopped: `stop` looks here last
            try:
                answer = self._exchange(json.dumps(request).encode("ascii"))
            finally:
                self._rendering = False
        if "error" in answer:
            raise TemplateError(
                "The model's chat template refused these messages.",
                show_text(str(answer["error"])[:500]),
                _NEXT_STEP,
            )
        return [str(text) for text in answer["texts"]]

    def _exchange(self, request: bytes) -> dict[str, Any]:
        self._check_wanted()
        process = self._running()
        writer = threading.Thread(target=_write, args=(process.stdin, request), daemon=True)
        writer.start()
        try:
            line = self._lines.get(timeout=self._seconds)
        except queue.Empty:
            self._stop()
            raise TemplateError(
                "The model's chat template did not come to an end.",
                f"It was stopped after {self._seconds:g} s.",
                _NEXT_STEP,
            ) from None
        finally:
            writer.join(timeout=1.0)
        return self._decoded(line)

    def _check_wanted(self) -> None:
        if self._stopped.is_set():
            raise RenderingStopped("The chat template was stopped.")

    def _decoded(self, line: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self._stop()
            self._check_wanted()
            raise TemplateError(
                "The model's chat template ended the process that renders it.",
                f"Most likely it needs more than {MEMORY_BYTES // 2**20} MB.",
                _NEXT_STEP,
            )
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._process = self._start()
        return self._process

    def _start(self) -> subprocess.Popen[bytes]:
        # -P: the folder that the person works in may hold a package called `models`.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "models.templates.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._process = process
        self._lines = queue.SimpleQueue()
        threading.Thread(target=_read, args=(process.stdout, self._lines), daemon=True).start()
        _write(process.stdin, json.dumps(self._setup).encode("ascii"))
        try:
            hello = self._lines.get(timeout=START_SECONDS)
        except queue.Empty:
            hello = b""
        if not hello:
            self._stop()
            self._check_wanted()
            raise TemplateError("The process that renders chat templates did not start.")
        return process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            _close(stream)


def _write(stream: IO[bytes] | None, line: bytes) -> None:
    assert stream is not None
    try:
        stream.write(line + b"\n")
        stream.flush()
    except (OSError, ValueError):
        pass  # The process has gone; its end is seen where its answer is awaited.


def _read(stream: IO[bytes] | None, lines: queue.SimpleQueue[bytes]) -> None:
    """Lines of the process, then an empty one when it ends."""
    assert stream is not None
    try:
        for line in stream:
            lines.put(line)
    except (OSError, ValueError):
        pass  # Closed from our side.
    lines.put(b"")


def _close(stream: IO[bytes] | None) -> None:
    try:
        if stream is not None:
            stream.close()
    except OSError:
        pass  # Unwritten bytes of a dead process.


if __name__ == "__main__":
    from models.templates.child_main import main

    main(sys.stdin.buffer, sys.stdout.buffer, MEMORY_BYTES, RENDER_SECONDS)
