"""Puts text on the clipboard: through the terminal (OSC 52) and, where there is one, the system's
own tool.

Called only because a person asked for it. It says which way was used.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping

TOOLS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("wl-copy", (), "WAYLAND_DISPLAY"),
    ("xclip", ("-selection", "clipboard"), "DISPLAY"),
    ("xsel", ("--clipboard", "--input"), "DISPLAY"),
    ("pbcopy", (), ""),
    ("clip.exe", (), ""),
)
"""Program, arguments, and the environment variable without which it cannot work."""

TIMEOUT_S = 3.0
OSC52_LIMIT = 74_994
"""Terminals drop longer sequences; 100,000 bytes of base64 is what the most generous common ones
take.
"""


def find_tool(
    environ: Mapping[str, str], which: Callable[[str], str | None] = shutil.which
) -> list[str] | None:
    """Command line of the first tool that can work here."""
    for name, arguments, needed in TOOLS:
        if needed and not environ.get(needed):
            continue
        if path := which(name):
            return [path, *arguments]
    return None


def copy_with_tool(text: str, command: list[str] | None) -> str | None:
    """Name of the tool that took the text, None where none did. Takes up to `TIMEOUT_S`: run it in
    a thread.
    """
    if command is None:
        return None
    encoding = "utf-16-le" if command[0].endswith("clip.exe") else "utf-8"
    try:
        subprocess.run(
            command,
            input=text.encode(encoding, "replace"),
            timeout=TIMEOUT_S,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return os.path.basename(command[0])


def describe(text: str, tool: str | None) -> str:
    """Copied 1,240 characters with xclip."""
    amount = f"Copied {len(text):,} characters"
    if tool is not None:
        return f"{amount} with {tool}."
    if len(text.encode("utf-8", "replace")) > OSC52_LIMIT:
        return f"{amount} through the terminal; it may refuse so many. {install_hint()}"
    return f"{amount} through the terminal (OSC 52)."


def install_hint() -> str:
    if sys.platform == "darwin":
        return "pbcopy would take them."
    return "With wl-copy or xclip installed there is no limit."
