"""Big pastes stand in the draft as a short label and are sent whole. It knows no widget."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from app.attached import Attachment
from app.sanitize import clean
from app.store.draft import KeptDraft, Pasted
from app.widgets import words

FOLD_LINES = 12
FOLD_CHARACTERS = 2_000
SHOWN_CHARACTERS = 20_000
"""A longer paste is not put into the prompt as text: each key would wrap it again."""

LABEL = re.compile(r"\[pasted [^\[\]\n]+\]")


def normal_lines(text: str) -> str:
    """Line ends as `\\n`; NUL is no text."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")


def is_big(text: str) -> bool:
    return len(text) > FOLD_CHARACTERS or text.count("\n") >= FOLD_LINES


def is_huge(text: str) -> bool:
    """A draft too long to stand in the prompt as text."""
    return len(text) > SHOWN_CHARACTERS // 4


@dataclass(frozen=True, slots=True)
class Paste:
    text: str
    tokens: int | None = None
    name: str = ""
    """Of a file that was attached."""
    is_own: bool = False
    """A long draft that was put back: nothing that was pasted."""

    @property
    def attachment(self) -> Attachment:
        return Attachment(self.name, self.text)


class Pastes:
    """The labels of one draft and what they stand for."""

    def __init__(self) -> None:
        self._by_label: dict[str, Paste] = {}

    def fold(self, text: str, name: str = "", is_own: bool = False) -> str:
        """Keeps a paste and returns its label, unlike any other."""
        return self._keep(Paste(text, name=name, is_own=is_own))

    def count(self, label: str, tokens: int) -> str:
        """The label with its tokens, which replaces the one without."""
        paste = self._by_label.pop(label, None)
        return label if paste is None else self._keep(replace(paste, tokens=tokens))

    def get(self, label: str) -> str | None:
        """What would be sent in its place."""
        paste = self._by_label.get(label)
        return None if paste is None else paste.attachment.labelled

    def whole(self, draft: str) -> str:
        """The draft with every label replaced by what it stands for."""
        return LABEL.sub(lambda match: self.get(match.group()) or match.group(), draft)

    def apart(self, draft: str) -> tuple[str, tuple[Attachment, ...]]:
        """What was written, without the labels, and what they stand for, in order."""
        held: list[Attachment] = []

        def taken(match: re.Match[str]) -> str:
            paste = self._by_label.get(match.group())
            if paste is None:
                return match.group()
            if paste.is_own:
                return paste.text
            held.append(paste.attachment)
            return ""

        written = LABEL.sub(taken, draft)
        return written.strip(), tuple(held)

    def fold_draft(self, draft: KeptDraft) -> str:
        """A draft as it stands in the prompt: its pastes are labels again, and so is what is too
        long to be shown. They take the place of what was there.
        """
        self.clear()
        pieces, position = [], 0
        for one in draft.pasted:
            text = draft.text[one.start : one.end]
            head = Attachment(one.name, "").labelled
            pieces.append(self._shown(draft.text[position : one.start]))
            pieces.append(self.fold(text.removeprefix(head), one.name))
            position = one.end
        pieces.append(self._shown(draft.text[position:]))
        return "".join(pieces)

    def _shown(self, written: str) -> str:
        return self.fold(written, is_own=True) if is_huge(written) else clean(written)

    def draft(self, shown: str) -> KeptDraft:
        """What stands in the prompt as a draft to be kept."""
        text, pasted, position = "", [], 0
        for match in LABEL.finditer(shown):
            text += shown[position : match.start()]
            start, position = len(text), match.end()
            text += self.get(match.group()) or match.group()
            paste = self._by_label.get(match.group())
            if paste is not None and not paste.is_own:
                pasted.append(Pasted(start, len(text), paste.name))
        return KeptDraft(text + shown[position:], tuple(pasted))

    def label_at(self, line: str, column: int) -> tuple[int, int] | None:
        """Start and end of the label that column touches; None where there is none."""
        for match in LABEL.finditer(line):
            if match.start() <= column <= match.end() and match.group() in self._by_label:
                return match.start(), match.end()
        return None

    def clear(self) -> None:
        self._by_label.clear()

    def _keep(self, paste: Paste) -> str:
        label = make_label(paste, 1)
        number = 1
        while label in self._by_label:
            number += 1
            label = make_label(paste, number)
        self._by_label[label] = paste
        return label


def make_label(paste: Paste, number: int) -> str:
    """`[pasted 2,140 lines · 18k tokens]`, with a number where two are alike."""
    amount = words.plural(paste.text.count("\n") + 1, "line")
    if "\n" not in paste.text:
        amount = words.plural(len(paste.text), "character")
    if paste.tokens is not None:
        amount += f" · {words.tokens_short(paste.tokens)} tokens"
    return f"[pasted {amount}{'' if number == 1 else f' · {number}'}]"
