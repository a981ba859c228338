"""Sampled ids -> the answer's text and reasoning, piece by piece.

Order: bytes to characters, stop strings, thinking. What it hands out, joined, is the whole answer,
so a streamed answer equals one that is not streamed. Half a character at the end is not shown: the
answer may go on, and then whoever goes on shows it whole. It does not know when a turn ends for
other reasons than a stop string.
"""

from __future__ import annotations

from engine.output.stopping import StopStrings
from engine.output.text_stream import TextStream
from engine.output.thinking import Split, ThinkingSplitter
from engine.vocabulary import Vocabulary


class AnswerText:
    def __init__(
        self,
        vocabulary: Vocabulary,
        stop: tuple[str, ...],
        think_tags: tuple[str, str],
        thinking: bool,
        begun: bytes = b"",
    ) -> None:
        """`thinking`: the prompt ends inside an open block; `begun`: inside a character."""
        self._vocabulary = vocabulary
        self._open_id = vocabulary.think_open
        self._close_id = vocabulary.think_close
        self._characters = TextStream(begun)
        self._stop = StopStrings(stop)
        self._thinking = ThinkingSplitter(
            think_tags[0] if self._open_id is None else None,
            think_tags[1] if self._close_id is None else None,
            thinking,
        )
        self._text: list[str] = []
        self._reasoning: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    @property
    def stop_string(self) -> str | None:
        """The stop string that was found; nothing follows it."""
        return self._stop.found

    @property
    def reasoning_unfinished(self) -> bool:
        return self._thinking.unfinished

    def push(self, token_id: int) -> Split:
        """Text that may be shown now; an end token is never handed in."""
        if token_id == self._open_id:
            return self._keep(self._drain() + self._thinking.open())
        if token_id == self._close_id:
            return self._keep(self._drain() + self._thinking.close())
        text = self._characters.push(self._vocabulary.piece(token_id))
        return self._keep(self._thinking.push(self._stop.push(text)))

    def finish(self) -> Split:
        """The rest that was held back, half a character excepted."""
        rest = self._stop.finish() if self.stop_string is None else ""
        return self._keep(self._thinking.push(rest) + self._thinking.finish())

    def _drain(self) -> Split:
        """What was held back before a thinking tag; half a character cannot go on behind it."""
        text = self._stop.push(self._characters.finish())
        if self._stop.found is None:
            text += self._stop.finish()
        return self._thinking.push(text)

    def _keep(self, split: Split) -> Split:
        if split.text:
            self._text.append(split.text)
        if split.reasoning:
            self._reasoning.append(split.reasoning)
        return split
