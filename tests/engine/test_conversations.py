"""Laws of conversations through client, worker and engine: what is known is not computed again.

Each law holds on the scripted model, and on a real one where numbers matter.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.client import EngineClient
from engine.events import Delta, PromptProgress, Result
from engine.messages import ChatMessage, LoadOptions, SamplingOverrides
from engine.request import Priority
from models.tokenizers.gguf_vocab import GGUFTokenizer
from tests.engine.client_support import (
    MODEL,
    ask,
    failed,
    finished,
    question,
    said,
    scripted_client,
    until,
    user,
)
from tests.patience import PATIENCE_S

GREEDY = SamplingOverrides(temperature=0.0)
LONG = "Write a long story about a fox who lives near the sea."


class Person:
    """Somebody with one client on one model; `min_recompute` tokens are computed at least."""

    def __init__(self, folder: Path, starter: Path | None) -> None:
        self.folder = folder
        self.path = MODEL if starter is None else str(starter)
        self.min_recompute = 1 if starter is None else 2
        self.options = LoadOptions(cache_folder=str(folder / "cache"), self_tune=False)
        self._make: Callable[[], EngineClient] = (
            (lambda: scripted_client(folder))
            if starter is None
            else (lambda: EngineClient(folder / "engine.log"))
        )
        self.client = self.start()

    def start(self) -> EngineClient:
        client = self._make()
        client.load(self.path, self.options)
        return client

    def restart(self) -> None:
        self.client.close(PATIENCE_S)
        self.client = self.start()

    def ask(self, *messages: ChatMessage | str, **fields: object) -> Result:
        fields = {"sampling": GREEDY, "max_tokens": 24, **fields}
        return ask(self.client, *messages, **fields)

    def said(self, result: Result) -> ChatMessage:
        assert self.client.loaded is not None
        return said(result, self.client.loaded.tokenizer)

    def rest(self) -> None:
        """Until the idle work is done: what comes later and is no more urgent waits for it. The
        first question may come before the worker knows what there is to do.
        """
        for _ in range(2):
            self.ask("Hi", conversation="", priority=Priority.BACKGROUND, max_tokens=1)


@pytest.fixture(
    params=["scripted", pytest.param("starter", marks=pytest.mark.model)],
)
def person(request: pytest.FixtureRequest, tmp_path: Path, starter_model: Path) -> Iterator[Person]:
    person = Person(tmp_path, None if request.param == "scripted" else starter_model)
    yield person
    person.client.close()


def test_a_second_turn_computes_only_what_is_new(person: Person) -> None:
    first = person.ask("What is the capital of France?")
    person.rest()
    history = (user("What is the capital of France?"), person.said(first))
    second = person.ask(*history, "And of Italy?")
    new = person.client.count("And of Italy?", PATIENCE_S)
    assert new is not None
    usage = second.usage
    assert (
        usage.prompt_tokens == usage.reused_tokens + usage.restored_tokens + usage.computed_tokens
    )
    found = usage.reused_tokens + usage.restored_tokens
    assert found > first.usage.prompt_tokens + first.usage.completion_tokens - 1
    # beside the new text only the template's words around it: those up to the history are known
    assert usage.computed_tokens <= new + TEMPLATE_WORDS
    assert second.reuse_break is None


TEMPLATE_WORDS = 30
"""Most tokens of a template around one question: bytes are tokens in the scripted model."""


def test_a_second_turn_at_once_reuses_too(person: Person) -> None:
    """The rewriting of the history has to give way."""
    first = person.ask("What is the capital of France?")
    second = person.ask(user("What is the capital of France?"), person.said(first), "And of Italy?")
    assert second.usage.computed_tokens < second.usage.prompt_tokens / 2


def test_a_title_disturbs_nothing(person: Person) -> None:
    first = person.ask("What is the capital of France?")
    history = (user("What is the capital of France?"), person.said(first))
    person.rest()
    title = person.ask(*history, kind="title")
    assert "\n" not in title.text
    assert len(title.token_ids) <= 12
    assert title.usage.computed_tokens < title.usage.prompt_tokens
    second = person.ask(*history, "And of Italy?")
    new = person.client.count("And of Italy?", PATIENCE_S)
    assert new is not None
    assert second.usage.computed_tokens <= new + TEMPLATE_WORDS


def test_a_question_while_the_title_is_made_comes_first(person: Person) -> None:
    first = person.ask("repeat 9 abc")
    history = (user("repeat 9 abc"), person.said(first))
    title = person.client.submit(question(*history, kind="title"))
    assert person.ask(*history, "And of Italy?").token_ids
    assert len(finished(title).token_ids) <= 12


def test_a_cut_answer_goes_on_without_computing_anything_again(person: Person) -> None:
    text = "repeat 9 abcdefghij" if person.path == MODEL else LONG
    whole = person.ask(text, max_tokens=20, conversation="whole")
    cut = person.ask(text, stop_after=8)
    assert cut.finish_reason == "cancelled"
    rest = person.ask(text, person.said(cut), kind="continue", max_tokens=12)
    assert rest.usage.computed_tokens <= person.min_recompute
    if person.path == MODEL:  # a script knows no beginning of an answer
        return
    assert cut.token_ids + rest.token_ids == whole.token_ids
    assert cut.text + rest.text == whole.text


def test_going_on_still_costs_nothing_after_idle_work(person: Person) -> None:
    text = "repeat 9 abcdefghij" if person.path == MODEL else LONG
    cut = person.ask(text, stop_after=8)
    person.rest()
    rest = person.ask(text, person.said(cut), kind="continue", max_tokens=4)
    assert rest.usage.computed_tokens <= person.min_recompute


def test_the_same_question_at_temperature_zero_gets_the_same_ids(person: Person) -> None:
    first = person.ask("What is the capital of France?")
    again = person.ask("What is the capital of France?")
    other = person.ask("What is the capital of France?", conversation="other")
    assert first.token_ids == again.token_ids == other.token_ids
    assert again.usage.computed_tokens <= person.min_recompute


@pytest.mark.parametrize("conversation", ["chat", "other"])
def test_equal_questions_at_once_are_read_once(person: Person, conversation: str) -> None:
    text = "What is the capital of France, and how did it come to be that?"
    asked = {"sampling": GREEDY, "max_tokens": 24}
    first = person.client.submit(question(text, conversation="chat", **asked))
    second = person.client.submit(question(text, conversation=conversation, **asked))
    assert len(finished(first).token_ids) == 24
    usage = finished(second).usage
    assert usage.computed_tokens == person.min_recompute


def test_a_conversation_goes_on_after_a_restart(person: Person) -> None:
    first = person.ask("What is the capital of France?")
    history = (user("What is the capital of France?"), person.said(first))
    person.rest()
    person.restart()
    second = person.ask(*history, "And of Italy?")
    assert second.usage.restored_tokens >= first.usage.prompt_tokens
    assert second.usage.reused_tokens == 0
    assert second.usage.computed_tokens < first.usage.prompt_tokens + 30


def test_a_restart_changes_no_answer(person: Person) -> None:
    first = person.ask("What is the capital of France?")
    history = (user("What is the capital of France?"), person.said(first))
    person.rest()
    warm = person.ask(*history, "And of Italy?", conversation="chat")
    cold = person.ask(*history, "And of Italy?", conversation="")
    person.restart()
    restored = person.ask(*history, "And of Italy?", conversation="chat")
    assert warm.token_ids == cold.token_ids == restored.token_ids


def test_a_dropped_conversation_leaves_no_file(person: Person) -> None:
    cache = person.folder / "cache"
    first = person.ask("What is the capital of France?")
    person.restart()
    assert len(list(cache.glob("*.state"))) == 1
    assert person.client.drop("chat")
    assert list(cache.iterdir()) == []
    again = person.ask("What is the capital of France?")
    assert again.usage.computed_tokens == first.usage.prompt_tokens
    person.client.close()
    assert person.client.drop("chat")
    assert list(cache.iterdir()) == []


def test_a_private_conversation_is_never_written(person: Person) -> None:
    person.ask("What is the capital of France?", conversation="private-1")
    person.client.close()
    cache = person.folder / "cache"
    assert not cache.exists() or list(cache.iterdir()) == []


@pytest.mark.model
def test_an_answer_cut_inside_a_character_goes_on_with_it(
    tmp_path: Path, starter_model: Path
) -> None:
    """Each token is asked for by itself, going on from the one before."""
    tokenizer = GGUFTokenizer(starter_model)
    ids = tokenizer.encode("a🔥")
    fingerprint = tokenizer.fingerprint
    tokenizer.close()
    client = EngineClient(tmp_path / "engine.log")
    client.load(str(starter_model), LoadOptions(self_tune=False))
    answer = ChatMessage("assistant", "", "", (), fingerprint)
    for token_id in ids:
        wanted = SamplingOverrides(temperature=0.0, logit_bias=((token_id, 1000.0),))
        kind = "continue" if answer.ids else "answer"
        messages = (user("hi"), answer) if answer.ids else (user("hi"),)
        rest = ask(client, *messages, kind=kind, sampling=wanted, max_tokens=1)
        answer = replace(
            answer, content=answer.content + rest.text, ids=answer.ids + rest.token_ids
        )
    client.close()
    assert len(ids) > 2
    assert (answer.ids, answer.content) == (ids, "a🔥")


@pytest.mark.model
@pytest.mark.skipif(sys.platform != "linux", reason="the file system takes Unicode names only")
def test_a_real_model_whose_name_is_no_text_answers(tmp_path: Path, starter_model: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.gguf")
    path.symlink_to(starter_model)
    client = EngineClient(tmp_path / "engine.log")
    loaded = client.load(str(path), LoadOptions(cache_folder=str(tmp_path / path.stem)))
    assert (loaded.name, loaded.path) == ("\\xff.gguf", str(path))
    assert ask(client, "hi", max_tokens=2).token_ids
    client.close()
    assert list((tmp_path / path.stem).glob("*.state"))


@pytest.mark.model
def test_a_model_that_does_not_fit_is_refused_with_numbers(
    tmp_path: Path, starter_model: Path
) -> None:
    from engine.errors import OutOfMemory

    client = EngineClient(tmp_path / "log")
    with pytest.raises(OutOfMemory, match=r"GB.*free"):
        client.load(str(starter_model), LoadOptions(ctx=16_000_000))
    client.close()


WATCHED = """
import runpy, sys
sys.addaudithook(
    lambda event, _: event.startswith("socket.") and print("socket event", event, flush=True)
)
print("watching", flush=True)
runpy.run_module("engine.worker", run_name="__main__", alter_sys=True)
"""


@pytest.mark.model
def test_the_worker_with_a_real_model_opens_no_socket(tmp_path: Path, starter_model: Path) -> None:
    log = tmp_path / "engine.log"
    client = EngineClient(log, [sys.executable, "-P", "-c", WATCHED])
    client.load(str(starter_model), LoadOptions(cache_folder=str(tmp_path / "cache")))
    ask(client, "hi", max_tokens=2)
    client.close()
    assert "watching" in log.read_text()
    assert "socket event" not in log.read_text()


@pytest.mark.model
def test_a_killed_worker_with_a_real_model_costs_one_answer(
    tmp_path: Path, starter_model: Path
) -> None:
    client = EngineClient(tmp_path / "engine.log")
    client.load(str(starter_model))
    events = client.submit(question(LONG, max_tokens=400))
    until(events, Delta)
    assert client.pid is not None
    os.kill(client.pid, signal.SIGKILL)
    assert "SIGKILL" in failed(events).cause.text
    assert ask(client, "hi", max_tokens=2).token_ids
    client.close()


@pytest.mark.model
def test_cancel_acts_within_a_second_while_a_real_prompt_is_read(
    tmp_path: Path, starter_model: Path
) -> None:
    client = EngineClient(tmp_path / "engine.log")
    client.load(str(starter_model))
    running = question("one two three four five six seven eight nine ten " * 500)
    events = client.submit(running)
    until(events, PromptProgress)
    client.cancel(running.request_id)
    result = finished(events)
    assert (result.finish_reason, result.token_ids) == ("cancelled", ())
    assert result.usage.prompt_tokens < 5000
    assert ask(client, "hi", max_tokens=2).token_ids
    client.close()
