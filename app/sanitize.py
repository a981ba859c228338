"""The one sanitiser for everything untrusted that reaches a terminal or a log.

Rules:

- Line ends become `\\n`: CRLF, a lone CR, U+2028 and U+2029. Newline and tab pass.
- Other control characters show as their picture (ESC as ␛) or as `<U+009B>`; what followed an
  escape stays as ordinary text, so nothing is hidden.
- Bidirectional controls, zero-width and other invisible format characters show as `<U+202E>`.
  Lone surrogates too; a byte of an undecodable file name shows as `\\xff`. Soft hyphens and a
  leading byte-order mark are dropped: they show nothing in correct text either.
- Invisible characters that ordinary writing needs stay, only where it needs them: the joiner inside
  an emoji sequence, both joiners between letters of scripts that join, one variation selector after
  a visible character, and the tag sequences of the three regional flags.

`clean` is idempotent, and its output holds no forbidden code point. It knows nothing of markup or
width.
"""

from __future__ import annotations

import re

ZWNJ, ZWJ = "\u200c", "\u200d"

SUSPECT = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\ufffe\uffff\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    + "".join(chr(plane << 16 | low) for plane in range(1, 17) for low in (0xFFFE, 0xFFFF))
    + "]"
)
"""Every code point that needs a look; most texts have none."""

LINE_ENDS = frozenset("\r\u2028\u2029")
SELECTORS = re.compile("[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
FLAG_TAGS = re.compile(
    "(?<=\U0001f3f4)(?:"
    + "|".join(
        "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f"
        for region in ("gbeng", "gbsct", "gbwls")
    )
    + ")"
)

EMOJI = re.compile(
    "[\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf"
    "\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
JOINING = re.compile(
    "[\u0620-\u06d3\u06d5-\u06dc\u06df-\u06ff\u0700-\u070d\u0710-\u08e1\u08e3-\u0dff\u0e80-\u109f"
    "\u1700-\u17b3\u17b6-\u180a\u1810-\u18af\u1900-\u1cff\ua800-\uabff\ufb50-\ufdcf\ufdf0-\ufdff"
    "\ufe70-\ufefc\U00010a00-\U00011fff]"
)
"""Letters and marks of scripts in which the two joiners change the shape of a word."""


def clean(text: str) -> str:
    """Text that is safe to print; line ends are `\\n`, invisible characters are visible."""
    if SUSPECT.search(text) is None:
        return text
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    pieces: list[str] = []
    last = ""
    position = 0
    while match := SUSPECT.search(text, position):
        pieces.append(text[position : match.start()])
        last = pieces[-1][-1:] or last
        piece, position = replacement(text, match.start(), last)
        pieces.append(piece)
        last = piece[-1:] or last
    pieces.append(text[position:])
    return "".join(pieces)


def single_line(text: str, limit: int | None = None) -> str:
    """Clean text on one line, for titles, names and log lines; cut with `…` at `limit`
    characters.
    """
    line = " ".join(clean(text).split())
    if limit is None or len(line) <= limit:
        return line
    return line[: limit - 1].rstrip() + "…"


def replacement(text: str, index: int, before: str) -> tuple[str, int]:
    """What stands for the suspect at `index` after the already clean `before`, and where to go
    on.
    """
    character = text[index]
    if character in LINE_ENDS:
        return "\n", index + 1
    if character == "\xad":
        return "", index + 1
    if flag := before == "\U0001f3f4" and FLAG_TAGS.match(text, index):
        return flag.group(), flag.end()
    if is_needed(character, before, text[index + 1 : index + 2]):
        return character, index + 1
    return visible(character), index + 1


def is_needed(character: str, before: str, after: str) -> bool:
    """Whether an invisible character shapes the visible ones beside it."""
    if SELECTORS.match(character):
        return is_base(before)
    if character not in (ZWJ, ZWNJ):
        return False
    if JOINING.match(before) and (JOINING.match(after) or character == ZWJ or after in ("", " ")):
        return True
    return character == ZWJ and is_emoji_end(before) and EMOJI.match(after) is not None


def is_emoji_end(character: str) -> bool:
    return character == "\ufe0f" or EMOJI.match(character) is not None


def is_base(character: str) -> bool:
    """A visible character that a variation selector may follow."""
    return bool(character) and not character.isspace() and SUSPECT.match(character) is None


def visible(character: str) -> str:
    """A forbidden character as something to read."""
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"<U+{code:04X}>"
