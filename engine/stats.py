"""Numbers about an engine now; cheap to ask for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineStats:
    kv_bytes_live: int
    kv_bytes_parked: int
    """Kept and paused states together, and the restore points of live ones."""
    kept_live: int
    kept_parked: int
    running: int
    computed_tokens: int
    """Prompt and answer tokens forwarded since the start, refused drafts left out."""
    drafted_tokens: int
    """Guessed and checked since the start."""
    accepted_tokens: int
    """Of those, the ones that came true."""
    decode_step_ms: float
    """Of a step that only decodes; 0 while unknown."""
