from __future__ import annotations

import random

from app.knowledge.row_table import row_table


def test_a_row_table_says_what_mappings_say() -> None:
    for seed in range(20):
        chance = random.Random(seed)
        ids = chance.sample(range(1, 200), seed * 5)
        rows = {chunk_id: chance.randrange(1 + seed * 3) for chunk_id in ids}
        table = row_table(iter(rows.items()))
        assert len(table) == len(rows)
        assert list(table.used) == sorted(set(rows.values()))
        for chunk_id in range(202):
            assert table.row_of(chunk_id) == rows.get(chunk_id)
        for row in range(-1, 70):
            holding = sorted(chunk_id for chunk_id, place in rows.items() if place == row)
            assert table.chunks_of(row) == holding
