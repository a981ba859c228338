"""docs/machine-code.md says what is compiled now."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import triton

from tests.kernels.triton import table
from tests.kernels.triton.table import Row

MARGIN = 16
"""Registers a thread: they come in eights, and small edits move them."""
HOW = "python -m tests.kernels.triton.table > docs/machine-code.md"


@pytest.fixture(scope="module")
def kept() -> dict[tuple[str, ...], Row]:
    text = table.FILE.read_text(encoding="utf-8")
    if f"Triton {triton.__version__} " not in text:
        pytest.skip(f"docs/machine-code.md is of another Triton than {triton.__version__}")
    return table.read(text)


def differences(found: Iterable[Row], kept: dict[tuple[str, ...], Row]) -> list[str]:
    lines = []
    for one in found:
        old = kept.get(one.key)
        if old is None:
            lines.append(f"new: {one.cells}")
        elif one.rest != old.rest or abs(one.registers - old.registers) > MARGIN:
            lines.append(f"now {one.cells}, in the file {old.cells}")
    return lines


@pytest.mark.parametrize("architecture", [80, 90])
def test_core_is_as_the_file_says(kept: dict[tuple[str, ...], Row], architecture: int) -> None:
    assert not differences(table.rows(table.core(), [architecture]), kept), HOW


@pytest.mark.model
def test_whole_file_is_what_is_compiled(kept: dict[tuple[str, ...], Row]) -> None:
    found = table.rows(table.cases())
    assert not differences(found, kept), HOW
    assert {one.key for one in found} == kept.keys(), HOW


def test_a_file_is_read_as_it_was_written() -> None:
    row = Row(("a_kernel", "q8", "", "90"), 128, ("0", "0", "41", "16", "8", "HMMA"))
    assert table.read(table.as_markdown([row])) == {row.key: row}
    (line,) = differences([Row(row.key, 128, ("8", *row.rest[1:]))], {row.key: row})
    assert "now" in line
    assert not differences([Row(row.key, 144, row.rest)], {row.key: row})
    assert differences([Row(row.key, 145, row.rest)], {row.key: row})
