"""The lines around the conversation: title with model, load bar, undo line, completions, keys and
memory.

Each draws one reactive value; none of them asks anybody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from app.keys import Key, shown
from app.sanitize import single_line
from app.slash import Completion
from app.widgets import words
from app.widgets.answer import model_name
from engine.messages import Loaded, State


def spread(left: Content, right: Content, width: int) -> Content:
    """Left and right on one line; the right part goes first when there is no room."""
    gap = width - left.cell_length - right.cell_length
    if gap < 1:
        return left.truncate(max(width, 0), ellipsis=True)
    return Content.assemble(left, " " * gap, right)


TITLE_ROOM = 24
"""The chat's title is shortened to this many columns before the model's name goes."""


class TitleBar(Widget):
    """`localchat · documents: work · Lyon weekend        SmolLM2 135M Q4_1 · 8k · fits`"""

    chat_title: reactive[str] = reactive("")
    documents: reactive[str] = reactive("")
    """The knowledge base that answers."""
    model: reactive[str] = reactive("")

    def render(self) -> Content:
        title = single_line(self.chat_title, 80)
        base = single_line(self.documents, 40)
        left = Content.assemble(
            ("localchat", "bold $accent"),
            (f" · documents: {base}" if base else "", "$accent"),
            f" · {title}" if title else "",
        )
        right = Content.styled(single_line(self.model, 60), "$faint")
        room = self.size.width - right.cell_length - 2
        if room >= TITLE_ROOM:
            left = left.truncate(room, ellipsis=True)
        return spread(left, right, self.size.width)


def model_words(loaded: Loaded) -> str:
    """`SmolLM2 135M Instruct Q4_1 · 8k`"""
    name = model_name(loaded.name)
    quantization = "" if loaded.quantization in name else f" {loaded.quantization}"
    return f"{name}{quantization} · {words.tokens_short(loaded.ctx)}"


@dataclass(frozen=True, slots=True)
class Load:
    """A model on its way."""

    name: str
    done_bytes: int = 0
    total_bytes: int = 0


class LoadBar(Widget):
    """Bytes of a load, with a bar; hidden while nothing loads."""

    load: reactive[Load | None] = reactive(None)
    stop_key: reactive[str] = reactive("esc")

    def watch_load(self, load: Load | None) -> None:
        self.display = load is not None

    def render(self) -> Content:
        load = self.load
        if load is None:
            return Content("")
        name = model_name(load.name) if load.name else "the model"
        amount = (
            "looking for models" if not load.name and not load.total_bytes else f"loading {name}"
        )
        if load.total_bytes:
            done, total = words.size(load.done_bytes), words.size(load.total_bytes)
            amount = f"loading {name} · {done} of {total}"
        tail = f"{amount} · {self.stop_key} stops"
        width = max(min(self.size.width - len(tail) - 4, 40), 0)
        bar = words.bar(load.done_bytes, load.total_bytes, width) + "  " if width > 4 else ""
        return Content.assemble((bar, "$accent"), (tail, "$faint")).truncate(
            max(self.size.width, 0), ellipsis=True
        )


class Footer(Widget):
    """Keys that matter now on the left, memory and threads on the right."""

    keys: reactive[tuple[Key, ...]] = reactive(())
    state: reactive[State | None] = reactive(None)
    engine: reactive[str] = reactive("")
    """What the engine does besides answering, in a word."""
    documents: reactive[str] = reactive("")
    """What is done with documents, while anything is."""

    def __init__(self, overrides: Mapping[str, str]) -> None:
        super().__init__(id="footer")
        self._overrides = overrides

    def render(self) -> Content:
        right = self._memory()
        room = self.size.width - right.cell_length - 2
        parts: list[Content] = []
        for key in self.keys:
            name = shown(key.keys.split(",")[0], self._overrides.get(key.id))
            hint = Content.assemble((name, "$accent"), (f" {key.label}", "$faint"))
            used = sum(part.cell_length + 3 for part in parts)
            if used + hint.cell_length > room:
                break
            parts.append(hint)
        return spread(Content("   ").join(parts), right, self.size.width)

    def _memory(self) -> Content:
        state = self.state
        if self.documents:
            return Content.styled(single_line(self.documents, 60), "$faint")
        if state is None:
            return Content("")
        kept = state.kv_bytes_live + state.kv_bytes_parked
        line = f"KV {words.size(kept)} · {words.plural(state.threads, 'thread')}"
        return Content.styled(line + (f" · {self.engine}" if self.engine else ""), "$faint")


class Completions(Static):
    """What the draft of a slash command may become."""

    def __init__(self) -> None:
        super().__init__(id="completions", markup=False)
        self.shown: tuple[Completion, ...] = ()

    def on_mount(self) -> None:
        self.display = False

    def show(self, completions: Sequence[Completion]) -> None:
        if tuple(completions) == self.shown:
            return
        self.shown = tuple(completions)
        self.display = bool(completions)
        lines = [
            Content.assemble(
                (single_line(one.shown, 80).ljust(18), "$accent"), (one.help, "$faint")
            )
            for one in completions
        ]
        self.update(Content("\n").join(lines))


class UndoBar(Static):
    """Says that something was deleted, and for how long it can be undone."""

    SECONDS = 10

    def __init__(self) -> None:
        super().__init__(id="undo", markup=False)
        self.left = 0

    def on_mount(self) -> None:
        self.display = False

    def show(self, title: str, key: str, left: int) -> None:
        self.left = left
        self.display = left > 0
        name = single_line(title, 40) or "New chat"
        line = f"Deleted “{name}” · {key} brings it back · {left} s"
        self.update(Content.styled(line, "$warning"))
