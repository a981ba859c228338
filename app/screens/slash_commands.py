"""What the slash commands do. Their names and help are in `app/slash.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from app import messages as m
from app.attached import attached_file
from app.screens.details import chat_lines, tree_lines
from app.screens.page import Line
from app.screens.reader import export_text, read_chat
from app.screens.turn_acts import code_blocks
from app.slash import BY_NAME, describe_unknown
from app.slash import Line as Typed
from app.store.draft import KeptDraft
from app.widgets import words
from engine.errors import LocalchatError

if TYPE_CHECKING:
    from app.screens.chat import ChatScreen
    from app.session import Session


class SlashCommands:
    """Runs a typed command on the chat screen."""

    def __init__(self, screen: ChatScreen) -> None:
        self.screen = screen

    def run(self, line: Typed) -> None:
        if line.name not in BY_NAME:
            self.screen.post_message(m.Told(describe_unknown(line.name), is_problem=True))
            self.screen.answering.restore(f"/{line.name} {line.argument}".strip())
            return
        getattr(self, f"command_{line.name}")(line.argument)

    @property
    def _session(self) -> Session | None:
        if self.screen.session is None:
            self.screen.tell("The chats are still being opened.")
        return self.screen.session

    def command_help(self, argument: str) -> None:
        self.screen.overlays.help()

    def command_model(self, argument: str) -> None:
        if argument:
            self.screen.loader.begin(
                str(Path(argument).expanduser()) if "/" in argument else argument
            )
        else:
            self.screen.loader.choose()

    def command_system(self, argument: str) -> None:
        """A changed system prompt is a chat of its own: nothing that was answered changes."""
        screen = self.screen
        session = self._session
        if session is None:
            return
        if not argument:
            system = screen.chat.system if screen.chat else session.settings.chat.system
            lines: list[Line] = [("system prompt", system or "none")]
            screen.overlays.show_lines("system prompt", lines)
            return
        screen.chats.save_draft(KeptDraft())
        screen.work.in_store(
            lambda: m.ChatOpened(read_chat(session, session.new_chat(argument).id))
        )

    def command_set(self, argument: str) -> None:
        if argument:
            self.screen.changes.set_option(argument)
        else:
            self.screen.changes.show()

    def command_attach(self, argument: str) -> None:
        screen = self.screen
        if not argument:
            screen.tell("Name a file: /attach notes.txt")
            return
        path = Path(argument).expanduser()
        screen.work.in_thread(lambda: read_attachment(path), "attach")

    def command_kb(self, argument: str) -> None:
        if argument:
            self.screen.knowledge.choose(argument)
        else:
            self.screen.bases.show()

    def command_copy(self, argument: str) -> None:
        turn = self.screen.transcript.last_answer
        text = turn.text if turn is not None else ""
        if argument == "code":
            blocks = code_blocks(text)
            text = blocks[-1] if blocks else ""
        self.screen.acts.copy(text)

    def command_export(self, argument: str) -> None:
        session, chat = self._session, self.screen.chat
        if session is None or chat is None:
            self.screen.tell("This chat is empty; there is nothing to export.")
            return
        name = argument or f"{file_name(chat.title)}.md"
        path = Path(name).expanduser().absolute()

        def export() -> m.Told:
            text = export_text(session, chat.id, path.suffix == ".json")
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
            return m.Told(f"Written to {path}")

        self.screen.work.in_store(export)

    def command_title(self, argument: str) -> None:
        session, chat = self._session, self.screen.chat
        if session is None or chat is None:
            self.screen.tell("This chat has no message yet.")
            return
        if argument:
            self.screen.titles.rename(session, chat.id, argument)
        else:
            self.screen.titles.propose(session, chat.id)

    def command_tree(self, argument: str) -> None:
        session, chat = self._session, self.screen.chat
        if session is None or chat is None:
            self.screen.tell("This chat is empty.")
            return

        def read() -> m.Shown:
            messages = session.history.messages(chat.id)
            leaf = session.history.chat(chat.id).current_leaf
            return m.Shown("branches", tuple(tree_lines(messages, leaf)))

        self.screen.work.in_store(read)

    def command_private(self, argument: str) -> None:
        self.screen.chats.enter_private()

    def command_stats(self, argument: str) -> None:
        session, chat = self._session, self.screen.chat
        if session is None or chat is None:
            self.screen.tell("This chat is empty.")
            return
        self.screen.work.in_store(
            lambda: m.Shown("this chat", tuple(chat_lines(session.history.path(chat.id))))
        )

    def command_memory(self, argument: str) -> None:
        session = self._session
        loaded = self.screen.loaded
        if session is None:
            return
        state = session.client.state
        lines: list[Line] = []
        if loaded is not None:
            lines.append(("weights", words.size(loaded.weights_bytes)))
            lines.append(("KV of one token", words.size(loaded.kv_bytes_per_token)))
        if state is not None:
            lines += [
                ("KV live", words.size(state.kv_bytes_live)),
                ("KV parked", words.size(state.kv_bytes_parked)),
                ("engine, resident", words.size(state.resident_bytes)),
                ("threads", str(state.threads)),
            ]
        self.screen.overlays.show_lines("memory", lines or [("engine", "not started")])

    def command_theme(self, argument: str) -> None:
        from app.themes import NAMES, theme_name

        app = self.screen.app
        if argument:
            app.theme = theme_name(argument, frozenset(app.available_themes))
        else:
            self.screen.tell("Themes: " + ", ".join(NAMES))


def read_attachment(path: Path) -> m.Attached | m.Told:
    """The whole text of a file, in a thread."""
    try:
        one = attached_file(path)
    except LocalchatError as error:
        said = (error.title, error.text, error.next_step)
        return m.Told(" ".join(part for part in said if part), is_problem=True)
    return m.Attached(one.name, one.text, one.notice)


def file_name(title: str) -> str:
    """A title as a file's name."""
    kept = "".join(letter if letter.isalnum() or letter in " -_" else " " for letter in title)
    return "-".join(kept.split())[:60] or "chat"
