"""What is to be measured and what came out, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Literal


@dataclass(frozen=True, slots=True)
class Job:
    path: str
    kv_types: tuple[str, ...] | None = ("auto",)
    """None: all that the backend knows."""
    backend: str = "auto"
    kernels: Literal["auto", "triton", "reference"] = "auto"
    weights: Literal["auto", "int8"] = "auto"
    threads: int | None = None
    flash: bool | None = None
    full: bool = False
    """Every round runs the whole test, at a depth that was really computed."""


@dataclass(frozen=True, slots=True)
class Lap:
    """Tokens and seconds of one stretch."""

    tokens: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Both loops' laps, taken in turns, and the tokens that the engine computed to do its share.
    Where there is no other loop, `bare` is empty and its figures are None.
    """

    test: str
    kv_type: str
    engine: tuple[Lap, ...]
    bare: tuple[Lap, ...]
    computed_tokens: int

    def as_object(self) -> dict[str, object]:
        engine = median(lap.rate for lap in self.engine)
        bare = median(lap.rate for lap in self.bare) if self.bare else None
        return {
            "test": self.test,
            "kv_type": self.kv_type,
            "tokens_per_s": round(engine, 2),
            "bare_tokens_per_s": None if bare is None else round(bare, 2),
            "ratio": None if bare is None else round(engine / bare, 4) if bare else 0.0,
            "computed_tokens": self.computed_tokens,
        }


def shares(total: int, parts: int) -> list[int]:
    """`total` cut into `parts` nearly equal whole numbers."""
    return [total * (part + 1) // parts - total * part // parts for part in range(parts)]
