"""Everything a person can set: one documented tree, and its sources in order.

Flag (`-o key=value`) before `LOCALCHAT_*` variable before `config.toml` before default. Every value
is checked where it enters; a wrong one is a UsageError that names the key, the value and what is
allowed. It does not know what the engine does with a value.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from app.errors import file_error
from app.sanitize import single_line
from app.setting_values import SettingValue, leaves, nearest, parse_text, take
from engine.errors import UsageError

Backend = Literal["auto", "llama_cpp", "torch_paged"]
KVType = Literal["auto", "f16", "bf16", "k8", "q8", "k8v4", "q4", "fp8"]
Kernels = Literal["auto", "triton", "reference"]
WeightType = Literal["auto", "int8"]
Share = Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")]
Penalty = Annotated[float, Meta(ge=-10, le=10, description="a number from -10 to 10")]
StopString = Annotated[str, Meta(min_length=1, max_length=1000)]
Milliseconds = Annotated[int, Meta(ge=10, le=60_000, description="milliseconds, 10 to 60000")]
Bytes = Annotated[int, Meta(ge=0, le=2**50, description="bytes, 0 or more")]


class SamplingSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How the next token is chosen; unset values are the model's, then the program's."""

    temperature: (
        Annotated[float, Meta(ge=0, le=100, description="a number from 0 to 100; 0 is greedy")]
        | None
    ) = None
    top_k: (
        Annotated[int, Meta(ge=0, le=10_000_000, description="a whole number from 0; 0 is off")]
        | None
    ) = None
    top_p: Share | None = None
    """1 is off."""
    min_p: Share | None = None
    """0 is off."""
    typical_p: Share | None = None
    """1 is off."""
    repeat_penalty: (
        Annotated[float, Meta(gt=0, le=10, description="a number above 0, up to 10; 1 is off")]
        | None
    ) = None
    repeat_last_n: (
        Annotated[
            int,
            Meta(ge=-1, le=10_000_000, description="tokens looked back on; 0 is off, -1 is all"),
        ]
        | None
    ) = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    seed: (
        Annotated[int, Meta(ge=0, le=2**63 - 1, description="a whole number from 0 to 2^63-1")]
        | None
    ) = None
    """Unset: a new one is drawn for each answer and stored with it."""
    max_tokens: (
        Annotated[int, Meta(ge=0, le=10_000_000, description="tokens, 0 to 10000000")] | None
    ) = None
    """Unset: up to the end of the context."""
    stop: Annotated[
        tuple[StopString, ...],
        Meta(max_length=16, description="up to 16 texts of 1 to 1000 characters"),
    ] = ()
    """An answer ends before any of these."""


class EngineSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How a model is loaded and run; unset values are chosen for the machine."""

    backend: Backend = "auto"
    """What computes: our own on an NVIDIA GPU, else llama.cpp."""
    kv_type: KVType = "auto"
    """How keys and values are stored."""
    ctx: (
        Annotated[int, Meta(ge=16, le=100_000_000, description="tokens, 16 to 100000000")] | None
    ) = None
    """Limit of a conversation's tokens."""
    threads: Annotated[int, Meta(ge=1, le=1024, description="1 to 1024")] | None = None
    """Unset: chosen, and follows what else runs on the machine."""
    flash: bool | None = None
    """Flash attention; unset: as measured on this machine."""
    kernels: Kernels = "auto"
    """Of our own backend on an NVIDIA GPU: Triton where there is a kernel, all of it, or none."""
    weights: WeightType = "auto"
    """Of our own backend: int8 rounds the matrices of a safetensors folder to 8 bits."""
    speculate: bool = True
    """Check guessed tokens several at a time where an answer quotes what was said before."""
    self_tune: bool = True
    """Measure once, in idle time, which settings are fastest here."""
    ignore_memory: bool = False
    """Load a model although the estimate says that it does not fit."""
    step_ms: Milliseconds = 500
    """Longest engine step while nothing streams."""
    step_ms_streaming: Milliseconds = 150
    """Longest engine step while an answer streams."""


class CacheSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept so that nothing is computed twice."""

    canonical: bool = True
    """Prefill finished answers again in idle time, as the next prompt will contain them."""
    bytes: Bytes | None = None
    """Memory for parked conversations; unset: a quarter of what is free, at most 4 GiB."""
    saved_bytes: Bytes = 2_000_000_000
    """Disk space for conversations' states that outlive the program."""


class ChatSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How a conversation starts and how the prompt behaves."""

    system: str | None = None
    """System prompt of new chats."""
    enter_sends: bool = True
    """False: enter breaks the line, ctrl+j sends."""
    auto_title: bool = False
    """On the chat screen, let the model find a title after the first answer; off: the first line
    stays the title, which small models seldom better.
    """


class KnowledgeSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How documents are searched and read."""

    attach: Literal["auto", "whole", "search"] = "auto"
    """Attached and pasted text goes in whole, or is searched; auto: searched above 4,096 tokens."""
    rewrite: bool = True
    """Let the model make a follow-up question whole before it is searched for."""
    rerank: bool = False
    """Let the model judge what a search found before it is used; each passage is read once more."""
    read_all: bool = True
    """Read whole documents in parts where a question is about all of them."""
    embedder: str | None = None
    """Path of a GGUF embedding model; unset: the built-in one, which is best in English."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole tree; `config.toml` has the same shape."""

    model: str | None = None
    """Name or path; unset: the one used last, else the best that fits."""
    theme: str = "dark"
    sampling: SamplingSettings = SamplingSettings()
    engine: EngineSettings = EngineSettings()
    cache: CacheSettings = CacheSettings()
    chat: ChatSettings = ChatSettings()
    kb: KnowledgeSettings = KnowledgeSettings()
    keys: dict[str, str] = {}
    """Action id to key, for example `"chat.new" = "ctrl+n"`."""


