"""A set of documents in every format, with facts whose page, line or heading is known.

    python -m tests.app.knowledge.made_documents FOLDER

Each fact is one sentence about something invented, so that it stands in one place only and no model
knows it. Around it stands filler of the same kind of words.
"""

from __future__ import annotations

import csv
import io
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.app.knowledge.made_office import paragraph, table, write_docx, write_epub
from tests.app.knowledge.made_pdf import PdfPage, write_pdf


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that one place of the set says."""

    path: Path
    question: str
    sentence: str
    """As it stands in the document's text, on one line."""
    page: int | None = None
    line: int | None = None
    """From 1, in files whose lines are known."""
    headings: tuple[str, ...] = ()
    """Where the format has them."""


@dataclass(frozen=True, slots=True)
class Told:
    """A question and the sentence that answers it."""

    question: str
    sentence: str


TOLD = tuple(
    Told(question, sentence)
    for question, sentence in (
        (
            "How long is the Brellow warranty?",
            "The Brellow kettle has 31 months of warranty.",
        ),
        (
            "Who repaired the Ostrava windmill?",
            "Hedda Quist repaired the Ostrava windmill.",
        ),
        ("How deep is the lake Umberfell?", "The lake Umberfell is 417 metres deep."),
        ("What does a Tarrow licence cost?", "A Tarrow licence costs 86 crowns a year."),
        ("When does the Pellamy ferry leave?", "The Pellamy ferry leaves at 6:45 every morning."),
        (
            "Which oil does the Corvane engine need?",
            "The Corvane engine needs rape oil of grade 9.",
        ),
        ("How many bees live in a Vossel hive?", "A Vossel hive holds 52,300 bees in July."),
        ("What colour is a ripe dunnaberry?", "A ripe dunnaberry is pale turquoise."),
        ("Who wrote the Lintham report?", "Ambrose Kettering wrote the Lintham report."),
        ("How heavy is the bell of Sarn?", "The bell of Sarn weighs 7,841 kilograms."),
        ("Where are Mirrel lamps made?", "Mirrel lamps are made in the harbour of Yastrow."),
        ("How long does Quarn glue dry?", "Quarn glue dries for 19 hours."),
        ("What voltage does the Hexley pump take?", "The Hexley pump takes 133 volts."),
        ("Who directs the Ferrand choir?", "Ilse Montague directs the Ferrand choir since 2008."),
        (
            "What is the deadline for Gorse grants?",
            "Gorse grants end on 14 March.",
        ),
        ("How hot must a Pindle oven be?", "A Pindle oven must reach 264 degrees."),
        ("Which bus goes to Nether Wallop quarry?", "Bus 77 goes to the Nether Wallop quarry."),
        ("How many steps has the Ardmore tower?", "The Ardmore tower has 388 steps."),
        ("What do Rukh falcons eat?", "Rukh falcons eat silver voles and moths."),
        ("When was the Callow bridge opened?", "The Callow bridge was opened on 3 May 1911."),
        (
            "What is the code of the Tesmer vault?",
            "The Tesmer vault has the code blue heron.",
        ),
        ("Who pays for the Danforth library?", "The fishers guild pays for the Danforth library."),
        ("How fast is the Swale tram?", "The Swale tram runs at 43 kilometres an hour."),
        ("What grows on Mount Ebberly?", "Only grey juniper grows on Mount Ebberly."),
        ("How large is the Orrin archive?", "The Orrin archive keeps 96 thousand letters."),
        ("Which language do the Threll speak?", "The Threll speak a dialect called low Ansic."),
        ("What is served at the Juniper inn?", "The Juniper inn serves eel pie on Thursdays."),
        ("How old is the Maddock oak?", "The Maddock oak is 612 years old."),
        ("Who owns the Kestrel mine?", "The Pryce sisters own the Kestrel mine."),
        ("How is Brannow cheese stored?", "Brannow cheese is stored in wet sand."),
        (
            "What is the timeout of the Zephyr client?",
            "The Zephyr client stops after 47 seconds.",
        ),
        ("Which port does the Lumen daemon use?", "The Lumen daemon listens on port 8461."),
        ("What is the fine for late Elbury books?", "Late Elbury books cost 35 pence a week."),
        ("How many seats has the Rosamund theatre?", "The Rosamund theatre has 274 seats."),
        ("What cures Fenwick fever?", "Fenwick fever is cured with willow tea."),
        ("When does the Hartle market open?", "The Hartle market opens at half past seven."),
        ("What is the speed limit in Oxmoor?", "The speed limit in Oxmoor is 24 miles an hour."),
        ("Who guards the Saltby light?", "Two retired sailors guard the Saltby light."),
    )
)
CHINESE = (
    Told("青石图书馆几点开门？", "青石图书馆每天早上八点四十分开门。"),
    Told("白鹭桥有多长？", "白鹭桥全长六百一十三米。"),
    Told("云溪茶厂的厂长是谁？", "云溪茶厂的厂长是沈若兰。"),
    Told("松湖渡轮的票价是多少？", "松湖渡轮的票价是十七元。"),
)
NOUNS = "valley|station|keeper|garden|engine|letter|ledger|harbour|orchard|council|machine"
VERBS = "visits|describes|repairs|follows|records|crosses|measures|replaces|watches|answers"
PLACES = "near the river|before winter|in the old town|after the meeting|by hand|with great care"


