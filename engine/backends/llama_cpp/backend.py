"""llama.cpp as a backend of the engine: rows in, scores out. Knows no request, text or template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engine.backends.base import BackendFacts, Parked, Room, Row, Scores
from engine.backends.checks import check_rows, check_sequence
from engine.backends.llama_cpp import kv_types, opening
from engine.backends.llama_cpp.context import Context, ContextRefused, ContextShape, build_name
from engine.backends.llama_cpp.interruption import Interruption
from engine.backends.llama_cpp.model import LoadedModel
from engine.backends.llama_cpp.pieces import Piece, calls
from engine.backends.llama_cpp.pool import Pool, most_cells
from engine.backends.llama_cpp.scores import ArrayScores
from engine.backends.llama_cpp.settings import CALL_TOKENS, ContextSettings
from engine.backends.llama_cpp.threads import default_threads
from engine.errors import Interrupted, LocalchatError, OutOfMemory, OutOfRoom

MAX_ROWS = 2048
# All rows of a step with drafts fit into one micro-batch: a window then still holds what the first
# of them looks at, so that cutting back behind it is exact.
MAX_DRAFT = 16
# A micro-batch of two or more tokens takes the same code as any prefill; one of a single token does
# not.
MIN_RECOMPUTE = 2


class LlamaCppBackend:
    """Implements `Backend`. The model stays the caller's; `close` frees the context only.

    Raises UsageError (kv_type), OutOfMemory (no context could be made).
    """

    def __init__(self, model: LoadedModel, settings: ContextSettings) -> None:
        self._model = model
        self.settings = settings
        self.threads = settings.threads or default_threads()
        self._interruption = Interruption()
        # A running state cannot be taken back, so it must not be cut off half written, nor drafted.
        self._aborts = not (model.recurrent or model.hybrid)
        self._most_drafted = MAX_DRAFT if self._aborts else 0
        self._pool, self.choice = self._open(settings)
        self._facts = self._make_facts(self._measure_cell())

    # ---- facts

    @property
    def facts(self) -> BackendFacts:
        return self._facts

    @property
    def flash(self) -> bool:
        return self.choice.flash

    @property
    def notices(self) -> tuple[str, ...]:
        """What is done differently from what was asked."""
        return self.choice.notices

    def room(self) -> Room:
        pool = self._pool
        live = int(pool.cells.used * self._facts.kv_bytes_per_token)
        return Room(pool.free, pool.limit, live, pool.points_bytes)

    def positions(self, sequence: int) -> tuple[int, ...] | None:
        """Lengths that a live sequence can be truncated to, ascending; None: any."""
        check_sequence(self._facts, sequence)
        return self._pool.positions(sequence)

    # ---- computing

    def forward(self, rows: Sequence[Row]) -> Scores:
        for row in rows:
            check_sequence(self._facts, row.sequence)
        check_rows(self._facts, rows, [self._pool.length(row.sequence) for row in rows])
        tokens = sum(len(row.ids) for row in rows)
        self._pool.prepare(tokens, 1 + max(row.sequence for row in rows))
        scores = ArrayScores()
        call_tokens = CALL_TOKENS if self._aborts else self._pool.context.n_ubatch
        with self._interruption.running():
            for pieces in calls(rows, call_tokens, self._pool.context.n_ubatch):
                if self._interruption.is_set:
                    raise Interrupted(self._done(rows))
                self._call(pieces, rows, scores)
        return scores

    def _call(self, pieces: Sequence[Piece], rows: Sequence[Row], scores: ArrayScores) -> None:
        code = self._decode(pieces)
        if code == 1:
            code = self._decode_with_more_room(pieces)
        if code == 0:
            self._commit(pieces, scores)
            return
        if code == 1:
            self._take_back(rows)
            raise OutOfRoom
        if code != -1:
            for piece in pieces:
                self._pool.recover(piece.sequence, piece.start, len(piece.ids))
        if code == 2:
            raise Interrupted(self._done(rows))
        raise _failure(code)

    def _decode(self, pieces: Sequence[Piece]) -> int:
        batch = self._pool.context.batch
        batch.clear()
        for piece in pieces:
            batch.add(piece.sequence, piece.start, piece.ids, piece.wants_scores, piece.wants_all)
        return self._pool.context.decode()

    def _decode_with_more_room(self, pieces: Sequence[Piece]) -> int:
        tokens = sum(len(piece.ids) for piece in pieces)
        code = 1
        while code == 1 and self._pool.find_room(tokens):
            code = self._decode(pieces)
        return code

    def _commit(self, pieces: Sequence[Piece], scores: ArrayScores) -> None:
        end = 0
        for piece in pieces:
            begin, end = end, end + len(piece.ids)
            if piece.wants_scores:
                first = begin if piece.wants_all else end - 1
                places = range(first, end)
                scores.put(piece.row, [self._pool.context.logits(place) for place in places])
        for piece in pieces:
            self._pool.advance(piece.sequence, len(piece.ids))

    def _done(self, rows: Sequence[Row]) -> tuple[int, ...]:
        return tuple(max(0, self._pool.length(row.sequence) - row.start) for row in rows)

    def _take_back(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._pool.truncate(row.sequence, row.start)

    def interrupt(self) -> None:
        self._interruption.interrupt()

    def require_alive(self) -> None:
        """What llama.cpp does not survive ends the process by itself."""

    def set_threads(self, count: int) -> None:
        """Takes effect with the next call; changes the numbers where flash attention is on."""
        self.threads = max(1, count)
        self._pool.context.set_threads(self.threads)

    def retune(self, settings: ContextSettings) -> bool:
        """Use other settings from now on; False if the live sequences had to be dropped for it.

        Raises UsageError or OutOfMemory; nothing is changed then.
        """
        choice = opening.choose(self._model, settings)
        threads = settings.threads or default_threads()
        shape = replace(
            self._pool.context.shape,
            n_ubatch=settings.n_ubatch,
            type_k=choice.kv.type_k,
            type_v=choice.kv.type_v,
            flash=choice.flash,
            threads=threads,
        )
        try:
            kept = self._pool.change(shape)
        except ContextRefused:
            raise opening.no_room() from None
        new_cells = choice.kv != self.choice.kv
        self.settings, self.choice = settings, choice
        self.set_threads(threads)
        size = self._measure_cell() if new_cells else self._facts.kv_bytes_per_token
        self._facts = self._make_facts(size)
        return kept

    # ---- sequences

    def fork(self, source: int, target: int, length: int) -> None:
        self._check(source, target)
        if source == target:
            raise ValueError(f"sequence {source} cannot be forked onto itself")
        if length > self._pool.length(source):
            raise ValueError(f"sequence {source} holds {self._pool.length(source)}, not {length}")
        self._pool.fork(source, target, length)

    def length(self, sequence: int) -> int:
        """Tokens that a sequence holds."""
        self._check(sequence)
        return self._pool.length(sequence)

    def truncate(self, sequence: int, length: int) -> int:
        self._check(sequence)
        return self._pool.truncate(sequence, length)

    def mark(self, sequence: int) -> None:
        self._check(sequence)
        self._pool.mark(sequence)

    def drop(self, sequence: int) -> None:
        self._check(sequence)
        self._pool.drop(sequence)

    def park(self, sequence: int) -> Parked:
        self._check(sequence)
        if not self._pool.length(sequence):
            raise ValueError(f"sequence {sequence} is empty")
        return self._pool.park(sequence)

    def restore(self, parked: Parked, sequence: int, length: int) -> int:
        self._check(sequence)
        return self._pool.restore(parked, sequence, length)

    def close(self) -> None:
        self._pool.close()

    # ---- opening

    def _check(self, *sequences: int) -> None:
        for sequence in sequences:
            check_sequence(self._facts, sequence)

    def _open(self, settings: ContextSettings) -> tuple[Pool, kv_types.KVChoice]:
        start = min(most_cells(settings), max(settings.start_context, 256))
        slots = settings.max_sequences if self._model.rolls_back else min(2, settings.max_sequences)
        shape = ContextShape(
            start,
            slots,
            CALL_TOKENS,
            settings.n_ubatch,
            threads=self.threads,
            drafts=self._most_drafted,
        )

        def make(choice: kv_types.KVChoice) -> Pool:
            wanted = replace(
                shape, type_k=choice.kv.type_k, type_v=choice.kv.type_v, flash=choice.flash
            )
            return Pool(self._model, self._context, wanted, settings)

        return opening.first_accepted(opening.choose(self._model, settings), make)

    def _context(self, shape: ContextShape) -> Context:
        abort: Any = self._interruption.abort_callback() if self._aborts else None
        return Context(self._model, replace(shape, threads=self.threads), abort)

    def _measure_cell(self) -> float:
        """Bytes that one more token takes in layers that keep every token: two tokens less one
        token.
        """
        sizes = []
        for start, wants in ((0, False), (1, False)):
            piece = Piece(0, 0, start, (1 % self._model.vocab_size,), wants)
            if self._decode((piece,)) != 0:
                raise _failure(-3)
            self._pool.advance(0, 1)
            sizes.append(self._pool.state_bytes(0))
        self._pool.drop(0)
        return float(sizes[1] - sizes[0])

    def _make_facts(self, bytes_per_token: float) -> BackendFacts:
        flash, kv = self.choice.flash, self.choice.kv
        numerics = f"{build_name()}; flash {'on' if flash else 'off'}; kv {kv.name}"
        if flash:  # the sum over keys is split by thread
            numerics += f"; threads {self.threads}"
        return BackendFacts(
            name="llama_cpp",
            vocab_size=self._model.vocab_size,
            context=self.settings.context,
            max_rows=MAX_ROWS,
            max_sequences=self.settings.max_sequences,
            min_recompute=MIN_RECOMPUTE,
            kv_bytes_per_token=bytes_per_token,
            exact_batching=False,
            numerics=numerics,
            kv_type=kv.name,
            needs_marks=not self._model.rolls_back,
            max_draft=self._most_drafted,
        )


def _failure(code: int) -> LocalchatError:
    if code == -2:
        return OutOfMemory(
            "Memory ran out while the model was computing.",
            "llama.cpp could not allocate its working memory.",
            "Close other programs, or use a smaller context.",
        )
    return LocalchatError(
        "The model could not compute the next step.",
        f"llama.cpp returned {code}.",
        "Send the message again; the log file has the details.",
    )
