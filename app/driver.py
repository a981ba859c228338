"""Textual's terminal driver for POSIX systems, with pastes recognised before keys are made of them.

A bracketed paste of a megabyte goes through Textual's key parser character by character; here it is
one event.
"""

from __future__ import annotations

import os
import selectors
import time
from codecs import getincrementaldecoder

from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

from app.pasting import PasteReader, Piece

READ_BYTES = 65_536
POLL_S = 0.1


class PasteDriver(LinuxDriver):
    """A `LinuxDriver` whose input thread hands pastes over whole."""

    def run_input_thread(self) -> None:
        """Reads the terminal until the driver ends."""
        selector = selectors.SelectSelector()
        selector.register(self.fileno, selectors.EVENT_READ)
        decode = getincrementaldecoder("utf-8")("replace").decode
        parser = XTermParser(self._debug)
        reader = PasteReader()
        try:
            while not self.exit_event.is_set():
                if selector.select(POLL_S):
                    data = os.read(self.fileno, READ_BYTES)
                    if not data:
                        return
                    pieces = reader.feed(decode(data), time.monotonic())
                else:
                    pieces = reader.flush()
                self.deliver(pieces, parser)
        except OSError:
            return  # the terminal is gone; the hang-up signal ends the program
        finally:
            selector.close()

    def deliver(self, pieces: list[Piece], parser: XTermParser) -> None:
        """Makes Textual's events of keys and pastes."""
        for piece in pieces:
            if piece.kind == "paste":
                self.process_message(events.Paste(piece.text))
                continue
            for event in parser.feed(piece.text):
                self.process_message(event)
        for event in parser.tick():
            self.process_message(event)
