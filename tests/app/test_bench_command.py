"""`localchat bench` from outside: every test is there, measured for both loops."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.program import run_program

pytestmark = pytest.mark.model


def test_every_test_has_its_numbers_and_turns_compute_only_what_is_new(
    tmp_path: Path, starter_model: Path
) -> None:
    outcome = run_program(tmp_path, "bench", "--json", "-m", str(starter_model), timeout=300)
    assert outcome.status == 0, outcome.err
    (report,) = outcome.objects
    assert report.keys() == {"model", "backend", "threads", "flash", "results"}
    results = {result["test"]: result for result in report["results"]}
    assert list(results) == ["pp512", "tg128", "tg128 sampled", "tg64@4096", "turns"]
    assert len(report["results"]) == len(results)
    for result in results.values():
        assert result.keys() == {
            "test",
            "kv_type",
            "tokens_per_s",
            "bare_tokens_per_s",
            "ratio",
            "computed_tokens",
        }
        assert result["kv_type"] == "f16"
        assert min(result["tokens_per_s"], result["bare_tokens_per_s"], result["ratio"]) > 0
    computed = {test: result["computed_tokens"] for test, result in results.items()}
    # Of each turn the sixteen new tokens, and the last one of the answer before.
    turns = 20 * 16 + 19
    assert computed == {
        "pp512": 512,
        "tg128": 32,
        "tg128 sampled": 32,
        "tg64@4096": 8,
        "turns": turns,
    }
