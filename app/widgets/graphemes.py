"""What a person sees as one character: how far one backspace goes."""

from __future__ import annotations

import unicodedata

JOINER = "\u200d"


def extends(character: str) -> bool:
    """Belongs to the character before it: marks, selectors, joiners, skin tones, tags."""
    code = ord(character)
    return (
        character == JOINER
        or unicodedata.category(character) in ("Mn", "Me", "Mc")
        or 0x1F3FB <= code <= 0x1F3FF
        or 0xE0020 <= code <= 0xE007F
    )


def is_flag_half(character: str) -> bool:
    return 0x1F1E6 <= ord(character) <= 0x1F1FF


def last_length(text: str) -> int:
    """Code points of the last character of `text`; 0 for an empty text."""
    start = len(text)
    while start > 0:
        start -= 1
        if extends(text[start]) or (start > 0 and text[start - 1] == JOINER):
            continue
        break
    halves = 0
    while start - halves >= 0 and is_flag_half(text[start - halves]):
        halves += 1
        if start - halves < 0:
            break
    if halves and halves % 2 == 0:
        start -= 1
    return len(text) - start
