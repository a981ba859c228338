"""Completion scripts, made from the parsers, so that they never name what does not exist.

Names of models, chats and knowledge bases are asked for while completing, through the program
itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from app.cli import COMMANDS, command_parser, root_parser

ACTIONS: Mapping[str, tuple[str, ...]] = {
    "models": ("list", "info", "check", "convert"),
    "chats": ("list", "show", "search", "export", "import", "delete"),
    "kb": ("list", "create", "add", "sync", "query", "status", "export", "remove"),
    "cache": ("status", "clear"),
    "locate": ("config", "data", "state", "cache", "logs", "models", "knowledge"),
    "completion": ("bash", "zsh", "fish"),
}
"""First words after a command."""


def options_of(parser: argparse.ArgumentParser) -> list[str]:
    """All visible option words, long ones first."""
    words = [
        word
        for action in parser._actions
        if action.help != argparse.SUPPRESS
        for word in action.option_strings
    ]
    return sorted(words, key=lambda word: (not word.startswith("--"), word))


def words_by_command() -> dict[str, list[str]]:
    return {name: [*ACTIONS.get(name, ()), *options_of(command_parser(name))] for name in COMMANDS}


def bash() -> str:
    """Where it offers nothing the shell completes paths, which it knows how to quote."""
    cases = "\n".join(
        f'    {name}) words="{" ".join(words)}" ;;' for name, words in words_by_command().items()
    )
    first = " ".join([*COMMANDS, *options_of(root_parser())])
    return f"""\
_localchat_names() {{
  local name
  while IFS= read -r name; do
    case "$name" in "$2"*) COMPREPLY+=("$(printf %q "$name")") ;; esac
  done < <(localchat completion --names "$1" 2>/dev/null)
}}
_localchat() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" words
  COMPREPLY=()
  case "$previous" in
    -m|--model) words="$(localchat completion --names models 2>/dev/null)" ;;
    --chat) words="$(localchat completion --names chats 2>/dev/null)" ;;
    --kb) _localchat_names knowledge "$current"; return ;;
    -f|--file) return ;;
    --color) words="auto always never" ;;
  esac
  if [ -z "$words" ] && [ "$COMP_CWORD" -gt 2 ] && [ "${{current#-}}" = "$current" ]; then
    # An action stands right behind its command, here come what it acts on and paths.
    if [ "${{COMP_WORDS[1]}}" = kb ] && [ "$COMP_CWORD" -eq 3 ]; then
      _localchat_names knowledge "$current"
    fi
    return
  fi
  if [ -z "$words" ]; then
    case "${{COMP_WORDS[1]}}" in
{cases}
    *) words="{first}" ;;
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then words="{first}"; fi
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _localchat localchat
"""


def zsh() -> str:
    """The bash script through zsh's own bridge: one thing to keep right."""
    return (
        "#compdef localchat\nautoload -U +X compinit && compinit\n"
        "autoload -U +X bashcompinit && bashcompinit\n" + bash()
    )


def fish() -> str:
    lines = ["complete -c localchat -f"]
    for name, summary in COMMANDS.items():
        lines.append(
            f"complete -c localchat -n __fish_use_subcommand -a {name} -d {quoted(summary)}"
        )
    for name, words in words_by_command().items():
        lines += [_fish_word(name, word) for word in words]
    for word, kind in (
        ("-s m -l model", "models"),
        ("-l chat", "chats"),
        ("-l kb", "knowledge"),
    ):
        names_command = quoted(f"(localchat completion --names {kind} 2>/dev/null)")
        lines.append(f"complete -c localchat {word} -x -a {names_command}")
    bases = quoted("(localchat completion --names knowledge 2>/dev/null)")
    lines.append(f"complete -c localchat -n '__fish_seen_subcommand_from kb' -a {bases}")
    lines.append("complete -c localchat -n '__fish_seen_subcommand_from kb' -F")
    lines.append("complete -c localchat -s f -l file -r -F")
    return "\n".join(lines) + "\n"


def _fish_word(command: str, word: str) -> str:
    seen = quoted(f"__fish_seen_subcommand_from {command}")
    if word.startswith("--"):
        return f"complete -c localchat -n {seen} -l {word[2:]}"
    if word.startswith("-"):
        return f"complete -c localchat -n {seen} -s {word[1:]}"
    return f"complete -c localchat -n {seen} -a {word}"


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def names(kind: str) -> list[str]:
    """Names of models or knowledge bases, or numbers of chats; empty where they cannot be read, as
    nobody watches.
    """
    from app.paths import Paths
    from engine.errors import LocalchatError

    paths = Paths.default()
    try:
        if kind == "models":
            from engine.library import default_folders, find_models

            return [entry.name for entry in find_models(default_folders(paths.models))]
        if kind == "knowledge":
            from app.startup import knowledge_bases

            return knowledge_bases(paths).names()
        if not paths.database.exists():
            return []
        from app.store.history import History

        history = History.open(paths.database, paths.locks)
        try:
            return [str(chat.id) for chat in history.chats()]
        finally:
            history.close()
    except (LocalchatError, OSError):
        return []


SHELLS: Mapping[str, Callable[[], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
