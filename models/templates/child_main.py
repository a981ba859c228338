"""The inside of the rendering process: limits first, then one job after the other."""

from __future__ import annotations

import json
import signal
from typing import IO, Any

from jinja2 import Template
from jinja2.exceptions import TemplateError

from models.templates.render import MAX_TEXT, TooLong, compile_template, render


def main(requests: IO[bytes], answers: IO[bytes], memory_bytes: int, seconds: float) -> None:
    """The first line is the template with bos_token and eos_token; each further one a job."""
    limit_memory(memory_bytes)
    setup = json.loads(requests.readline() or b"{}")
    _send(answers, {"ready": True})
    compiled: dict[str, Template] = {}
    for line in requests:
        _alarm(seconds * 2)
        try:
            answer = _answer(setup, json.loads(line), compiled)
        except MemoryError:
            compiled.clear()
            answer = {"error": f"It needs more than {memory_bytes // 2**20} MB of memory."}
        _send(answers, answer)
        _alarm(0)


def limit_memory(memory_bytes: int) -> None:
    """A limit on the address space, where the system has one."""
    try:
        import resource
    except ImportError:
        return
    try:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (OSError, ValueError):
        pass  # A lower limit is set already, or the system does not know this one.


def _answer(
    setup: dict[str, Any], job: dict[str, Any], compiled: dict[str, Template]
) -> dict[str, Any]:
    variables = {
        "bos_token": setup.get("bos_token", ""),
        "eos_token": setup.get("eos_token", ""),
        "tools": None,
        "documents": None,
        **job["variables"],
    }
    try:
        template = _compiled(setup["template"], job["date"], compiled)
        return {"texts": [render(template, version, variables) for version in job["versions"]]}
    except TooLong:
        return {"error": f"It writes more than {MAX_TEXT:,} characters."}
    except RecursionError:
        return {"error": "It calls itself too deeply."}
    except MemoryError:
        raise
    except TemplateError as error:
        return {"error": error.message or type(error).__name__}
    except Exception as error:  # A template can raise anything that its expressions can.
        return {"error": f"{type(error).__name__}: {error}"}


def _compiled(source: str, date: str, compiled: dict[str, Template]) -> Template:
    if date not in compiled:
        compiled.clear()
        compiled[date] = compile_template(source, date)
    return compiled[date]


def _alarm(seconds: float) -> None:
    """Ends the process although its parent has died; the parent's own limit comes earlier."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _send(answers: IO[bytes], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer).encode("ascii") + b"\n")
    answers.flush()
