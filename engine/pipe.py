"""Messages as bytes and back: MessagePack of `[type name, fields]`.

Knows the dataclasses of `engine/messages.py` and nothing else: a name that is not in its table is
an error, and nothing is unpickled. A text that is no UTF-8, as the name of a file may be, travels
as bytes and arrives equal. Two one-way pipes connect the processes; neither is a socket.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, cast, get_args

import msgspec

from engine.errors import LocalchatError
from engine.messages import PROTOCOL, FromWorker, Hello, ToWorker

_TYPES: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (*get_args(ToWorker), *get_args(FromWorker))
}
_DECODERS = {name: msgspec.msgpack.Decoder(kind) for name, kind in _TYPES.items()}
_ENVELOPE = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])
_ENCODER = msgspec.msgpack.Encoder()


class PipeError(LocalchatError):
    """Bytes that are no message of this protocol."""


def encode(message: ToWorker | FromWorker) -> bytes:
    """Raises PipeError for what is no message."""
    name = type(message).__name__
    if _TYPES.get(name) is not type(message):
        raise PipeError("Not a message.", f"{name} has no place in the protocol.")
    try:
        return _ENCODER.encode((name, message))
    except UnicodeEncodeError:
        return _ENCODER.encode((name, _halves_as_bytes(msgspec.to_builtins(message))))


def decode(data: bytes) -> ToWorker | FromWorker:
    """The message of these bytes. Raises PipeError naming what is wrong."""
    try:
        name, fields = _ENVELOPE.decode(data)
    except msgspec.DecodeError as error:
        raise PipeError("Unreadable message.", f"{len(data)} bytes: {error}.") from error
    decoder = _DECODERS.get(name)
    if decoder is None:
        raise PipeError("Unknown message.", f"{name!r} has no place in the protocol.")
    try:
        return cast("ToWorker | FromWorker", _fields(decoder, _TYPES[name], fields))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PipeError("Unreadable message.", f"{name}: {error}.") from error


def _fields(decoder: msgspec.msgpack.Decoder[Any], kind: type[Any], fields: msgspec.Raw) -> Any:
    try:
        return decoder.decode(fields)
    except msgspec.ValidationError:  # perhaps a text came as bytes
        plain = _bytes_as_halves(msgspec.msgpack.decode(fields))
        return msgspec.convert(plain, kind)


def _halves_as_bytes(value: Any) -> Any:
    """Halves of surrogate pairs are what Python makes of bytes that are no text."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogatepass")
    return _each(value, _halves_as_bytes)


def _bytes_as_halves(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogatepass")
    return _each(value, _bytes_as_halves)


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same value with everything in it changed."""
    if isinstance(value, dict):
        return {name: change(field) for name, field in value.items()}
    if isinstance(value, (list, tuple)):
        return [change(item) for item in value]
    return value


def check_hello(message: ToWorker | FromWorker) -> Hello:
    """The first message of a worker. Raises PipeError unless it speaks this protocol."""
    if not isinstance(message, Hello):
        raise PipeError("No greeting.", f"The engine began with {type(message).__name__}.")
    if message.protocol != PROTOCOL:
        raise PipeError(
            "The engine speaks another protocol.",
            f"It has number {message.protocol}, this program has {PROTOCOL}.",
            "Install localchat again: its parts come from different versions.",
        )
    return message


class Sender:
    """The writing end of a pipe; any thread may send."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, message: ToWorker | FromWorker) -> None:
        """Raises OSError when the other process is gone."""
        data = encode(message)
        with self._lock:
            self._connection.send_bytes(data)

    def close(self) -> None:
        self._connection.close()


class Receiver:
    """The reading end of a pipe; one thread reads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def receive(self) -> ToWorker | FromWorker:
        """Blocks. Raises EOFError when the other side is gone, PipeError for what is no message."""
        try:
            return decode(self._connection.recv_bytes())
        except (OSError, TypeError) as error:  # closed under us, or broken in the middle
            raise EOFError from error

    def close(self) -> None:
        self._connection.close()
