"""`▾ 12 new lines` over the transcript's lower edge, while its view stands elsewhere; a click goes
to the end.
"""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from app.widgets import words
from app.widgets.transcript import Transcript

LIVE_S = 0.5
"""How often the lines below the view are counted while an answer is written."""


class NewLines(Static):
    """Counts what came below the view of one transcript."""

    def __init__(self, transcript: Transcript) -> None:
        super().__init__(id="new-lines", markup=False)
        self._transcript = transcript

    def on_mount(self) -> None:
        self._timer = self.set_interval(LIVE_S, self._count, pause=True)

    def watch_live(self, on_air: bool) -> None:
        """While an answer is written the lines below the view are counted."""
        if on_air:
            self._timer.resume()
        else:
            self._timer.pause()
            # The last lines are laid out first.
            self.call_after_refresh(self._count)

    def _count(self) -> None:
        count = self._transcript.count_new_lines()
        self.display = count > 0
        if count > 0:
            self.update(Content(f"▾ {words.plural(count, 'new line')}"))

    def on_click(self) -> None:
        self._transcript.anchor()
        self.display = False
