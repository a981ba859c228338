"""Says what a file is that is not GGUF, from its first bytes and its name; nothing is decoded or
run."""

from __future__ import annotations

import re
from pathlib import Path

from models.errors import ModelFileError
from models.sizes import show_bytes, show_name

_GET_GGUF = "Get the model as a GGUF file."
_AGAIN = "Download the file again."

_STARTS: tuple[tuple[bytes, str, str], ...] = (
    (
        b"PK\x03\x04",
        "It is a zip archive, as PyTorch writes it; such files can run code and are never opened.",
        _GET_GGUF,
    ),
    (b"version https://git-lfs", "It is a git-lfs pointer, not the model.", "Run `git lfs pull`."),
    (b"lmgg", "It is a file in the old GGML format.", _GET_GGUF),
    (b"tjgg", "It is a file in the old GGJT format.", _GET_GGUF),
    (b"fmgg", "It is a file in the old GGMF format.", _GET_GGUF),
    (b"FUGG", "It is a big-endian file, or its bytes are swapped.", _GET_GGUF),
    (b"\x1f\x8b", "It is a gzip archive.", "Unpack it first."),
    (b"7z\xbc\xaf", "It is a 7z archive.", "Unpack it first."),
    (b"\xfd7zXZ", "It is an xz archive.", "Unpack it first."),
    (b"\x28\xb5\x2f\xfd", "It is a zstd archive.", "Unpack it first."),
    (b"\x89HDF", "It is an HDF5 file.", _GET_GGUF),
)
_PART_OF = re.compile(r"^(?P<stem>.+)\.part(?P<number>\d+)of(?P<count>\d+)$", re.IGNORECASE)


def part_of(path: Path) -> re.Match[str] | None:
    """Matches names like `x.gguf.part1of2`: a file that was cut into raw pieces."""
    return _PART_OF.match(path.name)


def explain_foreign(path: Path, start: bytes, size: int) -> ModelFileError:
    """The error for a file whose first bytes are not GGUF's."""
    if size == 0:
        return ModelFileError(f"{show_name(path)} is empty.", "It has 0 bytes.", _AGAIN)
    text, next_step = _kind(start, size)
    return ModelFileError(f"{show_name(path)} is not a GGUF file.", text, next_step)


def explain_piece(path: Path, piece: re.Match[str]) -> ModelFileError:
    stem, count = show_name(piece["stem"]), int(piece["count"])
    names = " ".join(f"'{stem}.part{number}of{count}'" for number in range(1, min(count, 9) + 1))
    return ModelFileError(
        f"{show_name(path)} is piece {piece['number']} of {count} of one file.",
        "It was cut into raw pieces, which have to be joined.",
        f"Join them: cat {names} > '{stem}'",
    )


def explain_directory(path: Path) -> ModelFileError:
    if any(path.glob("*.safetensors")):
        return ModelFileError(
            f"{show_name(path)} is no complete model folder.",
            "It holds safetensors files, but no config.json.",
            "Download the whole folder.",
        )
    return ModelFileError(f"{show_name(path)} is a folder.", "", "Name the GGUF file inside it.")


def _kind(start: bytes, size: int) -> tuple[str, str]:
    for magic, text, next_step in _STARTS:
        if start.startswith(magic):
            return text, next_step
    if start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "It is a Python pickle, which can run code and is never opened.", _GET_GGUF
    if start[8:10] == b'{"' and int.from_bytes(start[:8], "little") <= size:
        return "It is a safetensors file.", "Name the folder that it lies in."
    if start.lstrip()[:1] == b"<":
        return f"It is a web page of {show_bytes(size)}, not the model.", _AGAIN
    if start.lstrip()[:1] in (b"{", b"["):
        return "It is a JSON text.", _GET_GGUF
    if start.isascii() and start.decode("ascii").replace("\n", " ").strip().isprintable():
        return f"It is a text of {show_bytes(size)}.", _AGAIN
    if not start.strip(b"\0"):
        return "It holds only zeros: the download never got its data.", _AGAIN
    return f"It begins with the bytes {start[:4].hex(' ')}.", _AGAIN
