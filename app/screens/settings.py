"""The settings in use, to read and to change. It chooses and asks; the chat screen applies and
keeps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msgspec import Struct
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.sanitize import clean, single_line
from app.screens.page import AskPage, Page
from app.setting_values import SettingValue


@dataclass(frozen=True, slots=True)
class Change:
    """What a person typed for a setting."""

    key: str
    """Dotted: `sampling.top_k`."""
    text: str
    """As in an option; empty takes the setting back to what is chosen for them."""


class SettingsPage(Page[Change]):
    """Answers with the setting that the person changed."""

    def __init__(self, settings: Struct, file: str, hints: Mapping[str, str] | None = None) -> None:
        """`hints`: what a change of a key costs, to be read before it is made."""
        super().__init__()
        self._file, self._hints = file, hints or {}
        self._rows = {key: written(value) for key, value in setting_rows(settings)}

    def compose(self) -> ComposeResult:
        panel = Vertical(classes="panel")
        panel.border_title = "settings"
        panel.border_subtitle = "enter changes · esc back"
        kept = f"Changes are kept in {single_line(self._file)}"
        with panel:
            yield OptionList(*self._options())
            yield Static("")
            yield Static(Content.styled(kept, "$faint"), markup=False)

    def _options(self) -> Iterator[Option]:
        for key, value in self._rows.items():
            shown = single_line(value, 60) or "chosen for you"
            row = Content.assemble((key.ljust(28), "$foreground"), (shown, "$faint"))
            yield Option(row, id=key, disabled=not is_one_line(value))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        key = event.option_id or ""

        def take(text: str | None) -> None:
            if text is not None and text != self._rows[key]:
                self.dismiss(Change(key, text))

        hint = "\n".join(filter(None, ("The new value, kept for later:", self._hints.get(key))))
        self.app.push_screen(AskPage(key, hint, self._rows[key]), take)


def written(value: SettingValue) -> str:
    """A value as a person would type it in an option; empty where it is not set."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return json.dumps(value, ensure_ascii=False) if value else ""
    return "" if value is None else str(value)


def is_one_line(text: str) -> bool:
    """Whether one line of input can hold it; a longer text is changed in the file."""
    return clean(text) == text and not any(letter in text for letter in "\n\t")


def setting_rows(settings: Struct, prefix: str = "") -> Iterator[tuple[str, SettingValue]]:
    """Dotted keys and values of the tree."""
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        if isinstance(value, Struct):
            yield from setting_rows(value, f"{prefix}{name}.")
        elif not isinstance(value, dict):
            yield f"{prefix}{name}", value
