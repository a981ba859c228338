"""The one table of keys: action id -> key, label, help.

Bindings, footer, help page and palette are all made from it, so a key changed in the settings
changes everywhere. It does not know what an action does; the screens have an `action_…` method of
that name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding, BindingType

Group = Literal["anywhere", "chat", "prompt", "turn", "bases"]


@dataclass(frozen=True, slots=True)
class Key:
    """One action that a key reaches."""

    id: str
    """Name in the settings: `[keys]` `chat.new = "ctrl+n"`."""
    keys: str
    """Textual's key names, alternatives separated by commas."""
    action: str
    """Textual action, run on the screen or widget of the group."""
    label: str
    """One or two words for the footer."""
    help: str
    """One line for the help page and the palette."""
    group: Group
    footer: bool = False
    priority: bool = True
    """Whether it goes before what the focused widget does with the key."""
    palette: bool = True


KEYS: tuple[Key, ...] = (
    Key("app.help", "f1", "help", "help", "All keys and commands", "anywhere", footer=True),
    Key("app.palette", "ctrl+p", "command_palette", "commands", "Find any command by name",
        "anywhere", footer=True, palette=False),
    Key("app.quit", "ctrl+q", "quit_app", "quit", "Save everything and leave", "anywhere"),
    Key("chat.stop", "escape", "stop_or_back", "stop",
        "Stop the answer or the load; otherwise one step back", "chat",
        footer=True, priority=False, palette=False),
    Key("chat.new", "ctrl+n", "new_chat", "new", "Start a new chat", "chat", footer=True),
    Key("chat.models", "ctrl+k", "models", "models", "Choose the model", "chat", footer=True),
    Key("chat.search", "ctrl+f", "search", "search", "Search in all chats", "chat", footer=True),
    Key("chat.list", "ctrl+b", "toggle_sidebar", "chats", "Show or hide the chat list", "chat"),
    Key("chat.details", "f2", "details", "details",
        "What is known about this answer: model, seed, reuse, times", "chat"),
    Key("chat.sources", "f3", "sources", "sources",
        "What this answer rests on: passages that it cites, and others that were read", "chat"),
    Key("chat.knowledge", "ctrl+l", "knowledge", "documents",
        "Knowledge bases: answer from folders of documents", "chat"),
    Key("chat.regenerate", "ctrl+r", "regenerate", "again",
        "Answer the last question again, as a new branch", "chat"),
    Key("chat.continue", "ctrl+e", "continue_answer", "go on",
        "Go on with an answer that was stopped or cut", "chat"),
    Key("chat.editor", "ctrl+g", "external_editor", "editor", "Write the message in $EDITOR",
        "chat"),
    Key("chat.settings", "ctrl+o", "settings", "settings", "See and change the settings", "chat"),
    Key("chat.delete", "ctrl+d", "delete_chat", "delete", "Delete this chat; it can be undone",
        "chat"),
    Key("chat.undo", "ctrl+z", "undo_delete", "undo", "Bring the deleted chat back", "chat",
        palette=False),
    Key("turn.previous", "alt+up", "turn_previous", "turn up", "Select the turn above", "chat",
        palette=False),
    Key("turn.next", "alt+down", "turn_next", "turn down", "Select the turn below", "chat",
        palette=False),
    Key("prompt.send", "enter", "send", "send", "Send the message", "prompt", palette=False),
    Key("prompt.newline", "ctrl+j,shift+enter,alt+enter", "newline", "new line", "Break the line",
        "prompt", palette=False),
    Key("prompt.expand", "alt+x", "expand", "expand", "Show a folded paste as text", "prompt",
        palette=False),
    Key("turn.edit", "e", "turn('edit')", "edit", "Edit the question, as a new branch", "turn",
        footer=True, priority=False, palette=False),
    Key("turn.retry", "r", "turn('retry')", "retry", "Answer again, as a new branch", "turn",
        footer=True, priority=False, palette=False),
    Key("turn.copy", "c,y", "turn('copy')", "copy", "Copy the whole text", "turn",
        footer=True, priority=False, palette=False),
    Key("turn.copy_code", "u", "turn('copy_code')", "code", "Copy a code block; again for the next",
        "turn", footer=True, priority=False, palette=False),
    Key("turn.left", "left", "turn('left')", "◂", "Branch to the left", "turn",
        priority=False, palette=False),
    Key("turn.right", "right", "turn('right')", "▸", "Branch to the right", "turn",
        priority=False, palette=False),
    Key("turn.delete", "d", "turn('delete')", "delete",
        "Delete this turn and what follows it, after a question", "turn",
        footer=True, priority=False, palette=False),
    Key("turn.sources", "o", "turn('sources')", "sources", "The sources of this answer", "turn",
        footer=True, priority=False, palette=False),
    Key("turn.fold", "space", "turn('fold')", "fold", "Open or close the thinking", "turn",
        footer=True, priority=False, palette=False),
    Key("bases.new", "n", "new_base", "new", "A new knowledge base from a folder", "bases",
        footer=True, palette=False),
    Key("bases.add", "a", "add_folder", "add", "One folder or file more", "bases",
        footer=True, palette=False),
    Key("bases.drop", "t", "drop_folder", "take out",
        "Take a folder out of it; the documents stay", "bases", footer=True, palette=False),
    Key("bases.sync", "s", "sync_base", "sync", "Read what has changed; again: stop", "bases",
        footer=True, palette=False),
    Key("bases.files", "f", "list_files", "files", "Its files, with what became of each", "bases",
        footer=True, palette=False),
    Key("bases.export", "x", "export_base", "export", "Write all its passages to a file", "bases",
        footer=True, palette=False),
    Key("bases.remove", "delete", "remove_base", "forget", "Forget it; the documents stay", "bases",
        footer=True, palette=False),
)  # fmt: skip

