"""One value on its way into the settings: checked and converted, or words about why not.

It does not know which settings there are.
"""

from __future__ import annotations

import difflib
import math
import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from app.sanitize import single_line
from engine.errors import UsageError

SettingValue = str | int | float | bool | tuple[str, ...] | None

SWITCHES: Mapping[str, bool] = {
    **dict.fromkeys(("on", "true", "yes", "1"), True),
    **dict.fromkeys(("off", "false", "no", "0"), False),
}
UNSET = frozenset({"auto", "default", "null", "none", ""})


def leaves(struct: type[msgspec.Struct], prefix: str = "") -> dict[str, Any]:
    """Dotted key to type for every leaf of a tree of structs; mappings are left out."""
    found: dict[str, Any] = {}
    for name, kind in get_type_hints(struct, include_extras=True).items():
        if name.startswith("__") or get_origin(kind) is dict:
            continue
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            found |= leaves(kind, f"{prefix}{name}.")
        else:
            found[prefix + name] = kind
    return found


def take(name: str, kind: Any, value: object, written: str | None = None) -> SettingValue:
    """A value of the right type and range; UsageError names it, its name and what is allowed.

    `written` is how the value came, where that was text.
    """
    if is_switch(kind) and isinstance(value, str):
        value = switch(kind, value)
    if isinstance(value, float) and not math.isfinite(value):
        raise refused(name, kind, value if written is None else written)
    try:
        taken: SettingValue = msgspec.convert(value, kind)
    except (msgspec.ValidationError, OverflowError) as error:
        raise refused(name, kind, value if written is None else written) from error
    return taken


def parse_text(name: str, kind: Any, text: str) -> SettingValue:
    """A value written as text, in an option or a variable; `auto` unsets what can be unset."""
    if is_switch(kind) or is_text(kind):
        return take(name, kind, text if text or not is_optional(kind) else None, text)
    if is_list(kind):
        return take(name, kind, texts(text), text)
    if is_optional(kind) and text.strip().lower() in UNSET:
        return None
    return take(name, kind, number(text), text)


def number(text: str) -> object:
    """An int or a float where the text is one, else the text itself, which is refused with its
    name.
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def texts(text: str) -> list[object]:
    """A JSON array, or the text as the only element."""
    if text.lstrip().startswith("["):
        try:
            found = msgspec.json.decode(text)
        except msgspec.DecodeError:
            return [text]
        return list(found)
    return [text] if text else []


def switch(kind: Any, text: str) -> object:
    """on, off, or for what can be unset `auto`; anything else stays and is refused."""
    word = text.strip().lower()
    if word in SWITCHES:
        return SWITCHES[word]
    if word == "auto":
        return None if is_optional(kind) else True
    return text


def refused(name: str, kind: Any, value: object) -> UsageError:
    return UsageError(
        f"`{name}` cannot be {single_line(repr(value), 60)}",
        f"Allowed: {allowed(kind)}.",
        "Correct the value.",
    )


def allowed(kind: Any) -> str:
    """What a setting takes, in words."""
    if is_switch(kind):
        return "on, off" + (", auto" if is_optional(kind) else "")
    for part in parts(kind):
        if get_origin(part) is Annotated:
            return str(next(meta.description for meta in get_args(part)[1:] if meta.description))
        if get_origin(part) is Literal:
            return ", ".join(map(str, get_args(part)))
    return "text"


def parts(kind: Any) -> tuple[Any, ...]:
    """The members of a union, or the type alone."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def bare(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def is_optional(kind: Any) -> bool:
    return type(None) in parts(kind)


def is_switch(kind: Any) -> bool:
    return bool in parts(kind)


def is_text(kind: Any) -> bool:
    return any(part is str or get_origin(part) is Literal for part in parts(kind))


def is_list(kind: Any) -> bool:
    return any(get_origin(bare(part)) is tuple for part in parts(kind))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name most like `word`, if one is like it at all."""
    names = list(known)
    last = word.rpartition(".")[2]
    by_end = [name for name in names if name.rpartition(".")[2] == last]
    found = by_end or difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return found[0] if found else None
