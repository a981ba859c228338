"""A decoder over a paged KV pool as a backend of the engine: rows in, scores out.

Knows no request, text or template. The books of the blocks are kept apart (`block_tables.py`); here
they meet the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from engine.backends.base import BackendFacts, Parked, Room, Row, Scores
from engine.backends.checks import check_rows, check_sequence
from engine.backends.torch_paged import held as holding
from engine.backends.torch_paged import parked_state
from engine.backends.torch_paged.batch import model_input, score_places
from engine.backends.torch_paged.block_tables import BlockTables
from engine.backends.torch_paged.device import (
    first_line,
    give_back_memory,
    require_alive,
    wait,
)
from engine.backends.torch_paged.download import Download
from engine.backends.torch_paged.held import Held, Run, Span
from engine.backends.torch_paged.interruption import Interruption
from engine.backends.torch_paged.kernel_notices import kernel_notices
from engine.backends.torch_paged.kv_types import kv_format
from engine.backends.torch_paged.parked_state import Books, Bytes
from engine.backends.torch_paged.pass_kinds import all_kinds
from engine.backends.torch_paged.recorded_passes import PassResult, RecordedPasses
from engine.backends.torch_paged.scores import ChosenTensorScores, TensorScores
from engine.backends.torch_paged.self_test import require_q4
from engine.backends.torch_paged.settings import PagedSettings
from engine.backends.torch_paged.sizes import block_counts
from engine.backends.torch_paged.static_input import NO_SLOT
from engine.errors import Interrupted, OutOfMemory, OutOfRoom
from models.candidates import CandidateChooser
from models.config import ModelConfig
from models.decoder import Decoder, PassStopped
from models.errors import LoadingStopped
from models.kv_groups import kv_groups, kv_layouts
from models.kv_storage import (
    KVLayout,
    KVPool,
    copy_blocks,
    make_pools,
    put_blocks,
    take_blocks,
)

MIN_RECOMPUTE = 1
SHORT_PROMPT = 32


class TorchPagedBackend:
    """Implements `Backend`. The decoder stays the caller's; `close` frees the pools.

    Raises UsageError (kv_type), OutOfMemory (not even one sequence fits the budget).
    """

    def __init__(self, decoder: Decoder, config: ModelConfig, settings: PagedSettings) -> None:
        self.settings = settings
        self._decoder = decoder
        self._device = torch.device(settings.device)
        capability = _capability(self._device)
        name = kv_format(settings.kv_type, settings.dtype, capability)
        if name == "q4":
            plain = kv_format("auto", settings.dtype, capability)
            require_q4(decoder, config, plain, settings.test_ids, self._device)
        layouts = kv_layouts(config, name, settings.block)
        self._record_bytes = tuple(layout.record_bytes for layout in layouts)
        spans = [Span(group.window, settings.block) for group in kv_groups(config)]
        counts = block_counts(spans, self._record_bytes, settings)
        self._pools = _allocate(layouts, counts, self._device)
        self._recorded: RecordedPasses | None = None
        rows = settings.max_sequences + settings.spare
        self._chooser = CandidateChooser(decoder.ops, settings.vocab_size, rows, self._device)
        # Beside the candidates of a row, what is known of it and the token behind it.
        self._download = Download(rows, self._chooser.count + 2, self._device)
        self._latest: TensorScores | None = None
        self._tables = BlockTables(spans, counts, settings.max_sequences, settings.spare)
        self.notices = kernel_notices(decoder.missing_kernels(self._pools, settings.vocab_size))
        self._interruption = Interruption()
        self._made_by = parked_state.signature(repr((layouts, spans, decoder.key_rule)))
        self._facts = BackendFacts(
            name="torch_paged",
            vocab_size=settings.vocab_size,
            context=settings.ctx,
            max_rows=settings.max_rows,
            max_sequences=settings.max_sequences,
            min_recompute=MIN_RECOMPUTE,
            # The first group is the one that keeps every token, where there is one.
            kv_bytes_per_token=self._record_bytes[0] / settings.block,
            exact_batching=settings.dtype == "float32",
            numerics=_numerics(self._device, settings, name, decoder.key_rule),
            kv_type=name,
            needs_marks=any(span.window is not None for span in spans),
            idle_is_free=True,
            max_draft=settings.spare,
            # Off a GPU a pass is done when it returns: nothing would run beside it. Where nothing
            # is spare, no row can be taken back.
            max_choice=self._chooser.count if settings.records and settings.spare else 0,
        )

    def warm_up(self, goes_on: Callable[[int, int], bool]) -> None:
        """Run the largest passes once, and record the usual ones: no kernel is compiled and no room
        taken in front of a person who waits. `goes_on` is told how much is done and how much there
        is.

        Raises LoadingStopped where it says no, BackendLost.
        """
        if not self.settings.records:
            return
        try:
            self._recorded = self._record(goes_on)
        except RuntimeError as error:
            # What a driver refuses, or memory that another program took: it goes on without.
            self.require_alive()
            give_back_memory()
            why = first_line(error)
            self.notices += (f"Passes cannot be recorded ({why}): each token takes longer.",)

    def _record(self, goes_on: Callable[[int, int], bool]) -> RecordedPasses | None:
        settings, decoder = self.settings, self._decoder
        kinds = all_kinds(settings.max_sequences, settings.max_rows, settings.spare)
        if self._device.type == "cuda":
            why = decoder.why_not_recorded
            kinds = [one for one in kinds if why(one.tokens, one.new, self._pools) is None]
        if not kinds:
            return None
        largest = self._largest()
        total = len(largest) + len(kinds)
        for done, rows in enumerate(largest):
            if not goes_on(done, total):
                raise LoadingStopped("Loading was stopped.")
            self._run_empty(rows)
        decoder.ops.settle()
        place = settings.ctx, kinds, settings.vocab_size, self._device
        passes = RecordedPasses(decoder, self._pools, self._tables.spans, *place)
        if not passes.record(lambda done, _: goes_on(len(largest) + done, total)):
            raise LoadingStopped("Loading was stopped.")
        return passes

    def _largest(self) -> list[list[Row]]:
        """A prompt beside answers, and drafts; and a short prompt, which beside answers is no
        recorded pass and has tiles of its own.
        """
        settings, count = self.settings, self.settings.max_sequences
        answers = [Row(n, 0, (0,), True) for n in range(count - 1)]
        prompt = Row(count - 1, 0, (0,) * max(settings.max_rows - count + 1, 1), True)
        drafts = (0,) * (1 + settings.spare // count)
        short = Row(0, 0, (0,) * min(SHORT_PROMPT, settings.max_rows), True)
        return [
            [*answers, prompt],
            [Row(n, 0, drafts, True, True) for n in range(count)],
            [short],
        ]

    def _run_empty(self, rows: Sequence[Row]) -> None:
        """A pass that writes nothing, and reads what lies in the sentinel block."""
        spans = self._tables.spans
        runs = [tuple(Run(0, [0] * span.end(len(row.ids))) for span in spans) for row in rows]
        given = model_input(rows, [Held(0, one) for one in runs], spans, self._device)
        slots = tuple(torch.full_like(one, NO_SLOT) for one in given.slots)
        logits = self._decoder.forward(replace(given, slots=slots), self._pools)
        if self._chooser.is_kernel:
            self._chooser.choose(logits)

    # ---- facts

    @property
    def facts(self) -> BackendFacts:
        return self._facts

    @property
    def pool_bytes(self) -> int:
        """Bytes of all pools."""
        allocators = self._tables.allocators
        return sum(
            (allocator.count + 1) * size
            for allocator, size in zip(allocators, self._record_bytes, strict=True)
        )

    def room(self) -> Room:
        used = parked = 0
        for group, (allocator, size) in enumerate(
            zip(self._tables.allocators, self._record_bytes, strict=True)
        ):
            marked = len(self._tables.mark_blocks(group))
            used += (allocator.count - allocator.free - marked) * size
            parked += marked * size
        first = self._tables.allocators[0]
        block = self.settings.block
        return Room(first.free * block, first.count * block, used, parked)

    def length(self, sequence: int) -> int:
        """Tokens that a sequence holds."""
        self._check(sequence)
        return self._tables.length(sequence)

    def validate(self) -> None:
        """Raises AssertionError where the books of the blocks are wrong."""
        self._tables.validate()

    # ---- computing

    def forward(self, rows: Sequence[Row]) -> Scores:
        for row in rows:
            check_sequence(self._facts, row.sequence)
        check_rows(self._facts, rows, [self._tables.length(row.sequence) for row in rows])
        copies = self._tables.reserve({row.sequence: len(row.ids) for row in rows})
        for one in copies:
            copy_blocks(self._pools[one.group], [one.source], [one.target])
        try:
            scores = self._scores(rows, self._run(rows))
            if not any(row.follows for row in rows):
                wait(self._device)
        except BaseException:
            self._tables.take_back(row.sequence for row in rows)
            raise
        for row in rows:
            self._tables.advance(row.sequence, len(row.ids))
        return scores

    def _scores(self, rows: Sequence[Row], found: PassResult) -> TensorScores:
        if isinstance(self._latest, ChosenTensorScores):
            self._latest.overtake()
        logits, places = found.logits[:, : self._facts.vocab_size], score_places(rows)
        wanted = places[-1].stop
        if found.packed is None or not wanted:
            self._latest = TensorScores(logits, places)
            return self._latest
        packed = found.packed[:wanted]
        chosen = () if found.chosen is None else (found.chosen,)
        kind = ChosenTensorScores if chosen else TensorScores
        arrival = self._download.start(packed, *chosen)
        self._latest = kind(logits, places, arrival, self._chooser.count)
        return self._latest

    def _run(self, rows: Sequence[Row]) -> PassResult:
        """Too little memory for what a pass computes is a matter of its size, so that the engine
        tries again with less.
        """
        held = [self._tables.held(row.sequence) for row in rows]
        try:
            replayed = None if self._recorded is None else self._recorded.run(rows, held)
            if replayed is not None:
                return replayed
            if any(row.follows for row in rows):
                raise ValueError("rows follow only a recorded pass")
            given = model_input(rows, held, self._tables.spans, self._device)
            with self._interruption.running():
                logits = self._decoder.forward(given, self._pools, self._interruption.is_set)
            packed = self._chooser.choose(logits) if self._chooser.is_kernel else None
            return PassResult(logits, packed)
        except PassStopped:
            raise Interrupted((0,) * len(rows)) from None
        except torch.OutOfMemoryError:
            give_back_memory()
            raise OutOfRoom from None

    def interrupt(self) -> None:
        self._interruption.interrupt()

    def require_alive(self) -> None:
        require_alive(self._device)

    # ---- sequences

    def fork(self, source: int, target: int, length: int) -> None:
        self._check(source, target)
        if source == target:
            raise ValueError(f"sequence {source} cannot be forked onto itself")
        if length > self._tables.length(source):
            raise ValueError(f"sequence {source} holds {self._tables.length(source)}, not {length}")
        self._tables.fork(source, target, length)

    def truncate(self, sequence: int, length: int) -> int:
        self._check(sequence)
        return self._tables.truncate(sequence, length)

    def mark(self, sequence: int) -> None:
        self._check(sequence)
        if self._facts.needs_marks:
            self._tables.mark(sequence)

    def drop(self, sequence: int) -> None:
        self._check(sequence)
        self._tables.drop(sequence)

    def park(self, sequence: int) -> Parked:
        self._check(sequence)
        if not self._tables.length(sequence):
            raise ValueError(f"sequence {sequence} is empty")
        held = self._tables.held(sequence)
        blocks = [holding.blocks_of(held, group) for group in range(len(self._pools))]
        books = Books(tuple(map(len, blocks)), _numbered(held, blocks))
        data, records = parked_state.new_state(self._made_by, books, self._record_bytes)
        for pool, of_group, out in zip(self._pools, blocks, records, strict=True):
            take_blocks(pool, of_group, out)
        parked = Parked(data, held.length, self._tables.lengths(sequence))
        self._tables.drop(sequence)
        return parked

    def restore(self, parked: Parked, sequence: int, length: int) -> int:
        """0 for a state of another model, of other settings, or a damaged one."""
        self._check(sequence)
        if self._tables.length(sequence):
            raise ValueError(f"sequence {sequence} is not empty")
        state = parked_state.read_state(parked.data, self._made_by, self._record_bytes)
        if state is None or not self._tables.fits(state.books.held):
            return 0
        spans = self._tables.spans
        kept = holding.reachable(state.books.held, spans, min(length, self._facts.context))
        held = holding.cut(state.books.held, spans, kept)
        try:
            self._put(sequence, held, state.records)
        except OutOfRoom:
            if not held.marks:
                raise
            self._put(sequence, Held(held.length, held.runs), state.records)
        return kept

    def _put(self, sequence: int, held: Held, records: Sequence[Bytes]) -> None:
        """Only the records that are needed come back."""
        numbers = [holding.blocks_of(held, group) for group in range(len(self._pools))]
        taken = self._tables.adopt(sequence, list(map(len, numbers)), _numbered(held, numbers))
        for group, pool in enumerate(self._pools):
            picked = [number - 1 for number in numbers[group]]
            put_blocks(pool, taken[group], records[group], picked)

    def close(self) -> None:
        """Frees the pools; the backend cannot be used afterwards."""
        self._pools = ()
        self._recorded = None

    def _check(self, *sequences: int) -> None:
        for sequence in sequences:
            check_sequence(self._facts, sequence)


def _numbered(held: Held, blocks: Sequence[Sequence[int]]) -> Held:
    """With blocks numbered from 1 in the order given for each group."""
    orders = [{block: i for i, block in enumerate(of_group, 1)} for of_group in blocks]
    return holding.renumbered(held, orders)


def _allocate(
    layouts: Sequence[KVLayout], counts: Sequence[int], device: torch.device
) -> tuple[KVPool, ...]:
    try:
        return make_pools(layouts, counts, device)
    except (torch.OutOfMemoryError, RuntimeError) as error:
        raise OutOfMemory(
            "There is no memory for the keys and values.",
            first_line(error),
            "Set a smaller ctx, or close other programs.",
        ) from None


def _capability(device: torch.device) -> tuple[int, int] | None:
    return torch.cuda.get_device_capability(device) if device.type == "cuda" else None


def _numerics(device: torch.device, settings: PagedSettings, kv: str, keys: str) -> str:
    """`keys`: the rule that keys in the pool are turned by, which may depend on the context."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    parts = (
        f"torch {torch.__version__}",
        name,
        settings.dtype,
        f"kv {kv}",
        f"block {settings.block}",
        f"keys {keys}",
        *([f"weights {settings.weights}"] if settings.rounds else []),
        *([f"kernels {settings.kernels}"] if settings.kernels != "auto" else []),
    )
    return "; ".join(parts)
