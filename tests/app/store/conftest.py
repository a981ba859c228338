"""A history of the test's own, in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.paths import Paths
from app.store.history import History

OpenHistory = Callable[[], History]


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths.under(tmp_path / "root").ensure()


@pytest.fixture
def open_history(paths: Paths) -> Iterator[OpenHistory]:
    """Opens the test's database, as often as it is called; everything is closed at the end."""
    opened: list[History] = []

    def open_one() -> History:
        opened.append(History.open(paths.database, paths.locks))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def history(open_history: OpenHistory) -> History:
    return open_history()
