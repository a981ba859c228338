"""Chooses flash attention, threads and micro-batch by measuring them on this machine, in idle time.

One choice after the other, each with the best of those before. Trials are short and start anew
after a pause, so that a person who comes back never waits. Knows no conversation.
"""

from __future__ import annotations

import hashlib
import os
import platform
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec

from engine.backends.llama_cpp.context import ContextRefused, build_name
from engine.backends.llama_cpp.kv_types import KVType
from engine.backends.llama_cpp.model import LoadedModel
from engine.backends.llama_cpp.settings import MICRO_BATCH, ContextSettings
from engine.backends.llama_cpp.threads import allowed_cores, default_threads
from engine.backends.llama_cpp.trial import Rates, Setting, Stopped, Trials

MAX_SECONDS = 15.0
DEPTH = 2000
ROUNDS = 3
# Flash attention off is the setting with exact reuse: it wins unless it is clearly slower.
EXACT_WINS_WITHIN = 0.10
# Anything else that is not the default has to be faster by more than the noise of three rounds.
DEFAULT_WINS_WITHIN = 0.03
MICRO_BATCHES = (64, 256)


class Tuned(msgspec.Struct, frozen=True):
    """The result, as it lies in the cache folder."""

    flash: bool
    threads: int
    n_ubatch: int
    turn_s: float
    """A turn of 200 new and 200 written tokens at depth 2,000; 0: nothing could be measured in
    time.
    """

    def apply(self, settings: ContextSettings) -> ContextSettings:
        """Fills in what the person left open."""
        return replace(
            settings,
            flash=self.flash if settings.flash is None else settings.flash,
            threads=self.threads if settings.threads is None else settings.threads,
            n_ubatch=self.n_ubatch,
        )


@dataclass(frozen=True, slots=True)
class TuningKey:
    """A result holds for one model file, processor, build and kv_type."""

    model: str
    """Fingerprint of the file."""
    kv_type: str
    processor: str
    build: str

    @classmethod
    def here(cls, model: str, kv_type: str) -> TuningKey:
        return cls(model, kv_type, f"{_processor()}; {allowed_cores()} cores", build_name())

    def path(self, folder: Path) -> Path:
        name = hashlib.sha256(msgspec.json.encode(asdict(self))).hexdigest()[:32]
        return folder / f"{name}.tuning.json"


class _Stored(msgspec.Struct, frozen=True):
    key: dict[str, str]
    tuned: Tuned


def load_tuned(folder: Path, key: TuningKey) -> Tuned | None:
    """None where there is no result of exactly this key."""
    try:
        stored = msgspec.json.decode(key.path(folder).read_bytes(), type=_Stored)
    except (OSError, msgspec.MsgspecError):
        return None
    sane = stored.tuned.threads >= 1 and stored.tuned.n_ubatch in (MICRO_BATCH, *MICRO_BATCHES)
    return stored.tuned if stored.key == asdict(key) and sane else None


