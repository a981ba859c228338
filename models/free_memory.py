"""How much memory this process can still get: the system's, or less where a control group limits
it."""

from __future__ import annotations

from pathlib import Path

_GROUP_ROOT = Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60
"""Version 1 writes a number near 2**63 where it has no limit."""


def free_memory() -> int:
    """Bytes available without swapping."""
    import psutil

    return min(int(psutil.virtual_memory().available), group_free(_GROUP_ROOT, _own_group()))


def group_free(root: Path, group: str) -> int:
    """Bytes left in the tightest control group from `group` up to the root; huge without limits."""
    free = _NO_LIMIT
    folder = root / group.lstrip("/")
    for place in (folder, *folder.parents):
        free = min(free, _left(place, "memory.max", "memory.current", "inactive_file"))
        if place == root:
            break
    old = root / "memory"
    return min(
        free,
        _left(old, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    )


def _own_group() -> str:
    try:
        lines = Path("/proc/self/cgroup").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    groups = [line.split(":", 2)[2] for line in lines if line.startswith("0::")]
    return groups[0] if groups and ".." not in groups[0] else ""


def _left(place: Path, limit_name: str, usage_name: str, cache_name: str) -> int:
    limit, usage = _number(place / limit_name), _number(place / usage_name)
    if limit is None or usage is None or limit >= _NO_LIMIT:
        return _NO_LIMIT
    return max(limit - usage + _cached(place / "memory.stat", cache_name), 0)


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text("ascii"))
    except (OSError, ValueError):
        return None


def _cached(file: Path, name: str) -> int:
    """File pages that the system gives back on demand."""
    try:
        rows = [line.split() for line in file.read_text("ascii").splitlines()]
        return next((int(row[1]) for row in rows if len(row) == 2 and row[0] == name), 0)
    except (OSError, ValueError):
        return 0
