"""The checks and the measurements of a device, by plain torch on the CPU: that the code runs is all
that is proven without one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.bench.gpu import floors
from tests.bench.gpu.parts import PARTS
from tests.bench.gpu.report import COLUMNS, as_text
from tests.bench.gpu.rig import Rig
from tests.bench.gpu.shapes import SHAPES
from tests.bench.gpu.targets import TARGETS
from tests.gpu.cases import GROUPS

ROOT = Path(__file__).parents[2]
CASES = {name: check for group in GROUPS.values() for name, check in group().items()}
TRIED = (
    "store k8v4 128", "decode k8v4 64", "drafts q8", "prefill bf16 64", "linear bf16",
    "gate and up Q8_0", "many rows Q4_K", "candidates", "choice", "embedding Q6_K",
    "batch of 3 in 4 bf16 q8", "drafts beside an answer Q4_K q8", "followed bf16 q8",
)  # fmt: skip
ABSENT = (
    "gguf", "llama_cpp", "textual", "hypothesis", "msgspec", "platformdirs", "psutil", "filelock",
    "pytest_asyncio", "jinja2", "pypdfium2", "selectolax", "watchfiles", "onnxruntime",
)  # fmt: skip
"""Packages of the project that a machine which only measures need not have."""
PROGRAM = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from tests.bench.gpu.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def single_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", TRIED)
def test_plain_torch_passes_the_checks(name: str) -> None:
    CASES[name](Rig(torch.device("cpu")))


def test_every_part_runs_and_is_written(tmp_path: Path) -> None:
    """All but transformers, whose import alone takes seconds."""
    out = tmp_path / "out.json"
    command = [sys.executable, "-c", PROGRAM, "--dry", "--json", str(out), "--without", "generate"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(out.read_text())
    assert list(report["seconds"]) == [name for name in PARTS if name != "generate"]
    assert not report["broken"]
    assert not report["left_out"]
    for part, columns in COLUMNS.items():
        for result in report.get(part, ()):
            assert result.keys() >= set(columns)
    assert {one["weights"] for one in report["decode"]} == {"bf16", "Q8_0", "Q4_K"}
    assert done.stdout.strip() == as_text(report)
    assert "no figure means anything" in done.stdout


@pytest.mark.model
def test_transformers_runs_beside(tmp_path: Path) -> None:
    from tests.bench.gpu.__main__ import main

    out = tmp_path / "out.json"
    others = [name for name in PARTS if name not in ("ceilings", "generate")]
    assert main(["--dry", "--json", str(out), "--without", *others]) == 0
    found = [(one["shape"], one["cache"]) for one in json.loads(out.read_text())["generate"]]
    assert found == [("8B", "dynamic"), ("0.6B", "dynamic"), ("0.6B", "static")]


def test_targets_are_read_from_a_report() -> None:
    report = {
        "ceilings": {"read_bytes_per_s": 4.3e12},
        "decode": [{"shape": "8B", "weights": "Q4_K", "share_of_read": 0.5, "length": 0}],
        "attention": [{"kv": "bf16", "ms": 2.0}, {"kv": "q8", "ms": 1.25}],
        "tests": {"failed": 1},
    }
    lines = {line[0]: line[1:] for line in (one.line(report) for one in TARGETS)}
    assert lines["decode 8B Q4_K, share of reading"] == (">= 0.45", "0.50", "yes")
    assert lines["decode 8B bf16, share of reading"] == (">= 0.80", "not measured", "")
    assert lines["attention of decode at 32k, q8 against bf16"] == (">= 1.70", "1.60", "no")
    assert lines["failed tests"] == ("<= 0.00", "1.00", "no")


def test_the_documentation_has_the_tables_that_the_formulas_give() -> None:
    text = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
    assert floors.tables().strip() in text, "python -m tests.bench.gpu.floors"


def test_floors_are_those_of_the_layout_and_the_shapes() -> None:
    """By hand, for the 8B shape."""
    config = SHAPES["8B"]
    weights = 36 * (4096 * (2 * 4096 + 2 * 1024) + 3 * 4096 * 12_288) + 151_936 * 4096
    assert floors.step(config, "bf16", "bf16", 0).bytes == pytest.approx(2 * weights, rel=0.01)
    assert floors.attention_bytes(config, "bf16", 1000) == 1000 * 36 * 4 * 8 * 128
    assert floors.kv_bytes(config, "q8") == 2 * 8 * (128 + 2)
    assert floors.kv_bytes(config, "k8v4") == 8 * (1.5 * 128 + 6)
    assert floors.kv_bytes(config, "q4") == 8 * (128 + 128 // 16 + 4)
    pairs = sum(32_000 + i + 1 for i in range(32))
    assert floors.attention_operations(config, 32, 32_000) == 36 * 4 * 32 * 128 * pairs
