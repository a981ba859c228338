"""The result of a request, from what its sequence has gathered."""

from __future__ import annotations

from engine.events import FinishReason, Result, Timings, Usage
from engine.sequence import Sequence


def result_of(sequence: Sequence, reason: FinishReason, kv_type: str) -> Result:
    request = sequence.request
    answer = sequence.answer
    return Result(
        text=answer.text,
        reasoning=answer.reasoning,
        token_ids=tuple(sequence.ids[sequence.prompt_length :]),
        finish_reason=reason,
        seed=request.sampling.seed,
        kv_type=kv_type,
        usage=_usage(sequence),
        timings=_timings(sequence),
        reuse_break=sequence.reuse_break,
        reasoning_unfinished=sequence.answer.reasoning_unfinished,
        stop_string=answer.stop_string,
        prompt_ids=request.ids,
        margin=sequence.margin,
    )


def _usage(sequence: Sequence) -> Usage:
    """Of a prompt that was not read to its end only what was read counts."""
    computed = max(sequence.prompt_reached - sequence.found_tokens, 0)
    return Usage(
        prompt_tokens=sequence.found_tokens + computed,
        reused_tokens=sequence.reused_tokens,
        restored_tokens=sequence.restored_tokens,
        computed_tokens=computed,
        completion_tokens=sequence.sampled,
    )


def _timings(sequence: Sequence) -> Timings:
    clocks = sequence.clocks
    if sequence.sampled == 0:
        return Timings(restore_ms=1e3 * clocks.restore_s, prefill_ms=1e3 * clocks.prefill_s)
    decode_s = clocks.last_token - clocks.first_token
    measured = sequence.sampled >= 2 and decode_s > 0
    return Timings(
        restore_ms=1e3 * clocks.restore_s,
        prefill_ms=1e3 * clocks.prefill_s,
        first_token_ms=1e3 * (clocks.first_token - clocks.submitted),
        decode_ms=1e3 * decode_s,
        decode_tokens_per_s=(sequence.sampled - 1) / decode_s if measured else 0.0,
    )
