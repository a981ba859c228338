"""The files of one knowledge base, with what became of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from app.knowledge.states import INDEXED, FileState
from app.messages import FilesListed
from app.sanitize import clean, single_line
from app.screens.page import Page
from app.widgets import words

MOST = 200
"""Files listed at once; typing finds the others."""
LONG_NAME = 32
"""Columns."""


class FilesPage(Page[None]):
    """Those that could not be indexed come first. Typing looks for names."""

    BINDINGS = [
        Binding("down", "move(1)", show=False),
        Binding("up", "move(-1)", show=False),
    ]

    def __init__(self, name: str, open_file: Callable[[FileState], None]) -> None:
        super().__init__()
        self._base, self._open = single_line(name, 60), open_file
        self.files: tuple[FileState, ...] = ()
        self._problem = ""
        self._shown: tuple[FileState, ...] = ()

    def compose(self) -> ComposeResult:
        panel = Vertical(classes="panel")
        panel.border_title = Content(f"files of {self._base}")
        panel.border_subtitle = "enter opens · esc back"
        with panel:
            yield Input(placeholder="part of a name", compact=True, classes="filter")
            yield OptionList(
                Option(Content.styled("reading …", "$faint"), disabled=True), classes="one-line"
            )
            yield Static(classes="rest", markup=False)

    def on_files_listed(self, event: FilesListed) -> None:
        self.files = tuple(sorted(event.files, key=lambda file: file.state == INDEXED))
        self._problem = clean(event.problem)
        self._show("")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._show(event.value)

    def _show(self, part: str) -> None:
        found = [file for file in self.files if part.casefold() in file.name.casefold()]
        self._shown = tuple(found[:MOST])
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(self._options())
        options.action_first()
        rest = len(found) - len(self._shown)
        more = f"{words.plural(rest, 'file')} more; type a part of the name" if rest else ""
        told = (self._problem, "$error") if self._problem else (more, "$faint")
        self.query_one(".rest", Static).update(Content.assemble(told))

    def _options(self) -> Iterator[Option]:
        for number, file in enumerate(self._shown):
            yield Option(file_words(file), id=str(number))
        if not self._shown:
            said = "they cannot be read" if self._problem else "no such file"
            yield Option(Content.styled(said, "$faint"), disabled=True)

    def action_move(self, step: int) -> None:
        options = self.query_one(OptionList)
        if step > 0:
            options.action_cursor_down()
        else:
            options.action_cursor_up()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.query_one(OptionList).action_select()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._open(self._shown[int(event.option_id or 0)])


def file_words(file: FileState) -> Content:
    """Name and state, below it where the name is long; then notices."""
    is_indexed = file.state == INDEXED
    fact = words.plural(file.chunks, "passage") if is_indexed else file.state
    name = single_line(file.name, 200)
    # Behind a long name it would be cut off.
    gap = "  " if Content(name).cell_length <= LONG_NAME else "\n    "
    parts: list[tuple[str, str]] = [
        (name, "" if is_indexed else "bold"),
        (f"{gap}{single_line(fact, 100)}", "$faint" if is_indexed else "$warning"),
    ]
    parts += [(f"\n    {single_line(notice, 100)}", "$faint") for notice in file.notices[:3]]
    return Content.assemble(*parts)
