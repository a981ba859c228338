"""The sequences in a context: where they lie, how long they are, and what they can be cut to.

Grows and tidies the context. Knows no rows and no scores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from engine.backends.base import Parked
from engine.backends.llama_cpp import states
from engine.backends.llama_cpp.cells import GROUP, Cells
from engine.backends.llama_cpp.context import PARTIAL, Context, ContextRefused, ContextShape
from engine.backends.llama_cpp.model import LoadedModel
from engine.backends.llama_cpp.settings import FORK_CELLS, ContextSettings
from engine.errors import OutOfRoom

MakeContext = Callable[[ContextShape], Context]

# Restore points kept for one sequence; the oldest go. One of Gemma 3 270M takes 8 MB.
MAX_POINTS = 8


@dataclass(slots=True)
class _Sequence:
    length: int = 0
    points: dict[int, bytes] = field(default_factory=dict)
    """Restore points by length: the state of the sliding-window or recurrent layers."""


class Pool:
    def __init__(
        self, model: LoadedModel, make: MakeContext, shape: ContextShape, settings: ContextSettings
    ) -> None:
        """`settings`: what the context may grow to. Raises ContextRefused."""
        self.limit = most_cells(settings)
        self.max_sequences = settings.max_sequences
        self._most_points_bytes = settings.points_bytes
        self._model = model
        self._make = make
        self.context = make(shape)
        self.cells = Cells(self.context.n_ctx)
        self._sequences: dict[int, _Sequence] = {}
        self._tidied = False
        """Nothing was computed since the sequences were put together."""

    # ---- what is there

    def length(self, sequence: int) -> int:
        held = self._sequences.get(sequence)
        return held.length if held else 0

    @property
    def free(self) -> int:
        """Tokens that fit now, growth included."""
        return self.limit - self.cells.used

    @property
    def points_bytes(self) -> int:
        """Bytes of the restore points; forks share theirs."""
        blobs = {
            id(blob): len(blob)
            for held in self._sequences.values()
            for blob in held.points.values()
        }
        return sum(blobs.values())

    @property
    def signature(self) -> bytes:
        """What a parked state must match besides the model: llama.cpp does not check it all."""
        shape = self.context.shape
        facts = (self._model.weights_bytes, self._model.vocab_size, self._model.trained_context)
        text = repr((facts, shape.type_k, shape.type_v, shape.flash))
        return hashlib.blake2b(text.encode(), digest_size=16).digest()

    def state_bytes(self, sequence: int) -> int:
        """Bytes of a live sequence's state in the layers that keep every token."""
        whole = self.context.state_size(sequence)
        return (
            whole if self._model.rolls_back else whole - self.context.state_size(sequence, PARTIAL)
        )

    def positions(self, sequence: int) -> tuple[int, ...] | None:
        """Lengths that a live sequence can be cut to, ascending; None: any."""
        held = self._sequences.get(sequence, _Sequence())
        if self._model.rolls_back or not held.length:
            return None
        first = self.context.first_position(sequence)
        return self._positions(held.length, held.points, first)

    # ---- changes by the engine

    def advance(self, sequence: int, count: int) -> None:
        """Tokens were computed."""
        self._tidied = False
        held = self._sequences.get(sequence)
        if held is None:
            held = self._sequences[sequence] = _Sequence()
        held.length += count
        micro = self.context.n_ubatch
        for done in range(0, count, micro):
            self.cells.append(sequence, min(micro, count - done))

    def fork(self, source: int, target: int, length: int) -> int:
        """Returns the length that `target` really holds."""
        self.drop(target)
        held = self._sequences.get(source)
        if held is None or length <= 0:
            return 0
        self._fit(0, max(source, target) + 1)
        if self._model.rolls_back:
            length = min(length, held.length)
            self.context.share(source, target, length)
        else:
            self.context.share(source, target, -1)
        self.cells.share(source, target, held.length)
        self._sequences[target] = _Sequence(held.length, dict(held.points))
        if self._model.rolls_back:
            self._cut(target, length)
            return length
        return self.truncate(target, length)

    def truncate(self, sequence: int, length: int) -> int:
        """Cut to `length`, or to the best restore point below, or to nothing; returns the length
        kept.
        """
        held = self._sequences.get(sequence)
        if held is None or length >= held.length:
            return held.length if held else 0
        if length > 0 and self._can_cut(sequence, length):
            self.context.remove(sequence, length)
            self._cut(sequence, length)
            return length
        best = max((at for at in held.points if at <= length), default=0)
        if best and self._go_back(sequence, best, held.points[best]):
            self._cut(sequence, best)
            return best
        self.drop(sequence)
        return 0

    def mark(self, sequence: int) -> None:
        held = self._sequences.get(sequence)
        if held is None or self._model.rolls_back or held.length in held.points:
            return
        size = self.context.state_size(sequence, PARTIAL)
        while held.points and (len(held.points) >= MAX_POINTS or not self._has_room_for(size)):
            del held.points[min(held.points)]
        if not self._has_room_for(size):
            return
        blob = bytes(size)
        self.context.write_state(sequence, states.address(blob), size, PARTIAL)
        held.points[held.length] = blob

    def _has_room_for(self, point_bytes: int) -> bool:
        return self.points_bytes + point_bytes <= self._most_points_bytes

    def drop(self, sequence: int) -> None:
        if self._sequences.pop(sequence, None) is not None:
            self.context.remove(sequence, 0)
            self.cells.cut(sequence, 0)

    def park(self, sequence: int) -> Parked:
        held = self._sequences[sequence]
        data = self._save(sequence, held.points)
        positions = None
        if not self._model.rolls_back:
            # Cells outside the window are not saved.
            kept = max(self.context.first_position(sequence), held.length - self._model.window)
            positions = self._positions(held.length, held.points, kept)
        parked = Parked(data, held.length, positions)
        self.drop(sequence)
        return parked

    def restore(self, parked: Parked, sequence: int, length: int) -> int:
        """Returns the length kept; 0 for a state of another model, of other settings, or a damaged
        one.
        """
        if self.length(sequence):
            raise ValueError(f"sequence {sequence} is not empty")
        envelope = states.read_envelope(parked.data, self.signature)
        if envelope is None or length <= 0 or not 0 < envelope.length <= self.limit:
            return 0
        self._fit(envelope.length, sequence + 1)
        if not self._load(sequence, parked.data, envelope):
            return 0
        points = {
            at: parked.data[part.offset : part.offset + part.size]
            for at, part in envelope.points.items()
        }
        self._sequences[sequence] = _Sequence(envelope.length, points)
        return self.truncate(sequence, length)

    def recover(self, sequence: int, start: int, count: int) -> None:
        """After a call that ended early: keep what is completely written of `count` tokens from
        `start`.
        """
        if self._model.recurrent or self._model.hybrid:
            # The running state may be half written: only a restore point is known to be whole.
            self._restore_whole(sequence)
            return
        reached = self.context.last_position(sequence) + 1
        length = max(start, min(reached, start + count))
        self.context.remove(sequence, length)
        if length > start:
            self.advance(sequence, length - start)

    # ---- room

    def prepare(self, tokens: int, sequences: int) -> None:
        """Make room for `tokens` more and for that many sequence numbers; raises OutOfRoom, nothing
        changed.
        """
        self._fit(tokens, sequences)
        if self._wants_tidying():
            self._tidy()

    def find_room(self, tokens: int) -> bool:
        """llama.cpp found no cells although some are free: put the sequences together, or grow.

        Happens where forks of a sliding-window model share cells that neither can give up.
        """
        needed = self._total() + tokens
        if needed > self.limit:
            return False
        if needed <= self.context.n_ctx and not self._tidied:
            self._tidy()
            return True
        size = max(needed, 2 * self.context.n_ctx)
        if self.context.n_ctx >= self.limit:
            return False
        self._rebuild(min(size + -size % 256, self.limit), self.context.shape.n_sequences)
        return True

    def _tidy(self) -> None:
        """Put every sequence together at the start of the context, the longest first."""
        saved = self._save_all()
        self.context.clear()
        self.cells.clear()
        self._load_all(saved)
        self._tidied = True

    def change(self, shape: ContextShape) -> bool:
        """Use another shape; whether the sequences survived it: states of other KV types or another
        flash attention do not fit. Raises ContextRefused, nothing changed.
        """
        saved = self._save_all()
        before, old = self.signature, self.context.shape
        try:
            self._replace(shape)
        except ContextRefused:
            self._replace(old)
            self._load_all(saved)
            raise
        if self.signature == before:
            self._load_all(saved)
            return True
        self._sequences.clear()
        return not saved

    def close(self) -> None:
        self.context.close()
        self._sequences.clear()

    def _fit(self, tokens: int, sequences: int) -> None:
        if tokens > self.free:
            raise OutOfRoom
        if sequences > self.max_sequences:
            raise ValueError(f"{sequences} sequences, more than {self.max_sequences}")
        slots = self.context.shape.n_sequences
        if self.cells.used + tokens <= self.context.n_ctx and sequences <= slots:
            return
        needed = self.cells.used + tokens
        if needed > self.context.n_ctx or self._total() > self.context.n_ctx:
            # States hold no sharing: each sequence needs its own cells after the move.
            needed = self._total() + tokens
        if needed > self.limit:
            raise OutOfRoom
        size = _doubled(self.context.n_ctx, needed, self.limit)
        self._rebuild(size, _doubled(slots, sequences, self.max_sequences))

    def _total(self) -> int:
        return sum(held.length for held in self._sequences.values())

    def _wants_tidying(self) -> bool:
        if len(self._sequences) == 1 and self._model.rolls_back:
            return not self.cells.in_order(next(iter(self._sequences)))
        total = self._total()  # without sharing, as they would lie afterwards
        return self.cells.is_scattered() and total + GROUP < self.cells.highest

    def _rebuild(self, n_ctx: int, slots: int) -> None:
        shape = self.context.shape
        saved = self._save_all()
        try:
            self._replace(replace(shape, n_ctx=n_ctx, n_sequences=slots))
        except ContextRefused:
            self._replace(shape)
            self._load_all(saved)
            raise OutOfRoom from None
        self._load_all(saved)

    def _replace(self, shape: ContextShape) -> None:
        """The old context goes first: both together may not fit into memory."""
        self.context.close()
        self.context = self._make(shape)
        self.cells = Cells(self.context.n_ctx)

    # ---- states

    def _save(self, sequence: int, points: Mapping[int, bytes]) -> bytes:
        size = self.context.state_size(sequence)
        data, offset = states.new_envelope(self.signature, self.length(sequence), size, points)
        self.context.write_state(sequence, states.address(data, offset), size)
        return data

    def _save_all(self) -> dict[int, bytes]:
        """The states by sequence, the longest first; restore points stay where they are."""
        order = sorted(self._sequences, key=self.length, reverse=True)
        return {sequence: self._save(sequence, {}) for sequence in order}

    def _load_all(self, saved: Mapping[int, bytes]) -> None:
        for sequence, data in saved.items():
            envelope = states.read_envelope(data, self.signature)
            if envelope is None or not self._load(sequence, data, envelope):
                raise RuntimeError(f"the state of sequence {sequence} did not come back")

    def _load(self, sequence: int, data: bytes, envelope: states.Envelope) -> bool:
        state = envelope.state
        if (
            not self.context.read_state(sequence, states.address(data, state.offset), state.size)
            or self.context.last_position(sequence) != envelope.length - 1
        ):
            self.context.remove(sequence, 0)
            return False
        self.cells.append(sequence, envelope.length)
        return True

    def _can_cut(self, sequence: int, length: int) -> bool:
        model = self._model
        if model.recurrent or model.hybrid:
            return False
        if not model.window:
            return True
        return _window_is_there(self.context.first_position(sequence), length, model.window)

    def _go_back(self, sequence: int, length: int, point: bytes) -> bool:
        address = states.address(point)
        return self.context.read_state(
            sequence, address, len(point), PARTIAL
        ) and self.context.remove(sequence, length)

    def _restore_whole(self, sequence: int) -> None:
        held = self._sequences.get(sequence)
        if held is None:
            self.context.remove(sequence, 0)
        else:
            self.truncate(sequence, held.length - 1)

    def _cut(self, sequence: int, length: int) -> None:
        held = self._sequences[sequence]
        held.length = length
        held.points = {at: blob for at, blob in held.points.items() if at <= length}
        self.cells.cut(sequence, length)

    def _positions(
        self, length: int, points: Mapping[int, bytes], first: int
    ) -> tuple[int, ...] | None:
        places = {at for at in points if at <= length} | {length}
        window = self._model.window
        if window and not (self._model.recurrent or self._model.hybrid):
            lowest = 1 if first <= 0 else first + window - 1
            if lowest == 1:
                return None
            places.update(range(lowest, length))
        return tuple(sorted(places))


def most_cells(settings: ContextSettings) -> int:
    """What the context may grow to; llama.cpp rounds up too."""
    limit = settings.context + FORK_CELLS
    return limit + -limit % 256


def _window_is_there(first: int, length: int, window: int) -> bool:
    """Whether every cell that the token at position `length` looks at is still held."""
    return first <= max(0, length - window + 1)


def _doubled(now: int, needed: int, limit: int) -> int:
    while now < needed:
        now *= 2
    return min(now, limit)
