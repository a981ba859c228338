"""Changes one line of `config.toml` and leaves everything else as the person wrote it.

It understands plain `key = value` lines, in tables or with dotted keys; where a file is written in
another way it refuses rather than guess. It does not know which settings there are;
`app/settings.py` checks the value.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from app.errors import file_error
from app.paths import write_atomically
from app.sanitize import single_line
from app.setting_values import SettingValue
from app.settings import checked, file_values, flat
from engine.errors import UsageError

TABLE = re.compile(r"\s*\[([^\[\]]+)\]\s*(#.*)?$")
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def save_setting(path: Path, key: str, value: object) -> None:
    """Sets the dotted `key` in the file, made where there is none; None takes it out.

    UsageError where the value is not allowed or the file cannot be changed safely, StorageError
    where it cannot be written; the file is then as it was.
    """
    new = None if value is None else writable(key, checked(key, value))
    before = file_values(path)
    lines = lines_of(path)
    section, name = split(key)
    changed = "\n".join(edited(lines, section, name, new)).rstrip("\n") + "\n"
    wanted = {one: old for one, old in before.items() if one != key}
    if new is not None:
        wanted[key] = new
    if not says(changed, wanted):
        raise UsageError(
            f"`{key}` could not be changed in the settings file",
            f"{single_line(str(path))} is written in a way that localchat does not edit.",
            f"Change it by hand: {name} = {literal(new)}.",
        )
    write_atomically(path.resolve(), changed.encode())


def writable(key: str, value: SettingValue) -> SettingValue:
    """The value, unless UTF-8 cannot hold it."""
    try:
        literal(value).encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"`{key}` cannot be {single_line(repr(value), 60)}",
            "The settings file holds UTF-8 only.",
            "Choose a value without undecodable characters.",
        ) from error
    return value


def split(key: str) -> tuple[str, str]:
    """Section and name; names of `keys` hold dots themselves."""
    section, dot, name = key.partition(".")
    return (section, name) if dot else ("", section)


def lines_of(path: Path) -> list[str]:
    """The file's lines, cut at newlines only: other line ends are part of texts."""
    try:
        text = path.read_text(encoding="utf-8-sig").rstrip("\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise file_error(error, path) from error
    return text.split("\n") if text else []


def edited(lines: list[str], section: str, name: str, value: SettingValue) -> list[str]:
    """The lines with the setting replaced, added or, for None, taken out."""
    start, end = table(lines, section)
    line = [] if value is None else [f"{quoted_name(name)} = {literal(value)}"]
    for index in range(start, end):
        if key_of(lines[index]) == name:
            after = value_end(lines, index, end)
            kept = comment(lines[index]) if after == index + 1 else ""
            return [*lines[:index], *(one + kept for one in line), *lines[after:]]
    dotted = f"{section}.{quoted_name(name)}"
    for index in range(*table(lines, "")):
        if section and key_of(lines[index]) == f"{section}.{name}":
            after = value_end(lines, index, len(lines))
            line = [] if value is None else [f"{dotted} = {literal(value)}"]
            return [*lines[:index], *line, *lines[after:]]
    if not line:
        return lines
    if section and start == end == len(lines) and not has_table(lines, section):
        return [*lines, *([""] if lines else []), f"[{section}]", *line]
    return insert(lines, start, end, line)


def insert(lines: list[str], start: int, end: int, line: list[str]) -> list[str]:
    """New lines after the last one with content between `start` and `end`."""
    while end > start and not lines[end - 1].strip():
        end -= 1
    return [*lines[:end], *line, *lines[end:]]


def table(lines: list[str], section: str) -> tuple[int, int]:
    """First line and end of a table's content; "" is the top of the file. An absent one is empty,
    at the end.
    """
    start = 0 if not section else len(lines)
    for index, line in enumerate(lines):
        if match := TABLE.match(line):
            if start <= index:
                return start, index
            if section and match.group(1).strip() == section:
                start = index + 1
    return start, len(lines)


def has_table(lines: list[str], section: str) -> bool:
    return any((match := TABLE.match(line)) and match.group(1).strip() == section for line in lines)


def key_of(line: str) -> str | None:
    """The key that a line sets, dots between its parts; None where it sets none."""
    head, equals, _ = line.partition("=")
    if not equals or head.lstrip().startswith(("#", "[")):
        return None
    try:
        tree: Any = tomllib.loads(f"{head} = 0")
    except tomllib.TOMLDecodeError:
        return None
    parts = []
    while isinstance(tree, dict) and len(tree) == 1:
        ((part, tree),) = tree.items()
        parts.append(part)
    return ".".join(parts)


def value_end(lines: list[str], start: int, end: int) -> int:
    """The line after a value that may go over several."""
    for after in range(start + 1, end + 1):
        try:
            tomllib.loads("\n".join(lines[start:after]))
        except tomllib.TOMLDecodeError:
            continue
        return after
    return start + 1


def comment(line: str) -> str:
    """The comment behind a value, with the space before it."""
    for match in re.finditer(r"\s*#", line):
        try:
            if tomllib.loads(line[: match.start()]) == tomllib.loads(line):
                return line[match.start() :]
        except tomllib.TOMLDecodeError:
            continue
    return ""


def says(text: str, wanted: dict[str, SettingValue]) -> bool:
    """Whether the text, read as settings, holds exactly these."""
    try:
        return {key: checked(key, value) for key, value in flat(tomllib.loads(text))} == wanted
    except (tomllib.TOMLDecodeError, UsageError):
        return False


def quoted_name(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else json.dumps(name)


def literal(value: SettingValue) -> str:
    """A value in TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple):
        return "[" + ", ".join(literal(one) for one in value) + "]"
    return repr(value)
