"""A run goes on after whatever fails, and what it has found until then is kept."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.bench.gpu import device_tests, parts
from tests.bench.gpu.ceilings import CEILINGS
from tests.bench.gpu.report import as_text
from tests.bench.gpu.rig import Rig
from tests.bench.gpu.run import Run


class Lost(Rig):
    """Answers no more."""

    def answers(self) -> bool:
        return False


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run.of(is_dry=True, is_quick=False, minutes=1, out=tmp_path / "out.json")
    assert made is not None
    return made


def kept(run: Run) -> dict[str, Any]:
    assert run.out is not None
    found: dict[str, Any] = json.loads(run.out.read_text())
    return found


def breaks(run: Run) -> Iterator[int]:
    yield 1
    with run.naming("inside"):
        raise KeyError("first")
    yield 2
    raise ValueError("second")


def test_what_fails_ends_nothing_else(run: Run) -> None:
    run.do("breaks", breaks)
    run.do("next", lambda run: {"share": math.nan})
    found = kept(run)
    assert found["breaks"] == [1, 2]
    assert found["next"] == {"share": None}
    assert found["broken"] == {"inside": "KeyError: 'first'", "breaks": "ValueError: second"}
    assert list(found["seconds"]) == ["breaks", "next"]


def test_a_lost_device_is_left_for_a_new_process(run: Run) -> None:
    calls: list[dict[str, Any]] = []
    run.again = lambda: calls.append(kept(run))
    run.do("breaks", breaks)
    assert not calls
    run.rig = Lost(torch.device("cpu"))
    run.do("other", breaks)
    (found,) = calls
    assert found["other"] == [1, 2]
    assert {"breaks", "other"} <= found["seconds"].keys()
    assert "lost" in found["broken"]["other, left"]


def test_silence_is_left_for_a_new_process(run: Run) -> None:
    left: list[float] = []
    run.again = lambda: left.append(time.monotonic())
    run.watch()
    with run.naming("silent", limit_s=0):
        deadline = time.monotonic() + 20
        while not left and time.monotonic() < deadline:
            time.sleep(0.05)
    assert left


def test_what_a_ceiling_lacks_leaves_times(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(rig: Rig) -> float:
        raise RuntimeError("no kernel")

    for name in CEILINGS:
        monkeypatch.setitem(CEILINGS, name, broken)
    wanted = parts.PARTS["hit"], parts.PARTS["attention"]
    run.do("ceilings", parts.PARTS["ceilings"])
    for name, part in zip(("hit", "attention"), wanted, strict=True):
        run.do(name, part)
    assert set(run.report["broken"]) == {f"ceilings {name}" for name in CEILINGS}
    assert all(one["first_token_ms"] > 0 for one in run.report["hit"])
    assert math.isnan(run.report["attention"][0]["share_of_read"])
    assert "not measured" in as_text({**kept(run), "dry": False})


def test_a_model_that_cannot_be_made_leaves_the_others(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = parts.synthetic.decoder

    def decoder(rig: Rig, config: Any, kind: str) -> Any:
        if kind == "bf16":
            raise torch.OutOfMemoryError("full")
        return made(rig, config, kind)

    monkeypatch.setattr(parts.synthetic, "decoder", decoder)
    run.do("prefill", parts.PARTS["prefill"])
    assert {one["weights"] for one in run.report["prefill"]} == {"Q4_K"}
    assert [*run.report["broken"]] == ["prefill 8B bf16"]


def test_tests_that_take_too_long_are_counted_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, begun = tmp_path / "test_slow.py", tmp_path / "begun"
    slow.write_text(
        "import pathlib, pytest, time\npytestmark = pytest.mark.gpu\n"
        "def test_one(): pass\n"
        f"def test_two(): pathlib.Path({str(begun)!r}).touch(); time.sleep(600)\n"
    )
    (tmp_path / "device.ini").write_text("[pytest]\nmarkers =\n    gpu: x\n")
    monkeypatch.setattr(device_tests, "FOLDER", tmp_path)
    monkeypatch.setattr(device_tests, "GRACE_S", 120)  # a busy machine ends its tests slowly
    report = tmp_path / "out.xml"
    process = device_tests._started(slow, report)
    while not begun.exists():
        assert process.poll() is None
        time.sleep(0.02)
    found = device_tests._finished(process, report, 0.01)
    assert (found["passed"], found["failed"]) == (1, 1)
    assert "not done" in found["failures"]["the rest"]


def test_the_deadline_is_that_of_a_new_process(run: Run) -> None:
    late = replace(run, deadline=time.time() - 1)
    late.do("breaks", breaks)
    assert late.report["left_out"] == ["breaks"]
    assert 50 < run.seconds_left <= 60
