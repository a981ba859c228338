"""Damaged files of every format: a document that obeys the laws, or a reason, never an error."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.knowledge.document import Document, Unreadable
from app.knowledge.reading_child import ReadingChild
from tests.app.knowledge.document_laws import check
from tests.app.knowledge.made_documents import make_set

VERSIONS = 12
"""Damaged versions of each file."""


@pytest.fixture(scope="module")
def child() -> Iterator[ReadingChild]:
    child = ReadingChild()
    yield child
    child.close()


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    facts = make_set(tmp_path_factory.mktemp("set"))
    return {fact.path.name: fact.path.read_bytes() for fact in facts}


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Bytes changed, taken out, doubled or cut off."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 3, 30))):
        place = chance.randrange(len(changed))
        how = chance.randrange(4)
        if how == 0:
            changed[place] = chance.randrange(256)
        elif how == 1:
            del changed[place : place + chance.randrange(1, 40)]
        elif how == 2:
            changed[place:place] = changed[place // 2 :][:100]
        else:
            changed[place:place] = chance.randbytes(8)
    return bytes(changed[: chance.choice((len(changed), len(changed), len(changed) // 2))])


@pytest.mark.parametrize("seed", range(VERSIONS))
def test_damage_gives_a_document_or_a_reason(
    child: ReadingChild, originals: dict[str, bytes], tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    for name, data in originals.items():
        path = tmp_path / name
        path.write_bytes(damaged(data, chance))
        found = child.read(path)
        if isinstance(found, Document):
            check(found)
        else:
            assert isinstance(found, Unreadable)
            assert found.state
            assert "ended the process" not in found.state, (name, seed)
