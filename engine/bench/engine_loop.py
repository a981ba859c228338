"""The engine as something to be measured: requests of ids in, events thrown away, laps taken.

Nothing ends an answer but its limit, so that both loops write the same number of tokens, each in a
step of its own: what a draft gains depends on the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.backends.base import Backend, Parked
from engine.chat_vocabulary import ChatVocabulary
from engine.config import EngineConfig
from engine.engine import Engine
from engine.errors import LocalchatError
from engine.events import Delta, Failed, Finished, Result
from engine.request import Limits, Request, Sampling
from models.tokenizers.base import Tokenizer

GREEDY = Sampling(temperature=0.0)
FINGERPRINT = "bench"


class EngineLoop:
    """One engine; one request at a time."""

    def __init__(
        self, backend: Backend, tokenizer: Tokenizer, config: EngineConfig | None = None
    ) -> None:
        """`config`: how prompts are cut; by default as for llama.cpp."""
        vocabulary = ChatVocabulary(tokenizer, None)
        vocabulary.end_ids = frozenset()
        config = replace(config or EngineConfig(), fingerprint=FINGERPRINT, speculate=False)
        self._engine = Engine(backend, vocabulary, config)
        self._requests = 0

    def adopt(self, conversation: str, ids: tuple[int, ...], parked: Parked) -> bool:
        return self._engine.adopt(conversation, ids, parked, FINGERPRINT)

    def begin(
        self,
        ids: Sequence[int],
        tokens: int,
        conversation: str = "",
        sampling: Sampling = GREEDY,
    ) -> None:
        """Submit; `run` does the work."""
        self._requests += 1
        self._engine.submit(
            Request(
                request_id=f"bench-{self._requests}",
                ids=tuple(ids),
                sampling=sampling,
                limits=Limits(max_tokens=tokens),
                conversation=conversation,
                keep=bool(conversation),
            )
        )

    def write(self, tokens: int) -> Result | None:
        """Steps until that many more tokens were written; the result, when the request ended."""
        written = 0

        def enough(count: int) -> bool:
            nonlocal written
            written += count
            return written >= tokens

        return self._step_until(enough)

    def finish(self) -> Result:
        """Steps to the end of the request."""
        result = self._step_until(lambda _count: False)
        assert result is not None
        return result

    def drop(self, conversation: str) -> None:
        self._engine.drop(conversation)

    def _step_until(self, enough: Callable[[int], bool]) -> Result | None:
        while True:
            count = 0
            for event in self._engine.step():
                if isinstance(event, Failed):
                    raise LocalchatError(event.cause.title, event.cause.text, event.cause.next_step)
                if isinstance(event, Finished):
                    return event.result
                if isinstance(event, Delta):
                    count += len(event.ids)
            if enough(count):
                return None
