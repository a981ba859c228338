"""Laws of the pipe: what is sent is what arrives, and nothing else gets through."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import messages
from engine.events import Result, ReuseBreak, Timings, Usage
from engine.messages import (
    PROTOCOL,
    Cancel,
    ChatMessage,
    Close,
    Count,
    Delta,
    ErrorInfo,
    Failed,
    Finished,
    Hello,
    Load,
    LoadOptions,
    SamplingOverrides,
    Submit,
)
from engine.pipe import PipeError, Receiver, Sender, check_hello, decode, encode
from engine.request import Priority

_RESULT = Result(
    text="a\0b\x1b[0m",
    reasoning="",
    token_ids=(1, 2),
    finish_reason="stop",
    seed=2**63,
    kv_type="f16",
    usage=Usage(5, 1, 2, 2, 2),
    timings=Timings(decode_tokens_per_s=3.5),
    reuse_break=ReuseBreak(3, 1, 2, "message 1 (user)"),
    notices=("left out 2 oldest turns",),
    prompt_ids=tuple(range(5)),
)
_MESSAGES = (
    Hello(PROTOCOL, 12),
    Load("/m.gguf", LoadOptions(kv_type="q8", ctx=512, ignore_memory=True)),
    Submit(
        "r1",
        "chat 1",
        (ChatMessage("system", "be kind"), ChatMessage("assistant", "no", "why", (3, 4), "t")),
        kind="continue",
        sampling=SamplingOverrides(temperature=0.0, logit_bias=((5, -1.0),)),
        stop=("\n\n",),
        priority=Priority.BACKGROUND,
    ),
    Cancel("r1"),
    Close(),
    Delta("r1", (7,), "ü", "\u2028"),
    Finished("r1", _RESULT),
    Failed(None, ErrorInfo("failed", "The engine stopped."), _RESULT),
)


@pytest.mark.parametrize("message", _MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_equal(message: messages.ToWorker) -> None:
    assert decode(encode(message)) == message


@given(st.text(), st.text(st.characters(categories=["Cs"]), max_size=3))
def test_any_text_comes_back_equal(text: str, halves: str) -> None:
    assert decode(encode(Count("1", text))) == Count("1", text)
    load = Load(halves + text, LoadOptions(cache_folder=text + halves))
    assert decode(encode(load)) == load


def test_the_name_of_any_file_comes_back_equal() -> None:
    name = os.fsdecode(b"/models/\xff\xc3\xa9.gguf")
    for message in (Load(name), Failed("r1", ErrorInfo("model", name), _RESULT)):
        assert decode(encode(message)) == message


@dataclass(frozen=True)
class Stranger:
    request_id: str


@dataclass(frozen=True)
class Impostor:
    request_id: str


def test_only_messages_of_the_protocol_are_sent() -> None:
    Impostor.__name__ = "Cancel"
    strangers: tuple[Any, ...] = (Stranger("r1"), Impostor("r1"))
    for wrong in strangers:
        with pytest.raises(PipeError):
            encode(wrong)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        pickle.dumps(Cancel("r1")),
        msgspec.msgpack.encode(["Stranger", {}]),
        msgspec.msgpack.encode(["Cancel", {}]),
        msgspec.msgpack.encode(["Cancel", {"request_id": 7}]),
        msgspec.msgpack.encode(["Cancel", {"request_id": b"\xff"}]),
        msgspec.msgpack.encode({"Cancel": {"request_id": "r1"}}),
    ],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(PipeError):
        decode(data)


def test_another_protocol_number_is_refused_by_both_numbers() -> None:
    with pytest.raises(PipeError, match=rf"{PROTOCOL + 1}.*{PROTOCOL}"):
        check_hello(Hello(PROTOCOL + 1, 1))
    with pytest.raises(PipeError, match="Close"):
        check_hello(Close())


def test_the_end_of_the_other_side_ends_receiving_after_all_messages() -> None:
    reading, writing = multiprocessing.Pipe(duplex=False)
    sender, receiver = Sender(writing), Receiver(reading)
    for message in _MESSAGES:
        sender.send(message)
    sender.close()
    assert tuple(receiver.receive() for _ in _MESSAGES) == _MESSAGES
    with pytest.raises(EOFError):
        receiver.receive()
    receiver.close()
    with pytest.raises(EOFError):
        receiver.receive()
