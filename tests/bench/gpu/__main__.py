"""Tests and measures the kernels on the NVIDIA device of this machine, in about five minutes.

    python -m tests.bench.gpu --json OUT [--quick] [--minutes 5] [--dry]

Needs PyTorch, Triton, transformers, safetensors and pytest, and no network: weights are random, in
the shapes of real models. OUT is written after each result, so that what was measured survives
whatever comes later. `--dry`: every part on the CPU, in tiny shapes and plain torch.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from tests.bench.gpu.parts import PARTS
from tests.bench.gpu.report import as_text
from tests.bench.gpu.run import Run


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="where the results go")
    parser.add_argument("--quick", action="store_true", help="one shape, and no transformers")
    parser.add_argument("--minutes", type=float, default=5.0, help="after which no part begins")
    parser.add_argument("--dry", action="store_true", help="on the CPU, to try the script")
    parser.add_argument("--without", nargs="*", default=[], choices=list(PARTS), help="left out")
    parser.add_argument(
        "--resume", action="store_true", help="only the parts that are not in OUT yet"
    )
    asked = parser.parse_args(arguments)
    run = Run.of(asked.dry, asked.quick, asked.minutes, asked.json)
    if run is None:
        print("No CUDA device answers here; --dry tries the script without one.", file=sys.stderr)
        return 2
    if asked.resume:
        run.report = json.loads(asked.json.read_text(encoding="utf-8"))
    if asked.json is not None and not asked.dry:
        run.again = lambda: _again(run, asked)
        run.watch()
    for name, part in PARTS.items():
        if name not in asked.without and name not in run.report["seconds"]:
            run.do(name, part)
    run.write()
    print(as_text(run.report), flush=True)
    return 1 if run.report["broken"] or run.report.get("tests", {}).get("failed") else 0


def _again(run: Run, asked: argparse.Namespace) -> None:
    """In the place of this process, whatever its threads wait for."""
    command = [sys.executable, "-m", "tests.bench.gpu", "--resume", "--json", str(asked.json)]
    command += ["--minutes", f"{max(run.seconds_left, 0) / 60:.2f}"]
    command += ["--quick"] * asked.quick
    command += ["--without", *asked.without] if asked.without else []
    os.execv(sys.executable, command)


if __name__ == "__main__":
    sys.exit(main())
