"""The turns of one chat: only the last ones are mounted, older ones follow when the view reaches
the top.

It follows the end while it stands at the end; otherwise it says how much is new below. It reads
nothing from disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from app.knowledge.sources import Sources
from app.store.conversation import Message
from app.widgets import words
from app.widgets.answer import AnswerTurn
from app.widgets.extent import settled_extent
from app.widgets.ground import EvenGround
from app.widgets.turn import QuestionTurn, Turn

FIRST = 4
"""Turns mounted when a chat opens. A long answer takes 40 ms to draw: the screen must not wait."""
SOON = 12
"""Turns that are mounted without being asked for, one after the other."""
SOON_S = 0.03
MORE = 4
"""Turns mounted each time the view reaches the top."""
MOST = 80
"""While a chat grows, turns beyond this many leave the top of the screen."""


class Turns(Vertical, EvenGround):
    """The column of turns."""

    virtual_size = settled_extent()


class Transcript(VerticalScroll, EvenGround, can_focus=False):
    """Turn widgets, oldest first."""

    virtual_size = settled_extent()

    def __init__(self, continue_key: str = "ctrl+e", sources_key: str = "f3") -> None:
        super().__init__(id="transcript")
        self._continue_key = continue_key
        self._sources_key = sources_key
        self.sources: dict[int, Sources] = {}
        """By question: the documents that its answers rest on."""
        self._above: list[Message] = []
        self._siblings: Mapping[int, tuple[int, ...]] = {}
        self._older = Static(markup=False, id="older")
        self._column = Turns(id="turns")
        """Never shorter than the view: an anchored scroll view would put a short chat at its
        lower edge.
        """
        self._is_filling = False
        self._height_seen = 0

    def compose(self) -> ComposeResult:
        with self._column:
            yield self._older

    def on_mount(self) -> None:
        self._older.display = False
        self.anchor()

    @property
    def turns(self) -> list[Turn]:
        return [child for child in self._column.children if isinstance(child, Turn)]

    @property
    def is_at_end(self) -> bool:
        return self.max_scroll_y - self.scroll_y <= 1

    async def show(
        self, messages: Sequence[Message], siblings: Mapping[int, tuple[int, ...]]
    ) -> None:
        """Replace everything; the view goes to the end."""
        self._siblings = siblings
        self.sources = {one.id: one.sources for one in messages if one.sources is not None}
        self._above = list(messages[:-FIRST])
        with self.app.batch_update():
            await self._column.remove_children("Turn, .problem")
            await self._column.mount_all([self._turn(message) for message in messages[-FIRST:]])
        self._show_older()
        self.anchor()
        self.set_timer(SOON_S, self._fill_quietly)

    async def add_block(self, block: Widget) -> None:
        """Something that belongs to no turn, at the end."""
        await self._column.mount(block)

    async def prune(self) -> None:
        """A long chat leaves the screen at the top."""
        surplus = self.turns[: max(len(self.turns) - MOST, 0)]
        if surplus and self.is_at_end:
            self._above.extend(old.message for old in surplus)
            for old in surplus:
                await old.remove()
            self._show_older()

    async def replace(self, keep: Sequence[int], added: Sequence[Turn]) -> None:
        """Keeps the turns of these ids and puts others behind them: a branch goes another way."""
        gone = [turn for turn in self.turns if turn.message.id not in keep]
        with self.app.batch_update():
            for turn in gone:
                await turn.remove()
            await self._column.remove_children(".problem")
            await self._column.mount_all(added)

    async def _fill_quietly(self) -> None:
        """A screenful or two is ready before anybody scrolls."""
        if len(self.turns) < SOON and self._above:
            await self.fill_above(1)
            self.set_timer(SOON_S, self._fill_quietly)

    async def fill_above(self, count: int = MORE) -> None:
        """Mounts some of what is above, and keeps the view where it was."""
        if self._is_filling or not self._above:
            return
        self._is_filling = True
        batch, self._above = self._above[-count:], self._above[:-count]
        from_end = self.max_scroll_y - self.scroll_y
        await self._column.mount_all([self._turn(m) for m in batch], after=self._older)
        self._show_older()
        self.call_after_refresh(self._stand, from_end)

    def _stand(self, from_end: float) -> None:
        self._is_filling = False
        if self._anchor_released:
            self.scroll_to(y=self.max_scroll_y - from_end, animate=False, immediate=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """The top is where older turns are waiting."""
        super().watch_scroll_y(old_value, new_value)
        if new_value < 1 <= old_value and self._above:
            self.run_worker(self.fill_above(), group="older")

    def count_new_lines(self) -> int:
        """Lines that came since the view left the end; 0 at the end."""
        if self.is_at_end:
            self._height_seen = self.virtual_size.height
        return max(self.virtual_size.height - self._height_seen, 0)

    def turn_of(self, message_id: int) -> Turn | None:
        return next((turn for turn in self.turns if turn.message.id == message_id), None)

    @property
    def last_answer(self) -> AnswerTurn | None:
        answers = [turn for turn in self.turns if isinstance(turn, AnswerTurn)]
        return answers[-1] if answers else None

    @property
    def last_question(self) -> QuestionTurn | None:
        questions = [turn for turn in self.turns if isinstance(turn, QuestionTurn)]
        return questions[-1] if questions else None

    def make_turn(self, message: Message, siblings: tuple[int, ...] = ()) -> Turn:
        if message.role == "user":
            return QuestionTurn(message, siblings)
        turn = AnswerTurn(message, siblings, self._continue_key, self._sources_key)
        turn.sources = self.sources.get(message.parent_id or 0)
        return turn

    def _turn(self, message: Message) -> Turn:
        return self.make_turn(message, self._siblings.get(message.id, ()))

    def _show_older(self) -> None:
        self._older.display = bool(self._above)
        if self._above:
            self._older.update(Content(f"▴ {words.plural(len(self._above), 'earlier message')}"))
