"""Settings of one engine, fixed when a model is loaded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineConfig:
    fingerprint: str = ""
    """Identity of everything that a kept state depends on; states of another one are never used."""
    step_ms_streaming: float = 150.0
    """Longest step while an answer streams to somebody."""
    step_ms: float = 500.0
    """Longest step otherwise."""
    chunk: int = 512
    """Most prompt tokens of one step."""
    micro_batch: int = 128
    """Pieces of a prompt end at multiples of this, so that no single row is left over in the
    backend.
    """
    cache_bytes: int = 4 << 30
    """For parked states and restore points; 0: no state outlives its place in the backend."""
    speculate: bool = True
    """Whether tokens that the conversation suggests are checked several at a time."""
    think_tags: tuple[str, str] = ("<think>", "</think>")
    """The thinking tags of models that write them as plain text."""
