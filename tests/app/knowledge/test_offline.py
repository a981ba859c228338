"""Documents stay on the machine: no process of a knowledge base opens a socket or looks up a name.

A hook of Python's own is put into every process that the program starts, by a folder in front of
their search path.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.program import Outcome, environment, run_program

HOOK = """\
import os, sys

def write(text):
    with open(__file__ + ".log", "a") as log:
        log.write(text + "\\n")

def refuse(event, arguments):
    if event.startswith("socket."):
        write("SOCKET " + event)
        raise OSError("No network here.")

write(" ".join(sys.orig_argv))
sys.addaudithook(refuse)
"""


class Watched:
    """The program in a home of its own, each of its processes watched."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._hook = home / "hook" / "sitecustomize.py"
        self._hook.parent.mkdir()
        self._hook.write_text(HOOK)

    def run(self, *arguments: str) -> Outcome:
        path = os.pathsep.join((str(self._hook.parent), environment(self._home)["PYTHONPATH"]))
        done = run_program(self._home, *arguments, PYTHONPATH=path)
        assert done.status == 0, done.err
        return done

    @property
    def log(self) -> str:
        return self._hook.with_name("sitecustomize.py.log").read_text()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(tmp_path)
    yield watched
    assert "SOCKET" not in watched.log


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "page.html").write_text(
        "<html><head><link rel=stylesheet href='http://198.51.100.7/a.css'></head><body>"
        "<img src='http://198.51.100.7/a.png'><p>The mast is eleven metres long.</p></body></html>"
    )
    (docs / "boat.md").write_text("# Boat\n\n![mast](http://198.51.100.7/mast.png)\n\nIt sails.\n")
    return docs


def test_reading_and_searching_open_no_socket(watched: Watched, docs: Path) -> None:
    watched.run("kb", "create", "boats", str(docs), "--lexical")
    found = json.loads(watched.run("kb", "query", "boats", "How long is the mast?", "--json").out)
    assert found["passages"][0]["name"] == "page.html"
    assert "-m app.knowledge.reading" in watched.log


@pytest.mark.model
def test_embedding_and_answering_open_no_socket(
    watched: Watched, docs: Path, starter_model: Path
) -> None:
    watched.run("kb", "create", "boats", str(docs))
    words = ("ask", "--kb", "boats", "-m", str(starter_model), "-o", "max_tokens=8")
    assert watched.run(*words, "How long is the mast?").out.strip()
    for part in ("app.knowledge.reading", "app.knowledge.embedding_child", "engine.worker"):
        assert f"-m {part}" in watched.log
