"""`localchat bench`: the engine against a bare loop over the same library, measured in turns."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from app.arguments import add_model, add_options, nearest
from engine.errors import LocalchatError, UsageError

if TYPE_CHECKING:
    from app.console import Console
    from app.settings import Settings

DESCRIPTION = """\
Measure this machine with a model: reading a prompt (pp512), writing the
likeliest tokens (tg128) and sampled ones, writing at a depth of 4,096 tokens,
and twenty short turns. Each is measured for the engine and for a bare loop of
the same library, in turns; the ratio is engine / bare. The bare loop samples
with llama.cpp's own chain. Under a minute with the starter. Our own backend
(-o backend=torch_paged) has no bare loop: its speeds stand alone.
"""

EXAMPLES = """\
examples:
  localchat bench
  localchat bench -m model.gguf --kv all
  localchat bench --json -o threads=2
  localchat bench -m folder -o backend=torch_paged
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_options(parser)
    parser.add_argument("--kv", metavar="TYPE", help="a kv_type, or `all`")
    parser.add_argument("--full", action="store_true", help="real depth and more rounds; minutes")


def run(args: argparse.Namespace, console: Console) -> int:
    from app.model_choice import choose_model
    from app.paths import Paths
    from app.settings import read_settings

    paths = Paths.default()
    settings = read_settings(paths.config_file, args.option)
    path = choose_model(args.model, settings, paths)
    job = {
        "path": str(path),
        "kv_types": kv_types(args.kv, settings),
        "backend": settings.engine.backend,
        "kernels": settings.engine.kernels,
        "weights": settings.engine.weights,
        "threads": settings.engine.threads,
        "flash": settings.engine.flash,
        "full": args.full,
    }
    report = measure(job, console)
    if args.json:
        console.json(report)
    else:
        console.line(as_table(report))
    return 0


def measure(job: dict[str, Any], console: Console) -> dict[str, Any]:
    """Runs the measuring process; its progress is a status line. Raises what it reports."""
    import json
    import os
    import subprocess

    from app.submission import as_error
    from engine.backends.llama_cpp.threads import worker_environment
    from engine.events import ErrorInfo

    with subprocess.Popen(
        [sys.executable, "-P", "-m", "engine.bench"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=worker_environment(os.environ),
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(job))
        process.stdin.close()
        for line in process.stdout:
            message = json.loads(line)
            if "error" in message:
                raise as_error(ErrorInfo(**message["error"]))
            if "report" in message:
                console.clear_status()
                report: dict[str, Any] = message["report"]
                return report
            console.status(message["progress"])
    raise LocalchatError(
        "The measuring process ended early.",
        f"Its exit status was {process.returncode}.",
        "Try a smaller model, or close other programs.",
    )


def kv_types(kv: str | None, settings: Settings) -> list[str] | None:
    """Those to measure: the one in use, or the named one; None: all that the backend knows."""
    from engine.backends.llama_cpp.kv_types import KV_TYPES
    from engine.backends.torch_paged.kv_types import KV_TYPES as OWN_TYPES

    if kv is None:
        return [settings.engine.kv_type]
    if kv == "all":
        return None
    known = list(dict.fromkeys([*KV_TYPES, *OWN_TYPES]))
    if kv not in known:
        guess = nearest(kv, [*known, "all"])
        hint = f"Did you mean {guess}?" if guess else f"Known: {', '.join(known)}, all."
        raise UsageError(f"There is no kv_type {kv!r}.", "", hint)
    return [kv]


def as_table(report: dict[str, Any]) -> str:
    from app.listing import table

    rows = [
        (
            str(result["test"]),
            str(result["kv_type"]),
            f"{result['tokens_per_s']:,.1f}",
            figure(result["bare_tokens_per_s"], ",.1f"),
            figure(result["ratio"], ".3f"),
            f"{result['computed_tokens']:,}",
        )
        for result in report["results"]
    ]
    header = ("test", "kv_type", "engine tok/s", "bare tok/s", "ratio", "computed")
    lines = [facts(report), table(header, rows, "llrrrr")]
    lines += [f"{report['bare']}."] if "bare" in report else []
    lines += [
        f"{one['test']}: {one['share_of_read']:.0%} of what the GPU reads in that time"
        for one in report["results"]
        if "share_of_read" in one
    ]
    lines += [f"{one['kv_type']}: {one['reason']}" for one in report.get("skipped", [])]
    return "\n".join(lines)


def figure(value: float | None, form: str) -> str:
    """A dash where there was nothing to compare with."""
    return "-" if value is None else format(value, form)


def facts(report: dict[str, Any]) -> str:
    """What was measured, on one line."""
    from app.sanitize import single_line

    name = single_line(report["model"])
    if "device" in report:
        return f"{name} · {report['backend']} · {report['device']}"
    flash = "on" if report["flash"] else "off"
    return f"{name} · {report['backend']} · {report['threads']} threads · flash {flash}"
