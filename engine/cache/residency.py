"""Who lies where: which states are live in the backend under which number, and which are parked.

It knows no request and no conversation; the bytes of a parked state belong to whoever holds the
`State`.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.backends.base import Backend, Parked


@dataclass(slots=True, eq=False)
class State:
    """The KV state of `length` tokens: live under a number, parked as bytes, or nothing at all
    (length 0).
    """

    number: int | None = None
    parked: Parked | None = None
    length: int = 0
    """Tokens whose KV is completely written."""

    @property
    def parked_bytes(self) -> int:
        return 0 if self.parked is None else self.parked.byte_count


class Residency:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._free = list(reversed(range(backend.facts.max_sequences)))
        self._live: dict[int, State] = {}

    @property
    def live(self) -> tuple[State, ...]:
        return tuple(self._live.values())

    @property
    def has_free_number(self) -> bool:
        return bool(self._free)

    @property
    def free_numbers(self) -> tuple[int, ...]:
        return tuple(self._free)

    @property
    def points_bytes(self) -> int:
        """Bytes of the live states' restore points."""
        return self._backend.room().bytes_parked

    def place(self, state: State) -> None:
        """Bring a state into the backend; its length afterwards is what really came back."""
        if state.number is not None:
            return
        parked = state.parked
        number = self._take(state)
        if parked is None:
            return
        state.parked, state.length = None, 0
        try:
            state.length = self._backend.restore(parked, number, parked.length)
        except BaseException:
            self.release(state)
            state.parked, state.length = parked, parked.length
            raise

    def restore_copy(self, parked: Parked, length: int) -> State:
        """A live state of at most `length` tokens; the parked one stays as it is."""
        state = State()
        number = self._take(state)
        try:
            state.length = self._backend.restore(parked, number, length)
        except BaseException:
            self.release(state)
            raise
        return state

    def fork(self, source: State, length: int) -> State:
        """A copy of a live state, cut to at most `length`.

        The whole of it is copied and then cut, because only `truncate` says what is really kept.
        """
        assert source.number is not None
        state = State()
        number = self._take(state)
        self._backend.fork(source.number, number, source.length)
        state.length = source.length
        self.truncate(state, length)
        return state

    def truncate(self, state: State, length: int) -> None:
        if state.length > length:
            assert state.number is not None
            state.length = self._backend.truncate(state.number, length)

    def park(self, state: State) -> None:
        """Take a live state out of the backend; on an error it is gone."""
        if state.number is None:
            return
        if state.length == 0:
            self.release(state)
            return
        try:
            state.parked = self._backend.park(state.number)
        except BaseException:
            self.release(state)
            raise
        self._give_back(state)

    def release(self, state: State) -> None:
        """Forget a state, live or parked."""
        if state.number is not None:
            self._backend.drop(state.number)
            self._give_back(state)
        state.parked, state.length = None, 0

    def _take(self, state: State) -> int:
        state.number = self._free.pop()
        self._live[state.number] = state
        return state.number

    def _give_back(self, state: State) -> None:
        assert state.number is not None
        del self._live[state.number]
        self._free.append(state.number)
        state.number = None
