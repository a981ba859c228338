"""The one table of slash commands, and how a line is read as one.

It does not know what a command does; the chat screen has a `command_…` method of that name.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slash:
    name: str
    argument: str
    """How the argument is shown: `[NAME]` may be left out, `NAME` may not, empty: none."""
    help: str


SLASHES: tuple[Slash, ...] = (
    Slash("model", "[NAME]", "Choose the model, from the list or by name"),
    Slash("system", "[TEXT]", "A new chat with this system prompt; without text: show it"),
    Slash("set", "[KEY=VALUE]", "Set temperature, seed, max_tokens, … for this run"),
    Slash("attach", "FILE", "Put a whole text file into the message"),
    Slash("kb", "[NAME]", "Answer from a knowledge base; without name: choose, make, see them"),
    Slash("copy", "[code]", "Copy the last answer, or its last code block"),
    Slash("export", "[FILE]", "Write this chat to a Markdown or JSON file"),
    Slash("title", "[TEXT]", "Name this chat; without text the model proposes one"),
    Slash("tree", "", "All branches of this chat"),
    Slash("private", "", "A new chat that leaves nothing on disk"),
    Slash("stats", "", "Tokens, speed and reuse of this chat"),
    Slash("memory", "", "What is held in memory now"),
    Slash("theme", "[NAME]", "Change the colours"),
    Slash("help", "", "All keys and commands"),
)
BY_NAME = {slash.name: slash for slash in SLASHES}


MOST = 10
"""Arguments offered at once; typing finds the others."""


@dataclass(frozen=True, slots=True)
class Line:
    """A typed line that is a command."""

    name: str
    argument: str


def parse(text: str) -> Line | None:
    """The command in a one-line draft, or None for an ordinary message.

    A path such as `/etc/hosts` and everything of several lines is a message; `//x` sends `/x`.
    """
    if not text.startswith("/") or "\n" in text.strip() or text.startswith("//"):
        return None
    name, _, argument = text[1:].strip().partition(" ")
    if not name or "/" in name:
        return None
    return Line(name.lower(), argument.strip())


def unescape(text: str) -> str:
    """`//word` is how a message begins with a slash."""
    return text[1:] if text.startswith("//") else text


@dataclass(frozen=True, slots=True)
class Completion:
    """What a draft may become."""

    draft: str
    shown: str
    help: str = ""


def completions(
    text: str, arguments: Mapping[str, Sequence[str]] | None = None
) -> list[Completion]:
    """Commands that a draft may become; behind a command the arguments that are known of it, by its
    name.
    """
    if not text.startswith("/") or text.startswith("//") or "\n" in text:
        return []
    name, blank, argument = text[1:].partition(" ")
    if not blank:
        return [
            Completion(f"/{slash.name} ", f"/{slash.name} {slash.argument}", slash.help)
            for slash in SLASHES
            if slash.name.startswith(name.lower())
        ]
    known = (arguments or {}).get(name.lower(), ())
    begun = argument.lstrip().casefold()
    return [
        Completion(f"/{name} {each}", each) for each in known if each.casefold().startswith(begun)
    ][:MOST]


def nearest(name: str) -> str | None:
    near = difflib.get_close_matches(name, BY_NAME, n=1, cutoff=0.4)
    return near[0] if near else None


def describe_unknown(name: str) -> str:
    near = nearest(name)
    hint = f"Did you mean /{near}?" if near else "/help shows all commands."
    return f"There is no command /{name}. {hint}"
