"""`localchat bench`: the engine against a bare loop over the same library, measured in turns."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from app.arguments import add_model, add_options
from engine.errors import LocalchatError

if TYPE_CHECKING:
    from app.console import Console
    from app.settings import Settings

DESCRIPTION = """\
Measure this machine with a model: reading a prompt (pp512), writing (tg128),
writing at a depth of 4,096 tokens, and twenty short turns. Each is measured
for the engine and for a bare loop of the same library, in turns; the ratio is
engine / bare. Under a minute with the starter.
"""

EXAMPLES = """\
examples:
  localchat bench
  localchat bench -m model.gguf --kv all
  localchat bench --json -o threads=2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_options(parser)
    parser.add_argument("--kv", metavar="TYPE", help="a kv_type, or `all`")
    parser.add_argument("--full", action="store_true", help="real depth and more rounds; minutes")


def run(args: argparse.Namespace, console: Console) -> int:
    from app.model_choice import choose_model
    from app.paths import Paths
    from app.startup import read_settings

    paths = Paths.default()
    settings = read_settings(paths, args.option)
    path = choose_model(args.model, settings, paths)
    report = measure(str(path), settings, args.kv, args.full, console)
    if args.json:
        console.json(report)
    else:
        console.line(as_table(report))
    return 0


def measure(
    path: str, settings: Settings, kv: str | None, full: bool, console: Console
) -> dict[str, Any]:
    """Runs the measuring process; its progress lines become a status line."""
    import json
    import subprocess

    from app.submission import as_error
    from engine.client import worker_environment
    from engine.events import ErrorInfo

    engine = settings.engine
    job = {
        "path": path,
        "kv_types": kv or engine.kv_type,
        "threads": engine.threads,
        "flash": engine.flash,
        "full": full,
    }
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "engine.bench"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return {}
