"""The list of knowledge bases: what each holds, how far it is, which one is in use.

It draws rows and asks; `BaseActs` does what is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.css.query import DOMQuery
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.keys import bindings, first_shown, of_group
from app.knowledge.states import Status, SyncProgress
from app.sanitize import single_line
from app.screens.page import Page
from app.widgets import words

if TYPE_CHECKING:
    from app.screens.knowledge.base_acts import BaseActs
    from app.screens.knowledge.knowledge import Knowledge

LOOK_S = 2.0
NONE = "no documents"
STEPS = {"reading": "reading", "embedding": "learning meaning", "graph": "linking passages"}


@dataclass(frozen=True, slots=True)
class BaseRow:
    """One base, or why it cannot be opened."""

    name: str
    status: Status | None = None
    problem: str = ""
    is_damaged: bool = False
    """Its index can be made again."""


class BasesPage(Page[str]):
    """Answers with the chosen base; empty: none."""

    BINDINGS = bindings("bases")

    def __init__(self, acts: BaseActs, knowledge: Knowledge, overrides: Mapping[str, str]) -> None:
        super().__init__()
        self._acts, self._knowledge, self._overrides = acts, knowledge, overrides
        self.rows: tuple[BaseRow, ...] = ()
        self.wanted = knowledge.name or ""
        """The base to highlight when it is listed."""

    def compose(self) -> ComposeResult:
        panel = Vertical(classes="panel")
        panel.border_title = "documents"
        panel.border_subtitle = "enter uses · esc back"
        with panel:
            yield OptionList(Option(Content.styled("looking …", "$faint"), disabled=True))
            yield Static(classes="keys", markup=False)

    def on_mount(self) -> None:
        self.set_interval(LOOK_S, self._look_again)

    def _look_again(self) -> None:
        """What another process does is told by nobody."""
        others = (row for row in self.rows if row.name not in self._knowledge.progress)
        if any(row.status is not None and row.status.is_syncing for row in others):
            self._acts.reload()

    def on_resize(self) -> None:
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        """What depends on the room there is."""
        for keys in self.query(".keys").results(Static):
            keys.update(in_lines(self._keys(), keys.content_size.width))
        for options in self._lists():
            options.scroll_to_highlight()

    def _keys(self) -> list[Content]:
        return [
            Content.assemble(
                (first_shown(key.id, self._overrides), "$accent"), (f" {key.label}", "$faint")
            )
            for key in of_group("bases")
        ]

    # ---- what is shown

    def show(self, rows: tuple[BaseRow, ...]) -> None:
        """Draws the list again; the highlighted base stays so."""
        chosen = self.wanted or self._highlighted()
        if any(row.name == self.wanted for row in rows):
            self.wanted = ""
        self.rows = rows
        names = ["", *(row.name for row in rows)]
        for options in self._lists():
            options.clear_options()
            options.add_options(self._options())
            options.highlighted = names.index(chosen) if chosen in names else 0
            options.focus()

    def advanced(self, name: str) -> None:
        """How far one base is."""
        row = next((row for row in self.rows if row.name == name), None)
        for options in self._lists():
            if row is not None:
                options.replace_option_prompt(f"base-{name}", self._row(row))

    def _lists(self) -> DOMQuery[OptionList]:
        """The one list; none before the page is drawn and when it goes."""
        return self.query(OptionList)

    def _options(self) -> Iterator[Option]:
        mark = "  " if self._knowledge.name else "● "
        yield Option(Content.assemble((mark, "$accent"), (NONE, "bold")), id="base-")
        for row in self.rows:
            yield Option(self._row(row), id=f"base-{row.name}")
        if not self.rows:
            key = first_shown("bases.new", self._overrides)
            said = f"There is no knowledge base yet. {key} makes one from a folder."
            yield Option(Content.styled(said, "$faint"), disabled=True)

    def _row(self, row: BaseRow) -> Content:
        mark = "● " if row.name == self._knowledge.name else "  "
        parts: list[tuple[str, str]] = [(mark, "$accent"), (single_line(row.name, 60), "bold")]
        if row.status is None:
            parts.append((f"\n    {single_line(row.problem, 300)}", "$error"))
            if row.is_damaged:
                key = first_shown("bases.sync", self._overrides)
                parts.append((f"\n    {key} makes it again from the documents", "$faint"))
            return Content.assemble(*parts)
        status = row.status
        held = f"{words.plural(status.indexed_files, 'file')} · "
        parts.append((f"  {held}{words.plural(status.chunks, 'passage')}", ""))
        parts.append((f"\n    {roots_words(status.roots)}", "$faint"))
        state = state_words(status, self._knowledge.progress.get(row.name))
        parts.append((f"\n    {state}", "$faint"))
        return Content.assemble(*parts)

    # ---- what is asked

    def _highlighted(self) -> str:
        found = (each.highlighted_option for each in self._lists())
        option = next(found, None)
        return (option.id or "base-").removeprefix("base-") if option is not None else ""

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss((event.option_id or "base-").removeprefix("base-"))

    def action_new_base(self) -> None:
        self._acts.ask_new()

    def action_add_folder(self) -> None:
        if name := self._highlighted():
            self._acts.ask_folder(name)

    def action_drop_folder(self) -> None:
        row = next((row for row in self.rows if row.name == self._highlighted()), None)
        if row is not None:
            self._acts.ask_drop(row)

    def action_sync_base(self) -> None:
        if name := self._highlighted():
            self._acts.sync(name)

    def action_list_files(self) -> None:
        if name := self._highlighted():
            self._acts.show_files(name)

    def action_export_base(self) -> None:
        if name := self._highlighted():
            self._acts.ask_export(name)

    def action_remove_base(self) -> None:
        if name := self._highlighted():
            self._acts.ask_remove(name)


def in_lines(parts: Sequence[Content], width: int, gap: str = "   ") -> Content:
    """Side by side, none broken at the end of a line."""
    lines: list[list[Content]] = [[]]
    used = 0
    for part in parts:
        if lines[-1] and used + len(gap) + part.cell_length > width:
            lines.append([])
            used = 0
        used += (len(gap) if lines[-1] else 0) + part.cell_length
        lines[-1].append(part)
    return Content("\n").join(Content(gap).join(line) for line in lines)


def roots_words(roots: tuple[Path, ...]) -> str:
    """`~/Documents/work and 2 more`"""
    if not roots:
        return "no folder"
    first = single_line(at_home(roots[0]), 120)
    return f"{first} and {len(roots) - 1} more" if len(roots) > 1 else first


def at_home(path: Path) -> str:
    home = Path.home()
    return (
        f"~/{path.relative_to(home)}" if path.is_relative_to(home) and path != home else f"{path}"
    )


def state_words(status: Status, progress: SyncProgress | None) -> str:
    """What is going on, else what is missing, else since when it is in step."""
    if progress is not None:
        return progress_words(progress)
    if status.is_syncing:
        return "another process reads it now"
    if status.missing_roots:
        return f"cannot be read now: {roots_words(status.missing_roots)}; what was read stays"
    parts = []
    if missing := status.files - status.indexed_files:
        parts.append(f"{words.plural(missing, 'file')} not indexed")
    if status.embedder and (rest := status.chunks - status.embedded_chunks) > 0:
        parts.append(f"{words.count(rest)} without meaning yet")
    if status.synced is None:
        parts.append("not read to the end yet")
    else:
        parts.append(f"in step at {words.moment(status.synced)}")
    return " · ".join(parts)


def progress_words(progress: SyncProgress) -> str:
    """`reading 41 % · 412 of 1,000`"""
    if not progress.total:
        return f"{STEPS[progress.phase]} …"
    share = 100 * progress.done // max(progress.total, 1)
    done, total = words.count(progress.done), words.count(progress.total)
    return f"{STEPS[progress.phase]} {share} % · {done} of {total}"
