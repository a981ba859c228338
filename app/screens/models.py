"""The list of models: what each is, what it needs, whether it fits. It chooses; the chat screen
loads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.messages import ModelsFound
from app.sanitize import single_line
from app.screens.page import Page
from app.widgets import words

if TYPE_CHECKING:
    from engine.library import ModelEntry
    from engine.messages import Loaded


class ModelsPage(Page[str]):
    """Answers with the path of the chosen model."""

    def __init__(self, loaded: Loaded | None, folder: str) -> None:
        super().__init__()
        self._loaded, self._folder = loaded, folder
        self.entries: tuple[ModelEntry, ...] = ()

    def compose(self) -> ComposeResult:
        panel = Vertical(classes="panel")
        panel.border_title = "models"
        panel.border_subtitle = "enter loads · esc back"
        with panel:
            yield OptionList(Option(Content.styled("looking …", "$faint"), disabled=True))
            yield Static("")
            yield Static(Content.styled(f"Models folder: {self._folder}", "$faint"), markup=False)

    def on_models_found(self, event: ModelsFound) -> None:
        """What there is; the loaded one is marked."""
        self.entries = event.entries
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(self._options(event.entries))
        places = [i for i, entry in enumerate(event.entries) if self._is_loaded(entry)]
        options.highlighted = places[0] if places else 0
        options.focus()

    def _options(self, entries: tuple[ModelEntry, ...]) -> Iterable[Option]:
        if not entries:
            yield Option(Content.styled("no model was found", "$faint"), disabled=True)
        for entry in entries:
            loaded = self._loaded if self._is_loaded(entry) else None
            yield Option(entry_content(entry, loaded), id=str(self.entries.index(entry)))

    def _is_loaded(self, entry: ModelEntry) -> bool:
        return self._loaded is not None and str(entry.path) == self._loaded.path

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(str(self.entries[int(event.option_id or 0)].path))


def entry_content(entry: ModelEntry, loaded: Loaded | None) -> Content:
    """Name and whether it fits; below, what it is, or what is wrong with it."""
    name = single_line(entry.name, 60)
    mark = "● " if loaded else "  "
    facts = [entry.architecture, entry.quantization, words.size(entry.bytes)]
    if entry.ctx_train:
        facts.append(f"trained on {words.tokens_short(entry.ctx_train)}")
    if entry.converts:
        facts.append("converted on first use")
    line = " · ".join(single_line(part, 40) for part in [*facts, entry.source] if part)
    parts: list[tuple[str, str]] = [
        (mark, "$accent"),
        (name, "bold"),
        ("  ", ""),
        fit_words(entry, loaded),
    ]
    parts.append((f"\n    {line}", "$faint"))
    if entry.error is not None:
        parts.append((f"\n    {single_line(entry.error, 76)}", "$error"))
    return Content.assemble(*parts)


def fit_words(entry: ModelEntry, loaded: Loaded | None) -> tuple[str, str]:
    """Whether it runs here, and its colour. Of the model in use the estimate before its load
    counts: now it would have to fit beside itself.
    """
    if entry.error is not None:
        return "cannot be used", "$error"
    fits, ctx = (entry.fits, entry.ctx_fit) if loaded is None else (loaded.fits, loaded.ctx)
    if fits:
        return f"fits with {words.count(ctx)} tokens", "$success"
    return f"does not fit: needs {words.size(entry.memory_needed)}", "$warning"
