"""What the reading child and its parent say to each other: MessagePack with its length in front.

Knows pipes and nothing of files; nothing is unpickled. Paths travel as the system's bytes.
"""

from __future__ import annotations

from typing import IO, TypeVar

import msgspec

from app.knowledge.document import Document, Unreadable
from app.knowledge.reading.limits import Limits

LENGTH_BYTES = 4
MOST_BYTES = 64 * 1024 * 1024
"""Of one frame: the longest document and its sections, with room to spare."""


class Request(msgspec.Struct, frozen=True):
    """Read this file."""

    path: bytes
    root: bytes | None
    limits: Limits


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of the three: pages done and in all, or the end."""

    progress: tuple[int, int] | None = None
    document: Document | None = None
    unreadable: Unreadable | None = None


Message = TypeVar("Message", Request, Answer)

_REQUESTS = msgspec.msgpack.Decoder(Request)
_ANSWERS = msgspec.msgpack.Decoder(Answer)


class BrokenFrame(Exception):
    """The other side ended, or sent what is no frame."""


class FrameTooLong(Exception):
    """The message is longer than any document needs."""


def write_frame(stream: IO[bytes], message: Request | Answer) -> None:
    """Raises OSError when the other side is gone; FrameTooLong, and nothing was written."""
    data = msgspec.msgpack.encode(message)
    if len(data) > MOST_BYTES:
        raise FrameTooLong
    stream.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)
    stream.flush()


def read_request(stream: IO[bytes]) -> Request:
    """Raises BrokenFrame at the end of the stream."""
    return _decoded(_REQUESTS, _frame(stream))


def read_answer(stream: IO[bytes]) -> Answer:
    """Raises BrokenFrame at the end of the stream, and for what is no answer."""
    return _decoded(_ANSWERS, _frame(stream))


def _frame(stream: IO[bytes]) -> bytes:
    head = stream.read(LENGTH_BYTES)
    length = int.from_bytes(head, "big")
    if len(head) < LENGTH_BYTES or length > MOST_BYTES:
        raise BrokenFrame
    data = stream.read(length)
    if len(data) < length:
        raise BrokenFrame
    return data


def _decoded(decoder: msgspec.msgpack.Decoder[Message], data: bytes) -> Message:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BrokenFrame from error
