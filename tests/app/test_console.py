"""Laws of plain output: unchanged where a program reads, harmless where a terminal shows."""

from __future__ import annotations

import io
import json

import pytest

from app.console import CleanStream, Console
from app.sanitize import clean
from app.titles import tidy_title

HOSTILE = "a\x1b[31mred\x07\x9b2J\u202eabc\r\nline\rover\u200bx\ud800"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_text_passes_unchanged_where_a_program_reads() -> None:
    out = io.StringIO()
    console = Console(out=out, err=io.StringIO())
    console.write(HOSTILE)
    assert out.getvalue() == HOSTILE


def test_text_on_a_terminal_holds_no_control_characters() -> None:
    out = Terminal()
    console = Console(out=out, err=io.StringIO())
    console.write(HOSTILE)
    console.end_text()
    assert not any(ord(c) < 32 and c not in "\n\t" for c in out.getvalue())
    assert "\u202e" not in out.getvalue()


@pytest.mark.parametrize(
    "text", [HOSTILE, "👩\u200d👩\u200d👧 family", "a\r\nb\r\n", "\ufefftext", "नमस\u200dते"]
)
def test_a_stream_in_any_pieces_shows_what_the_whole_shows(text: str) -> None:
    for size in (1, 2, 3, 5):
        stream = CleanStream()
        shown = "".join(stream.add(text[at : at + size]) for at in range(0, len(text), size))
        assert shown + stream.end() == clean(text)


def test_json_on_a_terminal_is_plain_ascii() -> None:
    out = Terminal()
    Console(out=out, err=io.StringIO()).json({"text": HOSTILE})
    assert out.getvalue().isascii()
    assert "\x1b" not in out.getvalue()
    assert json.loads(out.getvalue())["text"] == HOSTILE


def test_no_escape_goes_to_a_terminal_that_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    err = Terminal()
    Console(out=io.StringIO(), err=err).note_faint("reading")
    assert "\x1b" not in err.getvalue()


def test_a_status_is_shown_only_where_somebody_watches() -> None:
    err = io.StringIO()
    Console(out=io.StringIO(), err=err).status("reading 3 %")
    assert err.getvalue() == ""
    terminal = Terminal()
    Console(plain=True, out=io.StringIO(), err=terminal).status("reading 3 %")
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ('Title: "Weekend in Lyon."', "Weekend in Lyon"),
        ("\n\n**Tax letter**\nand more", "Tax letter"),
        ("", ""),
        ("\x1b[31m", "␛[31m"),
        ("x" * 200, "x" * 59 + "…"),
    ],
)
def test_a_title_is_one_short_line(written: str, title: str) -> None:
    assert tidy_title(written) == title