BY_ID: Mapping[str, Key] = {key.id: key for key in KEYS}

SHOWN = {
    "escape": "esc", "circumflex_accent": "^", "question_mark": "?", "slash": "/",
    "left": "←", "right": "→", "up": "↑", "down": "↓", "pageup": "pgup", "pagedown": "pgdn",
    "delete": "del",
}  # fmt: skip


def bindings(*groups: Group) -> list[BindingType]:
    """Textual bindings of these groups; their ids are what the settings' `[keys]` override."""
    return [
        Binding(key.keys, key.action, key.label, show=key.footer, priority=key.priority, id=key.id)
        for key in KEYS
        if key.group in groups
    ]


def of_group(group: Group) -> list[Key]:
    return [key for key in KEYS if key.group == group]


def shown(keys: str, chosen: str | None = None) -> str:
    """`ctrl+j / shift+enter` for people; `chosen` is the person's own key, if any."""
    names = (chosen or keys).split(",")
    return " / ".join(shown_one(name.strip()) for name in names if name.strip())


def shown_one(name: str) -> str:
    *modifiers, last = name.split("+")
    return "+".join([*modifiers, SHOWN.get(last, last)])


def first_shown(action_id: str, overrides: Mapping[str, str]) -> str:
    """The first key of an action, for a hint such as `ctrl+e goes on`."""
    keys = overrides.get(action_id) or BY_ID[action_id].keys
    return shown(keys.split(",")[0])


def key_names(action_id: str, overrides: Mapping[str, str]) -> list[str]:
    """Textual's names of an action's keys."""
    keys = overrides.get(action_id) or BY_ID[action_id].keys
    return [name.strip() for name in keys.split(",") if name.strip()]


def unknown_ids(ids: Iterable[str]) -> list[str]:
    """Words about action ids that do not exist, with the nearest that does."""
    return [describe_unknown(name) for name in ids if name not in BY_ID]


def describe_unknown(name: str) -> str:
    near = difflib.get_close_matches(name, BY_ID, n=1)
    return f"keys.{name} is no action" + (f"; did you mean {near[0]}?" if near else "")
