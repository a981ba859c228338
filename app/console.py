"""Plain output: the answer on stdout, everything else on stderr.

On a terminal all text passes the sanitiser; anywhere else it passes unchanged, nothing added and
nothing taken away. It knows streams, and no conversation and no engine.
"""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO

from app.sanitize import clean
from engine.events import ErrorInfo

ColorChoice = str
"""`auto`, `always` or `never`."""

_UNDECIDED = "\r\u200c\u200d"
"""How these are shown depends on the character that follows."""


class Console:
    """Two streams and whether each is a terminal."""

    def __init__(
        self,
        color: ColorChoice = "auto",
        plain: bool = False,
        out: TextIO | None = None,
        err: TextIO | None = None,
    ) -> None:
        self._out = out if out is not None else sys.stdout
        self._err = err if err is not None else sys.stderr
        self.out_is_terminal = _is_terminal(self._out)
        self.err_is_terminal = _is_terminal(self._err)
        self.plain = plain or os.environ.get("TERM") == "dumb"
        self._color = color
        self._status_shown = False
        self._stream = CleanStream()
        self._at_line_start = True

    def write(self, text: str) -> None:
        """Part of a text; shown at once. A text that is written in parts ends with `end_text`."""
        self._put(self._stream.add(text) if self.out_is_terminal else text)

    def end_text(self) -> None:
        """The text is complete: what was held back is shown, and the line is ended."""
        self._put(self._stream.end())
        if not self._at_line_start:
            self._put("\n")

    def _put(self, text: str) -> None:
        if text:
            self._at_line_start = text.endswith("\n")
            self._out.write(text)
        self._out.flush()

    def line(self, text: str = "") -> None:
        """A whole line of ours on stdout."""
        self._put((clean(text) if self.out_is_terminal else text) + "\n")

    def json(self, value: Any, indent: bool = False) -> None:
        """One JSON document on a line; ASCII only on a terminal, so that nothing in it can act."""
        import json

        text = json.dumps(value, ensure_ascii=self.out_is_terminal, indent=2 if indent else None)
        self._out.write(_encodable(text, self._out) + "\n")
        self._out.flush()

    def note(self, text: str) -> None:
        """A line about the run, on stderr."""
        self.clear_status()
        self._err.write(self._safe(text) + "\n")
        self._err.flush()

    def error(self, cause: ErrorInfo) -> None:
        """What happened, why as far as known, and what to do now."""
        self.note(f"localchat: {cause.title}")
        for part in (cause.text, cause.next_step):
            if part:
                self.note("  " + part.replace("\n", "\n  "))

    def status(self, text: str) -> None:
        """A line that the next one replaces; only where somebody watches."""
        if not self.err_is_terminal or self.plain:
            return
        self._err.write("\r\x1b[K" + self._faint(clean(text)))
        self._err.flush()
        self._status_shown = True

    def clear_status(self) -> None:
        if self._status_shown:
            self._err.write("\r\x1b[K")
            self._err.flush()
            self._status_shown = False

    def note_faint(self, text: str) -> None:
        """A line about the run that is less important than the answer."""
        self.clear_status()
        self._err.write(self._faint(self._safe(text)) + "\n")
        self._err.flush()

    def _faint(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self._colored() else text

    def _colored(self) -> bool:
        if self._color != "auto":
            return self._color == "always"
        return self.err_is_terminal and not self.plain and not os.environ.get("NO_COLOR")

    def _safe(self, text: str) -> str:
        return clean(text) if self.err_is_terminal else text


class CleanStream:
    """The sanitiser over a text that arrives in parts.

    A part's end is held back where the next part decides how it is shown.
    """

    def __init__(self) -> None:
        self._held = ""
        self._last = ""

    def add(self, text: str) -> str:
        text = self._held + text
        keep = len(text.rstrip(_UNDECIDED))
        # A joiner binds the visible character before it too.
        self._held, text = text[keep:], text[:keep]
        return self._cleaned(text)

    def end(self) -> str:
        text, self._held = self._held, ""
        cleaned = self._cleaned(text)
        self._last = ""
        return cleaned

    def _cleaned(self, text: str) -> str:
        if not text:
            return ""
        before = clean(self._last)
        cleaned = clean(self._last + text)
        self._last = text[-1:]
        return cleaned[len(before) :] if cleaned.startswith(before) else clean(text)


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False


def _encodable(text: str, stream: TextIO) -> str:
    """`text` as it is, or with JSON escapes where the stream's encoding lacks a character."""
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        import json

        return json.dumps(json.loads(text))
    return text


def prepare_streams() -> None:
    """UTF-8 on the standard streams; characters that cannot be written never end the program.

    One that was closed before the start leads nowhere: else the next file that is opened, a
    database of ours, would get its number.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            place = os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)
            setattr(sys, name, os.fdopen(place, "r" if number == 0 else "w", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")