def make_set(folder: Path) -> list[Fact]:
    """Writes 16 files into the folder, the same each time, and gives their facts."""
    folder.mkdir(parents=True, exist_ok=True)
    maker = _Maker(folder)
    for suffix, ending in (("md", "\n"), ("markdown", "\r\n"), ("txt", "\r")):
        maker.markdown(f"guide.{suffix}", ending, "utf-8-sig" if suffix == "md" else "utf-8")
    maker.pdf("manual.pdf", pages=9)
    maker.pdf("report.pdf", pages=24)
    maker.pdf("turned.pdf", pages=5, rotate=90)
    maker.docx("minutes.docx")
    maker.docx("handbook.docx")
    maker.epub("tales.epub")
    maker.html("page.html")
    maker.html("saved.htm")
    maker.csv("prices.csv")
    maker.notebook("analysis.ipynb")
    maker.code("settings.py")
    maker.json("export.json")
    maker.chinese("指南.md")
    return maker.facts


class _Maker:
    """Gives each file the next facts of the list."""

    def __init__(self, folder: Path) -> None:
        self.facts: list[Fact] = []
        self._folder = folder
        self._told = iter(TOLD)
        self._random = random.Random(7)

    def _take(self, count: int) -> list[Told]:
        return [next(self._told) for _ in range(count)]

    def _filler(self, sentences: int) -> list[str]:
        def one_of(words: str) -> str:
            return self._random.choice(words.split("|"))

        return [
            f"The {one_of(NOUNS)} {one_of(VERBS)} the {one_of(NOUNS)} {one_of(PLACES)}."
            for _ in range(sentences)
        ]

    def _add(
        self,
        name: str,
        told: Told,
        *,
        page: int | None = None,
        line: int | None = None,
        headings: tuple[str, ...] = (),
    ) -> None:
        path = self._folder / name
        self.facts.append(Fact(path, told.question, told.sentence, page, line, headings))

    def markdown(self, name: str, ending: str, encoding: str) -> None:
        lines = [f"# The {name.replace('.', ' ')}", ""]
        for number, told in enumerate(self._take(3), 1):
            heading = f"Part {number}"
            lines += [f"## {heading}", "", *self._filler(4 * number), ""]
            headings = () if name.endswith(".txt") else (lines[0][2:], heading)
            self._add(name, told, line=len(lines) + 1, headings=headings)
            lines += [told.sentence, *self._filler(3), ""]
        (self._folder / name).write_bytes(ending.join(lines).encode(encoding))

    def pdf(self, name: str, pages: int, rotate: int = 0) -> None:
        told = self._take(3)
        numbers = [1, pages // 2 + 1, pages]
        made: list[PdfPage] = []
        for page in range(1, pages + 1):
            lines = self._filler(24)
            if page in numbers:
                fact = told[numbers.index(page)]
                lines[self._random.randrange(24)] = fact.sentence
                chapter = ("Opening",) if page < numbers[1] else ("Middle",)
                self._add(name, fact, page=page, headings=chapter)
            made.append(PdfPage(lines, rotate=rotate))
        bookmarks = [("Opening", 1), ("Middle", numbers[1])]
        write_pdf(self._folder / name, made, title=name, bookmarks=bookmarks)

    def docx(self, name: str) -> None:
        body = paragraph(f"All about {name}", "H1")
        for number, told in enumerate(self._take(2), 1):
            body += paragraph(f"Point {number}", "H2")
            body += "".join(map(paragraph, self._filler(6)))
            body += paragraph(" ".join([*self._filler(1), told.sentence, *self._filler(1)]))
            self._add(name, told, headings=(f"All about {name}", f"Point {number}"))
        body += table([["item", "price"], ["tin", "3"], ["pan", "9"]])
        write_docx(self._folder / name, body)

    def epub(self, name: str) -> None:
        chapters = []
        for number, told in enumerate(self._take(2), 1):
            before, after = " ".join(self._filler(8)), " ".join(self._filler(4))
            title = f"Chapter {number}"
            chapters.append(f"<h1>{title}</h1><p>{before}</p><p>{told.sentence} {after}</p>")
            self._add(name, told, headings=(title,))
        write_epub(self._folder / name, chapters, "Tales")

    def html(self, name: str) -> None:
        parts = [f"<title>{name}</title><nav hidden>menu</nav><h1>Welcome</h1>"]
        for number, told in enumerate(self._take(2), 1):
            filler = "".join(f"<p>{sentence}</p>" for sentence in self._filler(5))
            parts.append(f"<h2>Topic {number}</h2>{filler}<p><b>{told.sentence}</b></p>")
            self._add(name, told, headings=("Welcome", f"Topic {number}"))
        (self._folder / name).write_text("\n".join(parts), "utf-8")

    def csv(self, name: str) -> None:
        written = io.StringIO()
        writer = csv.writer(written)
        writer.writerow(["number", "remark"])
        told = self._take(2)
        for number in range(2, 202):
            if number in (60, 199):
                fact = told.pop(0)
                writer.writerow([number, fact.sentence])
                self._add(name, fact, line=number)
            else:
                writer.writerow([number, *self._filler(1)])
        (self._folder / name).write_bytes(written.getvalue().encode())

    def notebook(self, name: str) -> None:
        first, second = self._take(2)
        cells: list[dict[str, object]] = [
            {"cell_type": "markdown", "source": ["# Study\n", "\n", *_lines(self._filler(3))]},
            {"cell_type": "markdown", "source": [first.sentence]},
            {"cell_type": "code", "source": f"x = 1  # {second.sentence}", "outputs": []},
        ]
        self._add(name, first, headings=("Study", "cell 2"))
        self._add(name, second, headings=("Study", "cell 3"))
        (self._folder / name).write_text(json.dumps({"cells": cells}), "utf-8")

    def code(self, name: str) -> None:
        lines = ["import os", ""]
        for told, function in zip(self._take(2), ("connect", "listen"), strict=True):
            lines += [f"def {function}() -> None:", *(f"    # {one}" for one in self._filler(4))]
            self._add(name, told, line=len(lines) + 1, headings=(function,))
            lines += [f"    # {told.sentence}", "    return None", "", ""]
        (self._folder / name).write_text("\n".join(lines), "utf-8")

    def json(self, name: str) -> None:
        told = self._take(2)
        entries = [*self._filler(5), told[0].sentence, *self._filler(5), told[1].sentence]
        for fact in told:
            self._add(name, fact, line=entries.index(fact.sentence) + 3)
        (self._folder / name).write_text(json.dumps({"notes": entries}, indent=1), "utf-8")

    def chinese(self, name: str) -> None:
        lines = ["# 指南", ""]
        for number, told in enumerate(CHINESE, 1):
            heading = f"第{number}节"
            lines += [f"## {heading}", "今天天气很好，我们去公园散步。", ""]
            self._add(name, told, line=len(lines) + 1, headings=("指南", heading))
            lines += [told.sentence, ""]
        (self._folder / name).write_text("\n".join(lines), "gb18030")


def _lines(sentences: Sequence[str]) -> list[str]:
    return [f"{sentence}\n" for sentence in sentences]


if __name__ == "__main__":
    for made in make_set(Path(sys.argv[1])):
        print(made)
