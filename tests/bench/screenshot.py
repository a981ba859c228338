"""Makes the pictures of the README: the real screens over a scripted engine.

    python -m tests.bench.screenshot [FOLDER]      default: docs/screenshots

The pictures are SVG files without remote fonts or scripts.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot

import app.session
from app.application import LocalchatApp
from app.screens.chat import ChatScreen
from app.session import Session
from app.settings import Settings
from tests.app.tui.fakes import Script, ScriptedClient, fill, make_session

QUESTION = "What food is Lyon known for?"
ANSWER = """\
Lyon is known for **quenelles**, a light dumpling of pike, and for its *bouchons*: small, loud
rooms where the menu is short.

- tripe, sausage and salads with bacon
- the market hall, for cheese and oysters
- praline tart, pink and very sweet

| dish | ask for it at | about |
|---|---|---|
| quenelle | a bouchon | 16 € |
| praline tart | any bakery | 4 € |
"""
MUSEUMS = "The Musée des Confluences, the Musée des Beaux-Arts and the Lugdunum museum."
OTHERS = ("Regex for dates", "Tax letter", "A name for the boat")


LEASE = """\
# The flat in Rue Mercière

The lease began on 1 June 2021 and ends on 31 May 2027. Notice has to be given three months before.

The rent is 940 euros a month, to be paid by the fifth.
"""
HANDBOOK = "# House\n\nThe cellar key hangs in the hall. Bicycles stand in the yard.\n"
FROM_DOCUMENTS = """\
The lease ends on 31 May 2027 [2]. Notice has to be given three months before [2].

Bicycles may stand on the roof [1].
"""


@dataclass(frozen=True)
class Picture:
    name: str
    theme: str
    size: tuple[int, int]
    has_documents: bool = False


PICTURES = (
    Picture("chat-dark", "dark", (104, 34)),
    Picture("chat-light", "light", (104, 34)),
    Picture("chat-small", "dark", (60, 20)),
    Picture("documents", "dark", (104, 34), has_documents=True),
)


def scripts() -> list[Script]:
    pieces = tuple(word + " " for word in MUSEUMS.split(" "))
    return [
        Script((ANSWER,), reasoning=("Think of dishes.",), prompt_tokens=31, reused=0),
        Script(pieces, prompt_tokens=238, reused=219),
    ]


async def take(picture: Picture, folder: Path) -> None:
    """Plays one conversation and writes its picture."""
    with tempfile.TemporaryDirectory() as place:
        await play(picture, folder, Path(place))


async def play(picture: Picture, folder: Path, place: Path) -> None:
    model = place / "model.gguf"
    model.write_bytes(b"GGUF")
    setattr(app.session, "choose_model", lambda *_: model)  # noqa: B010  no model file is needed
    settings = Settings(theme=picture.theme)
    client = ScriptedClient(
        [Script((FROM_DOCUMENTS,), reused=0)] * 3 if picture.has_documents else scripts()
    )

    def open_session() -> Session:
        session = make_session(place, client, settings)
        for title in OTHERS:
            fill(session, [(title, "Done.")])
        if picture.has_documents:
            make_base(session, place / "documents")
        return session

    program = LocalchatApp(open_session, settings)
    async with program.run_test(size=picture.size) as pilot:
        screen = program.chat_screen
        await wait(lambda: screen.loaded is not None)
        if picture.has_documents:
            await ask_documents(screen, pilot)
        else:
            await ask(screen, pilot, QUESTION, 2)
            await ask(screen, pilot, "Name three museums there.", 4)
        screen.bars.show_footer()
        screen._poll()
        await pilot.pause(0.3)
        text = inert(program.export_screenshot(title=" "))
        (folder / f"{picture.name}.svg").write_text(text, encoding="utf-8")
        screen.work.finish()
        screen.knowledge.close()
        session = screen.stored_session
        if session is not None:
            session.close()


def make_base(session: Session, folder: Path) -> None:
    folder.mkdir()
    (folder / "lease.md").write_text(LEASE, encoding="utf-8")
    (folder / "house.md").write_text(HANDBOOK, encoding="utf-8")
    with session.knowledge.all.create("flat", [folder]) as base:
        base.sync(lexical_only=True)


async def ask(screen: ChatScreen, pilot: Pilot[int], question: str, turns: int) -> None:
    screen.prompt.insert(question)
    await pilot.press("enter")
    while len(screen.transcript.turns) < turns or screen.answering.run is not None:
        await pilot.pause(0.02)


async def ask_documents(screen: ChatScreen, pilot: Pilot[int]) -> None:
    """An answer with a citation that holds and one that does not."""
    screen.knowledge.choose("flat")
    await wait(lambda: screen.knowledge.name == "flat")
    await ask(screen, pilot, "When does the lease end, and where do bicycles stand?", 2)


async def wait(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


def inert(svg: str) -> str:
    """Without the web fonts that the exporter names, and without blanks that some viewers drop."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return BLANKS_FIRST.sub(shifted, svg)


BLANKS_FIRST = re.compile(
    r'(<text class="[^"]*" )x="([\d.]+)"( y="[\d.]+" )textLength="([\d.]+)"([^>]*>)'
    r"((?:&#160;)+)([^<]*)</text>"
)
CELL = 12.2
"""Width of one column in the exporter's units."""


def shifted(match: re.Match[str]) -> str:
    """The text begins at its first visible character."""
    start, x, y, length, end, blanks, text = match.groups()
    if not text:
        return ""
    gap = CELL * (len(blanks) // len("&#160;"))
    left, width = float(x) + gap, float(length) - gap
    return f'{start}x="{left:.1f}"{y}textLength="{width:.1f}"{end}{text}</text>'


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    for picture in PICTURES:
        asyncio.run(take(picture, folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
