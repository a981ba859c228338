"""Where a message is written: several lines, one key sends, pastes never do.

A line end is the Enter key only when nothing follows it at once: terminals without paste brackets
send pasted lines as keys. It does not know what happens to a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual import events
from textual.timer import Timer
from textual.widgets import TextArea

from app.keys import key_names
from app.messages import (
    DraftChanged,
    DraftTyped,
    LastWanted,
    NothingSubmitted,
    PasteFolded,
    Submitted,
)
from app.sanitize import clean, single_line
from app.slash import completions
from app.store.draft import KeptDraft
from app.widgets.graphemes import last_length
from app.widgets.pastes import SHOWN_CHARACTERS, Pastes, is_big, normal_lines

TYPED_GAP_S = 0.012
"""Keys closer together than this come from a program."""
HUMAN_WAIT_S = 0.025
MACHINE_WAIT_S = 0.15
"""How long Enter waits to see whether more of a paste follows."""
BURST_S = 0.08

TOKEN_PAUSE_S = 0.25

ACTIONS = {"prompt.send": "send", "prompt.newline": "newline", "prompt.expand": "expand"}
"""These keys go through the queue of characters, not through bindings: in a burst a binding would
overtake the text in front of it."""


class Prompt(TextArea):
    """The draft of one chat."""

    def __init__(
        self, enter_sends: bool = True, overrides: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(
            id="prompt",
            soft_wrap=True,
            tab_behavior="focus",
            highlight_cursor_line=False,
            placeholder="Ask anything. / shows commands",
        )
        self.pastes = Pastes()
        self.arguments: Mapping[str, Sequence[str]] = {}
        """What is known to stand behind a slash command."""
        self.enter_sends = enter_sends
        self.cursor_blink = False
        self._enter_timer: Timer | None = None
        self._actions = {
            key: action
            for action_id, action in ACTIONS.items()
            for key in key_names(action_id, overrides or {})
        }
        self._last_key_at = 0.0
        self._enter_at = 0.0
        self._burst_at = float("-inf")
        self._told = ""
        self._tell_timer: Timer | None = None

    # ---- the draft

    @property
    def whole(self) -> str:
        """What would be sent."""
        return self.pastes.whole(self.text)

    @property
    def draft(self) -> KeptDraft:
        """What is to be kept."""
        return self.pastes.draft(self.text)

    def set_draft(self, draft: KeptDraft) -> None:
        """Another draft; pastes and long texts are folded. It is told like what is typed."""
        self.load_text(self.pastes.fold_draft(draft))
        self.move_cursor(self.document.end)

    def clear_draft(self) -> None:
        self.pastes.clear()
        self.load_text("")

    def label_counted(self, label: str, tokens: int) -> None:
        """A folded paste has been counted: its label says so."""
        row_column = self._find(label)
        new = self.pastes.count(label, tokens)
        if row_column is not None and new != label:
            row, column = row_column
            self.replace(new, (row, column), (row, column + len(label)))

    def _find(self, label: str) -> tuple[int, int] | None:
        for row in range(self.document.line_count):
            column = self.document.get_line(row).find(label)
            if column >= 0:
                return row, column
        return None

    # ---- keys

    async def _on_key(self, event: events.Key) -> None:
        action = self._actions.get(event.key)
        if action is not None:
            event.stop()
            event.prevent_default()
            getattr(self, f"action_{action}")(event.time)
            return
        self._settle_enter(event.time, is_text=event.is_printable)
        if event.key == "up" and not self.text:
            event.stop()
            event.prevent_default()
            self.post_message(LastWanted())
            return
        self._last_key_at = event.time
        if event.key == "tab" and self._complete():
            event.stop()
            event.prevent_default()
            return
        if self._step_over_label(event) or self._step_over_character(event):
            return
        await super()._on_key(event)

    def action_send(self, now: float) -> None:
        """Enter: sends, unless more of a paste follows at once."""
        self._settle_enter(now, is_text=True)
        if not self.enter_sends:
            self.insert("\n")
        elif now - self._burst_at < BURST_S:
            self._burst_at = now
            self.insert("\n")
        else:
            wait = MACHINE_WAIT_S if now - self._last_key_at < TYPED_GAP_S else HUMAN_WAIT_S
            self._enter_at = now
            self._enter_timer = self.set_timer(wait, self._send)

    def action_newline(self, now: float) -> None:
        self._settle_enter(now, is_text=True)
        if self.enter_sends:
            self.insert("\n")
        else:
            self._send()

    def _settle_enter(self, now: float, is_text: bool) -> None:
        """Another key came while Enter waited: right behind it, it was a line end of a burst."""
        if self._enter_timer is None:
            return
        self._enter_timer.stop()
        if is_text and now - self._enter_at < BURST_S:
            self._enter_timer = None
            self._burst_at = now
            self.insert("\n")
        else:
            self._send()

    def _send(self) -> None:
        self._enter_timer = None
        text = self.whole
        if text.strip():
            written, attached = self.pastes.apart(self.text)
            self.clear_draft()
            self._told = ""
            self.post_message(Submitted(text, written, attached))
        else:
            self.post_message(NothingSubmitted())

    def _complete(self) -> bool:
        """Tab: the first that the draft of a command may become."""
        found = completions(self.text, self.arguments)
        if found:
            self.load_text(found[0].draft)
            self.move_cursor(self.document.end)
        return bool(found)

    def _step_over_label(self, event: events.Key) -> bool:
        """Backspace and delete take a whole label."""
        if event.key not in ("backspace", "delete") or self.selected_text:
            return False
        row, column = self.cursor_location
        probe = column if event.key == "delete" else column - 1
        span = self.pastes.label_at(self.document.get_line(row), probe) if probe >= 0 else None
        if span is None or (event.key == "delete" and probe == span[1]):
            return False
        event.stop()
        event.prevent_default()
        self.delete((row, span[0]), (row, span[1]))
        return True

    def _step_over_character(self, event: events.Key) -> bool:
        """Backspace takes what is seen as one character, however many code points it has."""
        if event.key != "backspace" or self.selected_text:
            return False
        row, column = self.cursor_location
        length = last_length(self.document.get_line(row)[:column])
        if length < 2:
            return False
        event.stop()
        event.prevent_default()
        self.delete((row, column - length), (row, column))
        return True

    # ---- pastes

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self._settle_enter(event.time, is_text=True)
        text = normal_lines(event.text)
        if is_big(text):
            label = self.pastes.fold(text)
            self.insert(label)
            self.post_message(PasteFolded(label, text))
        else:
            self.insert(clean(text))

    def attach(self, name: str, text: str) -> None:
        """A file's whole text, named, behind what is written."""
        self.move_cursor(self.document.end)
        label = self.pastes.fold(normal_lines(text), single_line(name))
        self.insert(f"{label}\n")
        self.post_message(PasteFolded(label, self.pastes.get(label) or text))

    def action_expand(self, now: float) -> None:
        """The label at the cursor, or the only one, becomes text."""
        for row in range(self.document.line_count):
            line = self.document.get_line(row)
            span = self.pastes.label_at(line, line.find("[pasted "))
            text = self.pastes.get(line[slice(*span)]) if span else None
            if span is None or text is None:
                continue
            if len(text) > SHOWN_CHARACTERS:
                self.notify("Too long to show here; ctrl+g opens it in your editor.")
                return
            self.replace(clean(text), (row, span[0]), (row, span[1]))
            return

    # ---- telling

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Tell the screen after a pause in typing: it saves and counts."""
        event.stop()
        if self._tell_timer is None:
            self._tell_timer = self.set_timer(TOKEN_PAUSE_S, self._tell)
        self.post_message(DraftTyped())

    def _tell(self) -> None:
        self._tell_timer = None
        if self.text != self._told:
            self._told = self.text
            self.post_message(DraftChanged(self.whole))
