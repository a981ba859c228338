"""Laws of the clipboard: the tool gets the whole text, and what is told is what happened."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app import clipboard
from app.clipboard import OSC52_LIMIT, copy_with_tool, describe, find_tool, install_hint

Stage = Callable[..., Any]

TEXT = "Zeile 1\r\n\tÄ 日本語 🏳️‍🌈\x1b[31m\0 end \n"


def make_tool(folder: Path, name: str, script: str) -> Path:
    """A program on the search path."""
    folder.mkdir(exist_ok=True)
    tool = folder / name
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    return tool


def taking(folder: Path, name: str) -> Path:
    """A tool that keeps what it gets in `NAME.got` and its arguments in `NAME.arguments`."""
    place = folder / name
    return make_tool(folder, name, f'cat > "{place}.got"; echo "$@" > "{place}.arguments"')


def found(folder: Path, **environ: str) -> list[str] | None:
    def which(name: str) -> str | None:
        path = folder / name
        return str(path) if path.exists() else None

    return find_tool(environ, which)


@pytest.mark.parametrize(
    ("name", "variable", "arguments"),
    [
        ("wl-copy", "WAYLAND_DISPLAY", ""),
        ("xclip", "DISPLAY", "-selection clipboard"),
        ("xsel", "DISPLAY", "--clipboard --input"),
    ],
)
def test_a_tool_gets_the_exact_bytes(
    tmp_path: Path, name: str, variable: str, arguments: str
) -> None:
    folder = tmp_path / "tools"
    taking(folder, name)
    assert found(folder) is None
    command = found(folder, **{variable: ":0"})
    assert copy_with_tool(TEXT, command) == name
    assert (folder / f"{name}.got").read_bytes() == TEXT.encode()
    assert (folder / f"{name}.arguments").read_text().strip() == arguments


def test_a_megabyte_and_half_a_character_reach_the_tool(tmp_path: Path) -> None:
    folder = tmp_path / "tools"
    taking(folder, "xclip")
    text = "x" * 1_000_000 + "\ud83d"
    assert copy_with_tool(text, found(folder, DISPLAY=":0")) == "xclip"
    assert (folder / "xclip.got").read_bytes() == b"x" * 1_000_000 + b"?"


def test_the_tool_of_the_session_in_use_goes_first(tmp_path: Path) -> None:
    folder = tmp_path / "tools"
    for name in ("xsel", "xclip", "wl-copy"):
        taking(folder, name)
    both = found(folder, DISPLAY=":0", WAYLAND_DISPLAY="wayland-0")
    assert both == [str(folder / "wl-copy")]
    assert found(folder, DISPLAY=":0") == [str(folder / "xclip"), "-selection", "clipboard"]


def test_windows_tool_gets_utf_16(tmp_path: Path) -> None:
    taking(tmp_path / "tools", "clip.exe")
    assert copy_with_tool("Ä", found(tmp_path / "tools")) == "clip.exe"
    assert (tmp_path / "tools" / "clip.exe.got").read_bytes() == "Ä".encode("utf-16-le")


@pytest.mark.parametrize("script", ["cat > /dev/null; exit 1", "exit 1", "exec /nowhere"])
def test_a_tool_that_fails_leaves_it_to_the_terminal(tmp_path: Path, script: str) -> None:
    make_tool(tmp_path / "tools", "xclip", script)
    assert copy_with_tool("x" * 5_000_000, found(tmp_path / "tools", DISPLAY=":0")) is None
    assert describe("abc", None) == "Copied 3 characters through the terminal (OSC 52)."


def test_a_tool_that_never_ends_or_cannot_run_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clipboard, "TIMEOUT_S", 0.2)
    make_tool(tmp_path / "tools", "xclip", "exec sleep 60")
    assert copy_with_tool("abc", found(tmp_path / "tools", DISPLAY=":0")) is None
    assert copy_with_tool("abc", [str(tmp_path / "gone")]) is None
    assert copy_with_tool("abc", None) is None


def test_what_a_terminal_may_refuse_is_said() -> None:
    assert describe("x" * 1_240, "xclip") == "Copied 1,240 characters with xclip."
    assert "may refuse" not in describe("x" * OSC52_LIMIT, None)
    assert "may refuse" not in describe("x" * (OSC52_LIMIT + 1), "xclip")
    for text in ("x" * (OSC52_LIMIT + 1), "ä" * (OSC52_LIMIT // 2 + 1)):
        assert describe(text, None).endswith(f"it may refuse so many. {install_hint()}")


async def test_copying_a_turn_uses_the_tool_and_names_it(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tools"
    taking(folder, "xclip")
    async with stage() as it:
        monkeypatch.setattr("app.clipboard.find_tool", lambda *_: found(folder, DISPLAY=":0"))
        await it.ask("Q")
        await it.pilot.press("alt+up", "c")
        await it.until(lambda: it.told == ["Copied 12 characters with xclip."])
        assert (folder / "xclip.got").read_bytes() == b"Hello there."


async def test_copying_with_a_failing_tool_goes_through_the_terminal(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tools"
    make_tool(folder, "xclip", "exit 1")
    async with stage() as it:
        copied: list[str] = []
        it.app.copy_to_clipboard = copied.append
        monkeypatch.setattr("app.clipboard.find_tool", lambda *_: found(folder, DISPLAY=":0"))
        await it.ask("Q")
        await it.pilot.press("alt+up", "c")
        await it.until(lambda: it.told)
        assert it.told == ["Copied 12 characters through the terminal (OSC 52)."]
        assert copied == ["Hello there."]
