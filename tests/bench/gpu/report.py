"""A report as tables of plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tests.bench.gpu.targets import TARGETS

Report = dict[str, Any]
COLUMNS = {
    "decode": ("shape", "weights", "kv", "length", "step_ms", "device_ms", "tokens_per_s",
               "share_of_read", "share_of_read_less_launches", "launches"),
    "attention": ("kv", "length", "ms", "share_of_read"),
    "prefill": ("shape", "weights", "kv", "length", "ms", "tokens_per_s", "share_of_matrix"),
    "hit": ("shape", "weights", "kv", "length", "first_token_ms", "new_tokens_alone_ms",
            "prefix_floor_ms", "ratio"),
    "loop": ("sampling", "sequences", "ahead_tokens_per_s", "waiting_tokens_per_s", "ratio"),
    "torch_attention": ("length", "new", "ms"),
    "generate": ("shape", "cache", "step_ms", "tokens_per_s", "warm_up_s"),
}  # fmt: skip


def as_text(report: Report) -> str:
    lines = [f"{report['device']} · torch {report['torch']} · triton {report['triton']}"]
    if report["dry"]:
        lines.append("A dry run: tiny shapes, plain torch, no figure means anything.")
    if "ceilings" in report:
        lines.append(_ceilings(report["ceilings"]))
    if "tests" in report:
        lines.append(
            f"tests: {report['tests']['passed']} passed, {report['tests']['failed']} failed"
        )
        lines += [f"  {name}: {text}" for name, text in report["tests"]["failures"].items()]
    for part, columns in COLUMNS.items():
        if report.get(part):
            rows = [[_shown(one[name]) for name in columns] for one in report[part]]
            lines += ["", part, table(columns, rows)]
    header = ("target", "wanted", "found", "reached")
    if not report["dry"]:
        lines += ["", table(header, [target.line(report) for target in TARGETS])]
    lines += [f"failed: {part}: {text}" for part, text in report["broken"].items()]
    if report["left_out"]:
        lines += ["", "Left out, as the time was over: " + "; ".join(report["left_out"])]
    return "\n".join(lines)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _ceilings(found: dict[str, float | None]) -> str:
    def shown(name: str, unit: float, of: str) -> str:
        value = found[name]
        return f"{_shown(value and value / unit)} {of}"

    return (
        f"ceilings: reading {shown('read_bytes_per_s', 1e12, 'TB/s')}, "
        f"copying {shown('copy_bytes_per_s', 1e12, 'TB/s')} (read and written), "
        f"bf16 products {shown('matrix_operations_per_s', 1e12, 'TFLOP/s')}, "
        f"a launch {shown('launch_s', 1e-6, 'us')}"
    )


def _shown(value: object) -> str:
    if value is None or value != value:
        return "-"
    return f"{value:,.3g}" if isinstance(value, float) else str(value)