def save_tuned(folder: Path, key: TuningKey, tuned: Tuned) -> None:
    """Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = key.path(folder)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(_Stored(asdict(key), tuned)))
    temporary.replace(path)


Trial = Callable[[Setting, Callable[[], bool]], Rates]
"""One trial of a setting; raises Stopped when told to stop, ContextRefused for an impossible one.
"""


class Tuner:
    """Measures in slices. Finished trials survive a pause; the time of all slices together is
    limited.
    """

    def __init__(
        self,
        trial: Trial,
        start: Setting,
        flash_open: bool,
        thread_counts: Iterable[int] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`start`: what is used untuned; `flash_open`: whether both values are possible."""
        self._trial = trial
        self._start = start
        self._flash_open = flash_open
        self._thread_counts = tuple(thread_counts)
        self._clock = clock
        self._spent = 0.0
        self._rates: dict[Setting, list[Rates]] = {}
        self._refused: set[Setting] = set()

    def run(self, max_seconds: float, should_stop: Callable[[], bool]) -> Tuned | None:
        """Measure until done, stopped or out of time; None: stopped before the end, call it again.

        `max_seconds` limits the sum of all calls.
        """
        begin = self._clock()

        def is_over() -> bool:
            return self._spent + self._clock() - begin >= max_seconds

        try:
            best = self._choose(lambda: should_stop() or is_over())
        except Stopped:
            if not is_over():
                return None
            best = self._choose_from_measured()
        finally:
            self._spent += self._clock() - begin
        return self._result(best)

    def _choose(self, should_stop: Callable[[], bool]) -> Setting:
        best = self._start
        for others, margin in self._choices():
            settings = (best, *others(best))
            self._measure(settings, should_stop)
            best = self._pick(settings, margin)
        return best

    def _choose_from_measured(self) -> Setting:
        best = self._start
        for others, margin in self._choices():
            best = self._pick((best, *others(best)), margin)
        return best

    def _choices(self) -> list[tuple[Callable[[Setting], list[Setting]], float]]:
        return [
            (self._other_flash, EXACT_WINS_WITHIN),
            (self._other_threads, DEFAULT_WINS_WITHIN),
            (self._other_micro_batches, DEFAULT_WINS_WITHIN),
        ]

    def _other_flash(self, best: Setting) -> list[Setting]:
        return [replace(best, flash=not best.flash)] if self._flash_open else []

    def _other_threads(self, best: Setting) -> list[Setting]:
        return [replace(best, threads=n) for n in self._thread_counts if n != best.threads]

    def _other_micro_batches(self, best: Setting) -> list[Setting]:
        return [replace(best, n_ubatch=n) for n in MICRO_BATCHES if n != best.n_ubatch]

    def _measure(self, settings: tuple[Setting, ...], should_stop: Callable[[], bool]) -> None:
        """Interleaved, so that a slow phase of the machine meets all of them."""
        if len(settings) < 2:
            return
        for round_ in range(ROUNDS):
            for setting in settings:
                measured = self._rates.setdefault(setting, [])
                if len(measured) > round_ or setting in self._refused:
                    continue
                try:
                    measured.append(self._trial(setting, should_stop))
                except ContextRefused:
                    self._refused.add(setting)

    def _pick(self, settings: tuple[Setting, ...], margin: float) -> Setting:
        """The fastest; the first one, or flash attention off, unless it is slower by more than
        `margin`.
        """
        measured = {setting: self._turn_s(setting) for setting in settings}
        times = {setting: seconds for setting, seconds in measured.items() if seconds}
        if not times:
            return settings[0]
        fastest = min(times, key=lambda setting: times[setting])
        favourite = min(settings, key=lambda setting: setting.flash)
        if favourite in times and times[favourite] <= times[fastest] * (1 + margin):
            return favourite
        return fastest

    def _turn_s(self, setting: Setting) -> float | None:
        rates = self._rates.get(setting)
        if not rates:
            return None
        best = Rates(min(r.prefill_s for r in rates), min(r.decode_s for r in rates))
        return best.turn_s

    def _result(self, best: Setting) -> Tuned:
        return Tuned(best.flash, best.threads, best.n_ubatch, self._turn_s(best) or 0.0)


def make_tuner(model: LoadedModel, kv: KVType, settings: ContextSettings) -> Tuner:
    """A tuner for what `settings` leaves open."""
    trials = Trials(model, kv)
    threads = settings.threads or default_threads()
    flash = kv.needs_flash or bool(settings.flash)
    return Tuner(
        lambda setting, should_stop: trials.run(setting, DEPTH, should_stop),
        Setting(flash, threads, MICRO_BATCH),
        flash_open=settings.flash is None and not kv.needs_flash and bool(model.head_sizes[0]),
        thread_counts=_thread_counts(threads) if settings.threads is None else (),
    )


def measure(model: LoadedModel, kv: KVType, setting: Setting, depth: int) -> Rates:
    """The faster of two trials of one setting, e.g. for the other kv_types' figures. Raises
    ContextRefused.
    """
    trials = Trials(model, kv)
    rates = [trials.run(setting, depth, lambda: False) for _ in range(2)]
    return min(rates, key=lambda one: one.turn_s)


def _thread_counts(threads: int) -> list[int]:
    """Half the cores may saturate the memory; more threads than physical cores rarely help."""
    counts = {threads, allowed_cores()}
    if threads >= 4:
        counts.add(threads // 2)
    return sorted(counts)


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