OPTION_KEYS: Mapping[str, str] = {
    **{name: f"sampling.{name}" for name in SamplingSettings.__struct_fields__},
    **{
        name: f"engine.{name}"
        for name in ("backend", "kv_type", "ctx", "threads", "flash", "speculate")
    },
    **{name: f"engine.{name}" for name in ("kernels", "weights")},
    "canonical": "cache.canonical",
    "attach": "kb.attach",
    "kb_rewrite": "kb.rewrite",
    "kb_rerank": "kb.rerank",
    "kb_read_all": "kb.read_all",
}
"""What `-o key=value` takes, and the setting it stands for."""

FOLDER_VARIABLES = frozenset(
    f"LOCALCHAT_{kind}_DIR" for kind in ("CONFIG", "DATA", "STATE", "CACHE")
)


def read_settings(path: Path, options: Iterable[str] = ()) -> Settings:
    """The settings of the file and the environment, with `key=value` options over them."""
    return apply_options(load_settings(path), options)


def load_settings(path: Path, environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings from the file, where there is one, and the environment; UsageError for any wrong
    value.
    """
    values = {**file_values(path), **environment_values(environ)}
    return build(Settings(), values)


def apply_options(settings: Settings, options: Iterable[str]) -> Settings:
    """Settings with `key=value` options over them; `stop` may be given several times."""
    values: dict[str, SettingValue] = {}
    stops: list[str] = []
    for option in options:
        key, equals, text = option.partition("=")
        key = key.strip()
        if not equals:
            raise UsageError(
                f"`{single_line(option, 60)}` is not an option",
                "Options are written key=value.",
                "For example: -o temperature=0.",
            )
        if key not in OPTION_KEYS:
            raise unknown_key(f"-o {key}", key, OPTION_KEYS)
        if key == "stop":
            stops.append(text)
        else:
            values[OPTION_KEYS[key]] = parse_text(f"-o {key}", LEAVES[OPTION_KEYS[key]], text)
    if stops:
        values["sampling.stop"] = take("-o stop", LEAVES["sampling.stop"], stops)
    return build(settings, values)


def checked(key: str, value: object) -> SettingValue:
    """A value for the setting `key` (`sampling.top_k`), as it is kept; UsageError when it cannot
    be.
    """
    if key.startswith("keys."):
        return take(key, str, value)
    if key not in LEAVES:
        raise unknown_key(key, key, LEAVES)
    return take(key, LEAVES[key], value)


def file_values(path: Path) -> dict[str, SettingValue]:
    """The file's leaves by dotted key; empty where there is no file."""
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise file_error(error, path) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            "The settings file cannot be read",
            f"{single_line(str(path))}: {single_line(str(error))}",
            "Correct it, or move it away to start with the defaults.",
        ) from error
    try:
        return {key: checked(key, value) for key, value in flat(tree)}
    except UsageError as error:
        where = f"In {single_line(str(path))}."
        raise UsageError(error.title, f"{error.text} {where}".strip(), error.next_step) from error


def flat(tree: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Dotted keys and leaves; only tables that the settings know are entered."""
    for name, value in tree.items():
        key = prefix + name
        if key in SECTIONS and isinstance(value, dict):
            yield from flat(value, f"{key}.")
        elif key in SECTIONS:
            raise UsageError(
                f"`{key}` cannot be {single_line(repr(value), 60)}",
                "It is a section with settings of its own.",
                f"Write [{key}] and its settings below.",
            )
        else:
            yield key, value


def environment_values(environ: Mapping[str, str]) -> dict[str, SettingValue]:
    """Leaves that `LOCALCHAT_*` variables set; a misspelt variable of a known section is an
    error.
    """
    values: dict[str, SettingValue] = {}
    names = {variable(key): key for key in LEAVES}
    for name, text in environ.items():
        if name in names:
            values[names[name]] = parse_text(name, LEAVES[names[name]], text)
        elif name not in FOLDER_VARIABLES and name.startswith(VARIABLE_SECTIONS):
            raise unknown_key(name, name, names)
    return values


def variable(key: str) -> str:
    """The environment variable of a dotted key."""
    return "LOCALCHAT_" + key.replace(".", "_").upper()


def unknown_key(shown: str, key: str, known: Iterable[str]) -> UsageError:
    guess = nearest(key, known)
    return UsageError(
        f"`{single_line(shown, 80)}` is not a setting",
        f"The nearest is `{guess}`." if guess else "",
        f"Known: {', '.join(sorted(known))}." if guess is None else "Correct the name.",
    )


def build(settings: Settings, values: Mapping[str, SettingValue]) -> Settings:
    """The tree with some leaves replaced; the leaves are checked already."""
    tree: dict[str, Any] = {}
    for key, value in values.items():
        section, dot, name = key.partition(".")
        if dot:
            tree.setdefault(section, {})[name] = value
        else:
            tree[key] = value
    for section in SECTIONS & tree.keys():
        old = getattr(settings, section)
        changes = tree[section]
        tree[section] = (
            {**old, **changes} if isinstance(old, dict) else msgspec.structs.replace(old, **changes)
        )
    return msgspec.structs.replace(settings, **tree)


LEAVES: Mapping[str, Any] = leaves(Settings)
"""Type of every leaf by dotted key, `keys` aside."""
SECTIONS = frozenset(key.partition(".")[0] for key in LEAVES if "." in key) | {"keys"}
VARIABLE_SECTIONS = tuple(variable(section) + "_" for section in SECTIONS)
