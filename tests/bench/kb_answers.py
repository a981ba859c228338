"""Time to the first word of questions to a small collection that is read once, with the starter.

    python -m tests.bench.kb_answers [--tokens N] [--questions N] [--model PATH]

Each question is asked in a process of its own, so that the state comes from disk, then all again in
new chats of one process. Times go from the question to its first token, the search included. The
last line is JSON: milliseconds, and the second's share of the first.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.knowledge.bases import KnowledgeBases
from app.paths import Paths
from app.session import Answered, Options, Session
from app.settings import CacheSettings, EngineSettings, Settings
from app.store.history import History
from engine.client import EngineClient
from engine.events import Delta, Usage
from engine.messages import SamplingOverrides
from tests import real_models

NAMES = ("Amber", "Birch", "Cedar", "Dune", "Elm", "Fern", "Grove", "Heath", "Iris", "Juniper")
OPTIONS = Options(kb="club", max_tokens=8, sampling=SamplingOverrides(temperature=0.0, seed=1))
WORDS_PER_TOKEN = 0.62
"""Of this text, with the starter's vocabulary and the rules around each passage."""


def text(tokens: int) -> str:
    """A document of about so many tokens."""
    lines: list[str] = []
    words = 0
    while words < tokens * WORDS_PER_TOKEN:
        number = len(lines)
        name = NAMES[number % len(NAMES)]
        line = (
            f"## Garden {number} of house {name}\n\nThe garden of house {name} has {number + 3} "
            f"beds and was laid out in {1900 + number}. Its keeper pays {7 * number + 12} euros a "
            f"year, and the gate is closed at {number % 5 + 7} in the evening.\n"
        )
        lines.append(line)
        words += len(line.split())
    return "# Gardens\n\n" + "\n".join(lines)


@contextmanager
def session_in(paths: Paths, model: Path) -> Iterator[Session]:
    settings = Settings(engine=EngineSettings(self_tune=False), cache=CacheSettings())
    client = EngineClient(paths.engine_log)
    session = Session(History.open(paths.database, paths.locks), client, settings, paths)
    try:
        session.load(str(model))
        yield session
    finally:
        session.close()


def first_word_ms(session: Session, question: str) -> tuple[float, Usage]:
    """In a new chat: milliseconds to the first word, and what was computed."""
    began = time.monotonic()
    first = 0.0
    last: object = None
    for event in session.send(None, question, OPTIONS):
        if isinstance(event, Delta) and not first:
            first = time.monotonic() - began
        last = event
    assert isinstance(last, Answered), last
    return 1e3 * first, last.result.usage


def question(number: int) -> str:
    return f"How many beds has garden {number} of house {NAMES[number % len(NAMES)]}?"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tokens", type=int, default=3600)
    parser.add_argument("--questions", type=int, default=3)
    parser.add_argument("--model", type=Path, default=None)
    chosen = parser.parse_args()
    model = chosen.model or real_models.starter()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        paths = Paths.under(root / "home").ensure()
        (root / "gardens.md").write_text(text(chosen.tokens))
        with KnowledgeBases(paths).create("club", [root / "gardens.md"]) as base:
            base.sync(lexical_only=True)
        apart: list[float] = []
        for number in range(chosen.questions):
            with session_in(paths, model) as session:
                ms, usage = first_word_ms(session, question(number))
            apart.append(ms)
            print(f"process {number + 1}: {ms:,.0f} ms · {usage}", flush=True)
        together: list[float] = []
        for path in paths.cache.rglob("*.state"):
            path.unlink()
        with session_in(paths, model) as session:
            for number in range(chosen.questions):
                ms, usage = first_word_ms(session, question(number))
                together.append(ms)
                print(f"chat {number + 1}: {ms:,.0f} ms · {usage}", flush=True)
    found = {
        "processes_ms": [round(ms, 1) for ms in apart],
        "chats_ms": [round(ms, 1) for ms in together],
        "second_share_processes": round(apart[1] / apart[0], 4),
        "second_share_chats": round(together[1] / together[0], 4),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
