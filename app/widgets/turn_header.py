"""First line of a turn: who, what it is doing, which branch, when."""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.widget import Widget

from app.messages import BranchWanted

LEFT, RIGHT = "◂", "▸"


class TurnHeader(Widget):
    """One line; the right end is the same place in every turn."""

    DEFAULT_CSS = "TurnHeader { height: 1; width: 1fr; }"

    def __init__(
        self, message_id: int, name: str, time: str, siblings: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        self._message_id = message_id
        self._who = name
        self._time = time
        self._siblings = siblings
        self.state = ""

    @property
    def branch(self) -> str:
        """`◂ 2/3 ▸`, empty where there is no choice."""
        if len(self._siblings) < 2 or self._message_id not in self._siblings:
            return ""
        place = self._siblings.index(self._message_id) + 1
        return f"{LEFT} {place}/{len(self._siblings)} {RIGHT}"

    def show_state(self, state: str) -> None:
        """What the answer is doing now, at the right end."""
        if state != self.state:
            self.state = state
            self.refresh()

    def set_place(self, message_id: int, time: str, siblings: tuple[int, ...]) -> None:
        self._message_id, self._time, self._siblings = message_id, time, siblings
        self.refresh()

    def render(self) -> Content:
        right = "  ".join(part for part in (self.state, self.branch, self._time) if part)
        width = self.size.width
        name = Content.styled(self._who, "bold $primary")
        if width < len(right) + name.cell_length + 2:
            right = right if width > len(right) + 4 else (self.state or self._time)
        gap = max(width - name.cell_length - len(right), 1)
        return Content.assemble(name, " " * gap, (right, "$faint"))

    def on_click(self, event: events.Click) -> None:
        """The arrows of the branch switch."""
        if not self.branch:
            return
        start = self.size.width - len(self.branch) - (len(self._time) + 2 if self._time else 0)
        place = event.x - start
        if 0 <= place < len(self.branch):
            event.stop()
            step = -1 if place < len(self.branch) // 2 else 1
            self.post_message(BranchWanted(self._message_id, step))
