"""What is to be reached, and what the report says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

Report = dict[str, Any]
FAST_MEMORY = 4e12
"""Bytes a second that are read, from which on unpacking Q4_K is the limit."""


@dataclass(frozen=True, slots=True)
class Target:
    """`found`: of a report, None where it was not measured; `least`: or else at most."""

    name: str
    goal: Callable[[Report], float]
    found: Callable[[Report], float | None]
    is_least: bool = True

    def line(self, report: Report) -> tuple[str, str, str, str]:
        found, goal = self.found(report), self.goal(report)
        wanted = f"{'>=' if self.is_least else '<='} {goal:.2f}"
        if found is None or found != found:
            return self.name, wanted, "not measured", ""
        reached = found >= goal if self.is_least else found <= goal
        return self.name, wanted, f"{found:.2f}", "yes" if reached else "no"


def _fixed(goal: float) -> Callable[[Report], float]:
    return lambda report: goal


def _packed_goal(report: Report) -> float:
    read = report.get("ceilings", {}).get("read_bytes_per_s") or FAST_MEMORY
    return 0.60 if read < FAST_MEMORY else 0.45


def _picked(part: str, field: str, **wanted: object) -> Callable[[Report], float | None]:
    """The first result of a part that agrees with what is wanted."""

    def found(report: Report) -> float | None:
        results: Iterable[Report] = report.get(part, ())
        fitting = (
            one for one in results if all(one.get(key) == value for key, value in wanted.items())
        )
        return next((one[field] for one in fitting), None)

    return found


def _ratio(
    above: Callable[[Report], float | None], below: Callable[[Report], float | None]
) -> Callable[[Report], float | None]:
    def found(report: Report) -> float | None:
        first, second = above(report), below(report)
        return first / second if first and second else None

    return found


def _step(shape: str) -> Callable[[Report], float | None]:
    return _picked("decode", "tokens_per_s", shape=shape, weights="bf16", length=0)


TARGETS = (
    Target(
        "decode 8B bf16, share of reading",
        _fixed(0.80),
        _picked("decode", "share_of_read", shape="8B", weights="bf16"),
    ),
    Target(
        "decode 8B Q8_0, share of reading",
        _fixed(0.70),
        _picked("decode", "share_of_read", shape="8B", weights="Q8_0"),
    ),
    Target(
        "decode 8B Q4_K, share of reading",
        _packed_goal,
        _picked("decode", "share_of_read", shape="8B", weights="Q4_K"),
    ),
    Target(
        "launches a layer, 0.6B",
        _fixed(7),
        _picked("decode", "launches_per_layer", shape="0.6B"),
        is_least=False,
    ),
    Target(
        "attention of decode at 32k, q8 against bf16",
        _fixed(1.7),
        _ratio(_picked("attention", "ms", kv="bf16"), _picked("attention", "ms", kv="q8")),
    ),
    Target(
        "prompt of 4k, 8B bf16, share of the matrix rate",
        _fixed(0.60),
        _picked("prefill", "share_of_matrix", shape="8B", weights="bf16", length=4096),
    ),
    Target(
        "prompt of 4k, 8B Q4_K, share of the matrix rate",
        _fixed(0.45),
        _picked("prefill", "share_of_matrix", shape="8B", weights="Q4_K", length=4096),
    ),
    Target(
        "first token behind 32k / (new tokens alone + floor of the prefix)",
        _fixed(1.3),
        _picked("hit", "ratio", shape="8B", length=32_768),
        is_least=False,
    ),
    Target(
        "decode 8B, times transformers' generate",
        _fixed(3.0),
        _ratio(_step("8B"), _picked("generate", "tokens_per_s", shape="8B", cache="dynamic")),
    ),
    Target(
        "decode 0.6B, times its static cache, compiled",
        _fixed(1.2),
        _ratio(_step("0.6B"), _picked("generate", "tokens_per_s", shape="0.6B", cache="static")),
    ),
    Target(
        "memory taken / predicted, 0.6B",
        _fixed(1.03),
        lambda report: report.get("memory", {}).get("ratio"),
        is_least=False,
    ),
    Target(
        "failed tests",
        _fixed(0),
        lambda report: report.get("tests", {}).get("failed"),
        is_least=False,
    ),
)
