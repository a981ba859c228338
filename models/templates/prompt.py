"""Rendered conversation in, token ids out, with the name of each part.

Earlier answers are spliced in as the ids that were sampled wherever they still say the same; a run
of text is cut only there. BOS stands once at the beginning. Knows nothing of requests or caches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from models.templates.kept_ids import KeptIds, Splice, find_splice, islands
from models.templates.marks import ControlTexts
from models.templates.rendered import Rendered, Span
from models.templates.segments import Control, Run, Segment, segments
from models.templates.thinking import left_open
from models.templates.turns import Turn
from models.tokenizers.base import Tokenizer

TEMPLATE_PART = "template"


@dataclass(frozen=True, slots=True)
class PromptIds:
    ids: tuple[int, ...]
    parts: tuple[tuple[int, str], ...]
    """First token and name, ascending; names like `system prompt`, `message 3 (user)`, `template`.
    """
    reused: tuple[int, ...] = ()
    """Messages whose kept ids stand in the prompt as they are."""
    retokenised: tuple[int, ...] = ()
    """Messages whose kept ids did not fit, wholly or in part."""
    thinking_open: bool = False
    """The prompt ends inside a reasoning block."""
    notices: tuple[str, ...] = ()


def encode_prompt(
    rendered: Rendered,
    tokenizer: Tokenizer,
    kept: Mapping[int, KeptIds] | None = None,
    controls: ControlTexts | None = None,
) -> PromptIds:
    """`kept` by index of `rendered.turns`; `controls` saves building the set of control texts
    again."""
    if controls is None:
        controls = ControlTexts(tokenizer.control_tokens)
    builder = _Builder(rendered.turns, tokenizer, kept or {})
    for segment in segments(rendered, tokenizer, controls):
        builder.add(segment)
    tail = rendered.text[rendered.spans[-1].end if rendered.spans else 0 :]
    return builder.finish(left_open(tail) is not None)


def part_names(turns: tuple[Turn, ...]) -> tuple[str, ...]:
    """Names of the messages; those that are no system prompt are counted from 1."""
    names: list[str] = []
    count = 0
    for turn in turns:
        if turn.role == "system":
            names.append("system prompt")
            continue
        count += 1
        names.append(f"message {count} ({turn.role})")
    return tuple(names)


@dataclass
class _Builder:
    """The only thing that grows while a prompt is put together."""

    turns: tuple[Turn, ...]
    tokenizer: Tokenizer
    kept: Mapping[int, KeptIds]
    ids: list[int] = field(default_factory=list)
    parts: list[tuple[int, str]] = field(default_factory=list)
    covered: dict[int, bool] = field(default_factory=dict)
    """Whether the kept ids of a message cover all of it."""

    def __post_init__(self) -> None:
        self.names = part_names(self.turns)

    def add(self, segment: Segment) -> None:
        if isinstance(segment, Control):
            if segment.id == self.tokenizer.bos_id and self.ids == [segment.id]:
                return
            self._part(TEMPLATE_PART)
            self.ids.append(segment.id)
            return
        position = 0
        for splice in self._splices(segment):
            self._encode(segment, position, splice.start)
            self._part(self._name(_owner(segment, splice.end - 1)))
            self.ids.extend(splice.ids)
            position = splice.end
        self._encode(segment, position, len(segment.text))

    def finish(self, thinking_open: bool) -> PromptIds:
        self._check_bos()
        return PromptIds(
            ids=tuple(self.ids),
            parts=tuple(self.parts),
            reused=tuple(sorted(i for i, whole in self.covered.items() if whole)),
            retokenised=tuple(sorted(i for i in self.kept if not self.covered.get(i))),
            thinking_open=thinking_open,
        )

    def _check_bos(self) -> None:
        bos = self.tokenizer.bos_id
        if bos is None or not self.tokenizer.add_bos or self.ids[:1] == [bos]:
            return
        self.ids.insert(0, bos)
        shifted = [(start + 1, name) for start, name in self.parts]
        if shifted and shifted[0][1] == TEMPLATE_PART:
            shifted[0] = (0, TEMPLATE_PART)
        else:
            shifted.insert(0, (0, TEMPLATE_PART))
        self.parts = shifted

    def _splices(self, run: Run) -> list[Splice]:
        splices: list[Splice] = []
        for message in dict.fromkeys(span.message for span in run.spans):
            kept = self.kept.get(message)
            if kept and kept.tokenizer in ("", self.tokenizer.fingerprint):
                splices += self._message_splices(run, message, kept)
        return sorted(splices, key=lambda splice: splice.start)

    def _message_splices(self, run: Run, message: int, kept: KeptIds) -> list[Splice]:
        spans = [span for span in run.spans if span.message == message and span.field != "other"]
        if not spans:
            return []
        found = islands(kept, self.tokenizer)
        room = _room(run, spans)
        whole = find_splice(run.text, spans[0].start, spans[-1].end, room, found)
        if whole and whole.end >= spans[-1].end:
            self.covered[message] = self.covered.get(message, True)
            return [whole]
        splices: list[Splice] = []
        position = room[0]
        for span in spans:
            splice = find_splice(run.text, span.start, span.end, (position, room[1]), found)
            complete = splice is not None and splice.end >= span.end
            self.covered[message] = self.covered.get(message, True) and complete
            if splice:
                splices.append(splice)
                position = splice.end
        return splices

    def _encode(self, run: Run, start: int, end: int) -> None:
        text = run.text[start:end]
        ids = self._encode_at(text, start)
        if not ids:
            return
        borders = _byte_borders(run, start, end)
        offset, index = 0, 0
        for token_id in ids:
            end_offset = offset + len(self.tokenizer.piece(token_id))
            while index + 1 < len(borders) and borders[index + 1][0] <= offset:
                index += 1
            owner = borders[index][1]
            if owner is None and index + 1 < len(borders) and borders[index + 1][0] < end_offset:
                owner = borders[index + 1][1]
            self._part(self._name(owner))
            self.ids.append(token_id)
            offset = end_offset

    def _encode_at(self, text: str, start: int) -> tuple[int, ...]:
        """`start`: characters of the run that stand before the text."""
        if start:
            return self.tokenizer.encode_after(text)
        return self.tokenizer.encode_section(text) if self.ids else self.tokenizer.encode(text)

    def _name(self, message: int | None) -> str:
        return TEMPLATE_PART if message is None else self.names[message]

    def _part(self, name: str) -> None:
        if not self.parts or self.parts[-1][1] != name:
            self.parts.append((len(self.ids), name))


def _owner(run: Run, position: int) -> int | None:
    for span in run.spans:
        if span.start <= position < span.end:
            return span.message
    return run.spans[-1].message if run.spans else None


def _room(run: Run, spans: list[Span]) -> tuple[int, int]:
    """Up to where the text around a message's spans belongs to no other message."""
    before = [span.end for span in run.spans if span.end <= spans[0].start and span not in spans]
    after = [span.start for span in run.spans if span.start >= spans[-1].end and span not in spans]
    return max(before, default=0), min(after, default=len(run.text))


def _byte_borders(run: Run, start: int, end: int) -> list[tuple[int, int | None]]:
    """Byte offset in text[start:end] and the message that begins there; None is the template."""
    borders: list[tuple[int, int | None]] = [(0, None)]
    offset, position = 0, start
    for span in run.spans:
        first, last = max(span.start, start), min(span.end, end)
        if first >= last:
            continue
        offset += len(run.text[position:first].encode())
        borders.append((offset, span.message))
        offset += len(run.text[first:last].encode())
        borders.append((offset, None))
        position = last
    return borders
