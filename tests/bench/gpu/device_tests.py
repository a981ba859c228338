"""The tests of tests/gpu, several files at a time, each in a process of its own: a kernel that goes
astray ends its process and nothing else.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import torch

from tests.bench.gpu.rig import Rig

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tests" / "gpu"
BACKEND = ROOT / "tests" / "engine" / "test_torch_paged_gpu.py"
LIMIT_S = 240
GRACE_S = 5
DRY = (
    "store q8 64", "linear Q4_K", "choice", "model bf16 q8", "replayed bf16 bf16",
    "drafts of two bf16 q8",
)  # fmt: skip


def run_all(limit_s: float = LIMIT_S) -> dict[str, Any]:
    """Counts, and the message of each failure."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        running = {file: _started(file, folder / f"{file.stem}.xml") for file in _files()}
        groups = {}
        for file, process in running.items():
            left = max(limit_s - (time.monotonic() - started), 1)
            groups[file.stem] = _finished(process, folder / f"{file.stem}.xml", left)
    return {**_summed(groups), "seconds": round(time.monotonic() - started, 1)}


def _files() -> list[Path]:
    """Those of the backend as well."""
    return [*sorted(one for one in FOLDER.glob("test_*.py") if one.stem != "test_dry"), BACKEND]


def run_dry(rig: Rig) -> dict[str, Any]:
    """A few checks in this process, by plain torch."""
    from tests.gpu.cases import GROUPS

    checks = {name: check for group in GROUPS.values() for name, check in group().items()}
    found = {name: checks[name](rig) for name in DRY}
    return {"passed": len(found), "failed": 0, "errors": found, "failures": {}}


def _started(file: Path, report: Path) -> subprocess.Popen[bytes]:
    settings = FOLDER / "device.ini"
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(settings), "-m", "gpu"]
    command += ["-p", "no:cacheprovider", f"--junitxml={report}", str(file)]
    return subprocess.Popen(
        command, cwd=ROOT, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )


def _finished(process: subprocess.Popen[bytes], report: Path, limit_s: float) -> dict[str, Any]:
    try:
        status = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        found = _stopped(process, report)
        failures = {**found["failures"], "the rest": f"not done in {limit_s:.0f} s"}
        return {**found, "failed": found["failed"] + 1, "failures": failures}
    if not report.exists():
        return {"passed": 0, "failed": 1, "failures": {"all": f"ended with status {status}"}}
    return _read(report)


def _stopped(process: subprocess.Popen[bytes], report: Path) -> dict[str, Any]:
    """What it has found until now, which pytest writes when it is interrupted."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if not report.exists():
        return {"passed": 0, "failed": 0, "failures": {}}
    found = _read(report)
    # The one that was interrupted is listed without a result.
    return {**found, "passed": max(found["passed"] - 1, 0)}


def _read(report: Path) -> dict[str, Any]:
    cases = list(ElementTree.parse(report).iter("testcase"))
    bad = {case.get("name", "?"): case for case in cases if len(case) and case[0].tag != "skipped"}
    failures = {name: str(case[0].get("message"))[:500] for name, case in bad.items()}
    return {"passed": len(cases) - len(bad), "failed": len(bad), "failures": failures}


def _summed(groups: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "passed": sum(one["passed"] for one in groups.values()),
        "failed": sum(one["failed"] for one in groups.values()),
        "failures": {
            f"{group}: {name}": text
            for group, one in groups.items()
            for name, text in one["failures"].items()
        },
    }


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
