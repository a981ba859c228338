"""The settings in use, to read and to change for this run; for longer there is the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.screens.page import AskPage, Page


class SettingsPage(Page[str]):
    """Answers with `key=value` for a setting that the person changed."""

    def __init__(self, settings: Any, file: str, changeable: frozenset[str]) -> None:
        super().__init__()
        self._file = file
        self._rows = [row for row in setting_rows(settings) if not row[0].startswith("keys.")]
        self._changeable = changeable

    def compose(self) -> ComposeResult:
        panel = Vertical(classes="panel")
        panel.border_title = "settings"
        panel.border_subtitle = "enter changes for this run · esc back"
        with panel:
            yield OptionList(*self._options())
            yield Static("")
            yield Static(Content.styled(f"To keep a change: {self._file}", "$faint"), markup=False)

    def _options(self) -> Iterator[Option]:
        for key, value in self._rows:
            shown = "chosen for you" if value in (None, "", ()) else str(value)
            row = Content.assemble((key.ljust(28), "$foreground"), (shown, "$faint"))
            yield Option(row, id=key, disabled=short(key) not in self._changeable)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        key = event.option_id or ""
        value = dict(self._rows)[key]
        shown = "" if value is None or value == () else str(value)

        def take(text: str | None) -> None:
            if text is not None:
                self.dismiss(f"{short(key)}={text}")

        self.app.push_screen(AskPage(short(key), "The new value, for this run:", shown), take)


def short(key: str) -> str:
    """`sampling.top_k` -> `top_k`, as options are written."""
    return key.rsplit(".", 1)[-1]


def setting_rows(settings: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of the tree."""
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        if hasattr(value, "__struct_fields__"):
            yield from setting_rows(value, f"{prefix}{name}.")
        elif not isinstance(value, dict):
            yield f"{prefix}{name}", value
