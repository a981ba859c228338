"""Laws of free memory: the tightest limit of the groups a process is in counts."""

from __future__ import annotations

from pathlib import Path

from models.free_memory import free_memory, group_free


def limit(place: Path, maximum: str, current: int, cache: int = 0) -> None:
    place.mkdir(parents=True, exist_ok=True)
    (place / "memory.max").write_text(f"{maximum}\n")
    (place / "memory.current").write_text(f"{current}\n")
    (place / "memory.stat").write_text(f"anon 5\ninactive_file {cache}\n")


def test_the_tightest_group_on_the_way_up_counts(tmp_path: Path) -> None:
    limit(tmp_path / "a", "1000", 300)
    limit(tmp_path / "a/b", "max", 200)
    assert group_free(tmp_path, "/a/b") == 700
    limit(tmp_path / "a/b", "400", 250, cache=100)
    assert group_free(tmp_path, "/a/b") == 250


def test_the_first_version_of_control_groups_counts(tmp_path: Path) -> None:
    old = tmp_path / "memory"
    old.mkdir()
    (old / "memory.limit_in_bytes").write_text("5000")
    (old / "memory.usage_in_bytes").write_text("4000")
    assert group_free(tmp_path, "") == 1000
    (old / "memory.limit_in_bytes").write_text(str(2**63 - 4096))
    assert group_free(tmp_path, "") >= 2**60


def test_without_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert group_free(tmp_path / "gone", "/x") >= 2**60
    assert 0 < free_memory() < 2**60
