"""Tests and measures the kernels on the NVIDIA device of this machine, in about five minutes.

    python -m tests.bench.gpu --json OUT [--quick] [--minutes 5] [--dry]

Needs PyTorch, Triton, transformers, safetensors and pytest, and no network: weights are random, in
the shapes of real models. OUT is written after each part, so that what was measured survives
whatever comes later. `--dry`: every part on the CPU, in tiny shapes and plain torch.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.bench.gpu.parts import PARTS, Run
from tests.bench.gpu.report import as_text


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="where the results go")
    parser.add_argument("--quick", action="store_true", help="one shape, and no transformers")
    parser.add_argument("--minutes", type=float, default=5.0, help="after which no part begins")
    parser.add_argument("--dry", action="store_true", help="on the CPU, to try the script")
    parser.add_argument("--without", nargs="*", default=[], choices=list(PARTS), help="left out")
    asked = parser.parse_args(arguments)
    run = Run.of(asked.dry, asked.quick, asked.minutes)
    if run is None:
        print("No CUDA device answers here; --dry tries the script without one.", file=sys.stderr)
        return 2
    for name, part in PARTS.items():
        if name in asked.without:
            continue
        run.do(name, part)
        if asked.json is not None:
            asked.json.write_text(json.dumps(run.report, indent=1) + "\n", encoding="utf-8")
    print(as_text(run.report))
    return 1 if run.report["broken"] or run.report.get("tests", {}).get("failed") else 0


if __name__ == "__main__":
    sys.exit(main())
