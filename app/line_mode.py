"""`localchat chat` for people: a prompt, the answer as it streams, and a few slash commands.

Ctrl+C stops an answer, on an empty prompt it hints; ctrl+d leaves. A line that ends with a
backslash goes on, and text that is pasted in one piece is sent as one message. It knows lines, and
nothing of how an answer is made.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Mapping

from app.answering import Answering
from app.arguments import nearest
from app.attached import split_paste
from app.console import Console
from app.errors import to_error_info
from app.exit_codes import exit_code
from app.sanitize import single_line
from app.session import Options, Session
from engine.errors import LocalchatError, UsageError

PROMPT = "> "
MORE = "… "
PASTE_WAIT_S = 0.03
"""A terminal delivers the next line of a paste well within this; nobody types so fast."""

HELP = {
    "/help": "show these commands",
    "/new": "start a new chat",
    "/system TEXT": "start a new chat with this system prompt",
    "/regen": "answer the last question again",
    "/continue": "let a cut answer go on",
    "/title TEXT": "name this chat (without TEXT: the model does)",
    "/kb NAME": "answer from a knowledge base (without NAME: no more)",
    "/quit": "leave (also ctrl+d)",
}


class Leave(Exception):
    """The person is done."""


class LineReader:
    """Messages from standard input: lines joined where they belong together."""

    def __init__(self, console: Console) -> None:
        self._interactive = sys.stdin.isatty()
        self._console = console
        if self._interactive and console.out_is_terminal:
            _enable_editing()

    def read(self) -> str:
        """The next message, without its line end. Raises EOFError at the end of input."""
        text = self._line(PROMPT)
        while True:
            if text.endswith("\\"):
                text = text[:-1] + "\n" + self._line(MORE)
            elif self._pasting():
                text += "\n" + self._line("")
            else:
                return text

    def _line(self, prompt: str) -> str:
        if self._interactive and self._console.out_is_terminal:
            return input(prompt)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")

    def _pasting(self) -> bool:
        """Whether more of a paste waits already; piped lines are messages of their own."""
        if not self._interactive:
            return False
        try:
            return bool(select.select([sys.stdin], [], [], PASTE_WAIT_S)[0])
        except (OSError, ValueError):
            return False


def _enable_editing() -> None:
    """Line editing, and pastes in one piece, where the system has readline."""
    try:
        import readline
    except ImportError:
        return
    readline.parse_and_bind("set enable-bracketed-paste on")


class LineMode:
    """One conversation at a time, until the person leaves."""

    def __init__(
        self, session: Session, console: Console, chat_id: int | None, kb: str | None = None
    ) -> None:
        self._session = session
        self._console = console
        self._chat_id = chat_id
        self._kb = kb
        self._reader = LineReader(console)
        self._status = 0
        self._commands: Mapping[str, Callable[[str], None]] = {
            "/help": self._help,
            "/new": self._new,
            "/system": self._system,
            "/regen": self._regenerate,
            "/continue": self._continue,
            "/title": self._title,
            "/kb": self._knowledge,
            "/quit": self._quit,
            "/exit": self._quit,
        }

    def run(self) -> int:
        """Until ctrl+d; the exit status of the last answer where nobody watches, else 0."""
        self._greet()
        while True:
            try:
                self._take(self._reader.read())
            except KeyboardInterrupt:
                if not self._console.out_is_terminal:
                    return exit_code("interrupted")
                self._console.line()
                self._console.note_faint("ctrl+d leaves, /help shows the commands")
            except (EOFError, Leave):
                break
        if self._console.out_is_terminal:
            self._console.line()
            return 0
        return self._status

    def _greet(self) -> None:
        loaded = self._session.loaded
        if loaded is not None and self._console.out_is_terminal:
            self._console.note_faint(
                f"{loaded.name} · {loaded.ctx:,} tokens · /help shows the commands"
            )

    def _take(self, text: str) -> None:
        text = text.strip("\n")
        if not text.strip():
            return
        try:
            if text.startswith("/") and "\n" not in text and not text.startswith("//"):
                self._command(text)
            else:
                self._send(text.removeprefix("/") if text.startswith("//") else text)
        except LocalchatError as error:
            info = to_error_info(error)
            self._console.error(info)
            self._status = exit_code(info.code)

    def _command(self, text: str) -> None:
        name, _, rest = text.partition(" ")
        action = self._commands.get(name)
        if action is None:
            guess = nearest(name, self._commands)
            raise UsageError(
                f"There is no command {single_line(name, 40)}.",
                f"The nearest is {guess}." if guess else "",
                "/help shows them; // starts a message with a slash.",
            )
        action(rest.strip())

    def _send(self, text: str) -> None:
        answering = Answering(self._session, self._console, as_json=False)
        question, attached = split_paste(text)
        options = Options(kb=self._kb, attached=attached, as_written=text)
        self._status = answering.show(self._session.send(self._chat_id, question, options))
        if answering.chat_id is not None:
            self._chat_id = answering.chat_id

    # ---- commands

    def _help(self, _rest: str) -> None:
        for name, summary in HELP.items():
            self._console.note(f"  {name:<14}{summary}")

    def _new(self, _rest: str) -> None:
        self._chat_id = None
        self._console.note_faint("new chat")

    def _system(self, rest: str) -> None:
        if not rest:
            raise UsageError("/system needs a text.")
        self._chat_id = self._session.new_chat(rest).id
        self._console.note_faint("new chat with that system prompt")

    def _regenerate(self, _rest: str) -> None:
        answering = Answering(self._session, self._console, as_json=False)
        options = Options(kb=self._kb)
        self._status = answering.show(self._session.regenerate(self._last(), options))

    def _continue(self, _rest: str) -> None:
        answering = Answering(self._session, self._console, as_json=False)
        self._status = answering.show(self._session.continue_answer(self._last()))

    def _title(self, rest: str) -> None:
        chat_id = self._require_chat()
        if rest:
            self._session.history.rename(chat_id, rest)
        else:
            self._session.title(chat_id)
        self._console.note_faint(self._session.history.chat(chat_id).title)

    def _knowledge(self, rest: str) -> None:
        if rest:
            self._session.base(rest)
        self._kb = rest or None
        self._console.note_faint(f"answers come from {rest}" if rest else "no knowledge base")

    def _quit(self, _rest: str) -> None:
        raise Leave

    def _require_chat(self) -> int:
        if self._chat_id is None:
            raise UsageError("There is nothing yet.", "", "Ask something first.")
        return self._chat_id

    def _last(self) -> int:
        leaf = self._session.history.chat(self._require_chat()).current_leaf
        if leaf is None:
            raise UsageError("There is nothing yet.", "", "Ask something first.")
        return leaf
