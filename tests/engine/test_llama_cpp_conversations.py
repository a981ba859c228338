"""Whole conversations over every way in which layers remember: the right answers, and no token
computed that could be restored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.backends.llama_cpp.backend import LlamaCppBackend
from engine.backends.llama_cpp.model import LoadedModel
from engine.backends.scripted_vocabulary import ScriptedVocabulary
from engine.client import EngineClient
from engine.config import EngineConfig
from engine.engine import Engine
from engine.events import Delta, Finished, Result
from engine.messages import ChatMessage, LoadOptions, SamplingOverrides
from engine.request import Request
from tests.engine import tiny_models
from tests.engine.client_support import ask as ask_client
from tests.engine.client_support import said, user
from tests.engine.engine_runs import Clock, ask
from tests.engine.llama_cpp_support import (
    equal_up_to_a_close_call,
    feed,
    greedy,
    opened_backend,
    opened_model,
    prompt,
)

KINDS = ["llama", "window", "experts", "mamba", "hybrid"]
PIECE = 128
TOKENS = 8
# Of an answer that did not end by itself everything but its last token was read.
UNREAD = 1
# A restore point lies this far before the end of every prompt.
LEAST = 2
CLOSE = 0.02
WINDOW = 512
"""Of the real model."""


class Chat:
    """An engine over a real backend. A clock that stands makes every piece of a prompt `PIECE`."""

    def __init__(self, backend: LlamaCppBackend, cache_bytes: int = 1 << 30) -> None:
        self.backend = backend
        config = EngineConfig(chunk=PIECE, micro_batch=PIECE, cache_bytes=cache_bytes)
        self.engine = Engine(backend, ScriptedVocabulary(), config, Clock())
        self.finished: dict[str, Result] = {}
        self.written = 0
        """Tokens of the answer that was begun last."""
        self._asked = 0

    def step(self) -> None:
        events = self.engine.step()
        self.engine.validate(self.backend.length)
        for event in events:
            if isinstance(event, Finished):
                self.finished[event.request_id] = event.result
            if isinstance(event, Delta):
                self.written += len(event.ids)

    def begin(self, ids: tuple[int, ...], conversation: str = "chat") -> Request:
        self._asked += 1
        self.written = 0
        request = ask(str(self._asked), ids, TOKENS, conversation=conversation)
        self.engine.submit(request)
        return request

    def end(self, request: Request) -> Result:
        while self.engine.busy:
            self.step()
        return self.finished[request.request_id]

    def cancel(self, request: Request) -> Result:
        self.engine.cancel(request.request_id)
        result = self.end(request)
        assert result.finish_reason == "cancelled"
        return result

    def ask(self, ids: tuple[int, ...], conversation: str = "chat") -> Result:
        return self.end(self.begin(ids, conversation))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model(kind: str, tmp_path: Path) -> Iterator[LoadedModel]:
    path = getattr(tiny_models, f"write_{kind}")(tmp_path / "tiny.gguf")
    with opened_model(path) as opened:
        yield opened


def assert_as_cold(model: LoadedModel, result: Result) -> None:
    """The ids of an engine that has never read anything before."""
    ids = result.prompt_ids
    with opened_backend(model, start_context=1024) as backend:
        alone = Chat(backend, cache_bytes=0).ask(ids)
    with opened_backend(model, start_context=1024) as backend:
        expected, margins = greedy(backend, 0, feed(backend, 0, ids), TOKENS)
    assert alone.usage.computed_tokens == len(ids)
    assert equal_up_to_a_close_call(list(alone.token_ids), expected, margins, CLOSE)
    ours = list(result.token_ids)
    assert equal_up_to_a_close_call(ours, expected[: len(ours)], margins[: len(ours)], CLOSE)


def text(count: int, first: int) -> tuple[int, ...]:
    """New ids that begin differently from those of any other `first`."""
    return (first, *prompt(count - 1, seed=first))


def test_a_conversation_computes_what_cannot_be_restored_and_answers_as_a_cold_one(
    model: LoadedModel, kind: str
) -> None:
    anywhere = kind == "llama"
    with opened_backend(model, start_context=1024) as backend:
        chat = Chat(backend)

        def check(result: Result, found: int) -> tuple[int, ...]:
            """`found`: tokens of the prompt that are not computed."""
            usage = result.usage
            assert usage.reused_tokens + usage.restored_tokens == found
            assert usage.computed_tokens == len(result.prompt_ids) - found
            assert_as_cold(model, result)
            return result.token_ids

        first = text(200, 10)
        one = check(chat.ask(first), 0)

        second = first + one + text(50, 20)
        two = check(chat.ask(second), 200 + TOKENS - UNREAD)

        # Only some of the second answer: less is missing than the window holds.
        inside = second + two[:3] + text(30, 25)
        check(chat.ask(inside), len(second) + (3 if anywhere else -LEAST))

        # The point of the first prompt; a window has gone on by more than its size.
        edited = first + one + text(40, 30)
        check(chat.ask(edited), 200 + TOKENS if anywhere else 200 - LEAST)

        again = check(chat.ask(edited), len(edited) - LEAST)

        # Cancelled behind the first piece of what was new: a state can always be gone on with.
        third = edited + again + text(300, 40)
        request = chat.begin(third)
        chat.step()  # it begins
        chat.step()
        stopped = chat.cancel(request)
        read = len(edited) + TOKENS - UNREAD + PIECE
        assert stopped.usage.prompt_tokens == read
        three = check(chat.ask(third), read)

        # Cancelled in the middle of an answer.
        fourth = third + three + text(20, 50)
        request = chat.begin(fourth)
        while chat.written < 3:
            chat.step()
        four = check(chat.cancel(request), len(third) + TOKENS - UNREAD)
        assert len(four) == 3
        fifth = fourth + four + text(20, 60)
        five = check(chat.ask(fifth), len(fourth) + 3 - UNREAD)

        check(chat.ask(text(150, 70), "other"), 0)

        check(chat.ask(fifth + five + text(20, 80)), len(fifth) + TOKENS - UNREAD)

        # Before every restore point.
        check(chat.ask(first[:100] + text(30, 85)), 100 if anywhere else 0)


@pytest.mark.model
def test_a_window_that_has_gone_on_is_restored_from_memory_and_from_disk(
    tmp_path: Path, window_model: Path
) -> None:
    """Turns that are longer than the window of a real model, without a chat template."""
    greedy_few = {"sampling": SamplingOverrides(temperature=0.0), "max_tokens": TOKENS}
    kept = LoadOptions(
        ctx=4096, canonical=False, self_tune=False, cache_folder=str(tmp_path / "cache")
    )
    client = EngineClient(tmp_path / "engine.log")
    try:
        tokenizer = client.load(str(window_model), kept).tokenizer
        turns: list[ChatMessage] = []
        read = 0
        for number in range(4):
            turns.append(user(" ".join(f"{number} times {i} is {number * i}," for i in range(75))))
            result = ask_client(client, *turns, **greedy_few)
            usage = result.usage
            assert usage.prompt_tokens - read > WINDOW
            assert usage.reused_tokens + usage.restored_tokens == read
            assert usage.computed_tokens == usage.prompt_tokens - read
            assert (usage.restored_tokens > 0) is (number in (2, 3))
            read = usage.prompt_tokens + TOKENS - UNREAD
            turns.append(said(result, tokenizer))
            if number == 1:
                other = ask_client(client, "Something else.", conversation="other", **greedy_few)
                assert other.usage.computed_tokens == other.usage.prompt_tokens
            if number == 2:
                client.close()
                client.load(str(window_model), kept)
        client.close()
        client.load(str(window_model), replace(kept, cache_folder=None))
        alone = ask_client(client, *turns[:-1], **greedy_few)
        assert alone.usage.computed_tokens == alone.usage.prompt_tokens
        assert alone.token_ids == result.token_ids
    finally:
        client.close()
