"""Numbers and times as people read them. It knows no widget."""

from __future__ import annotations

from datetime import datetime, timedelta

from engine.events import PromptProgress, ReuseBreak, Timings, Usage
from engine.messages import Loaded


def count(number: int) -> str:
    """1,234"""
    return f"{number:,}"


def plural(number: int, noun: str) -> str:
    """1 line, 2,140 lines"""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def tokens_short(number: int) -> str:
    """850, 8k, 18k, 131k, 1M: for window sizes and pastes."""
    if number < 1000:
        return str(number)
    if number >= 1_000_000:
        return f"{number / 1_000_000:.3g}M"
    thousand = 1024 if number % 1024 == 0 else 1000
    return f"{number / thousand:.0f}k"


def size(byte_count: float) -> str:
    """812 MB, 1.1 GB"""
    value = float(byte_count)
    for unit in ("B", "kB", "MB"):
        if value < 999.5:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def context_cost(loaded: Loaded) -> str:
    """What the context costs now, and what more of it would."""
    per_token = loaded.kv_bytes_per_token
    now = f"{loaded.ctx:,} tokens need {size(loaded.ctx * per_token)} now"
    return f"{now}, each 1,024 more {size(1024 * per_token)}; trained for {loaded.ctx_train:,}."


def seconds(value: float) -> str:
    """0.14 s, 4.2 s, 38 s, 2 min 5 s"""
    if value < 1:
        return f"{value:.2f} s"
    if value < 10:
        return f"{value:.1f} s"
    if value < 60:
        return f"{value:.0f} s"
    return f"{int(value // 60)} min {int(value % 60)} s"


def rate(per_second: float) -> str:
    return f"{per_second:.0f} tok/s" if per_second >= 10 else f"{per_second:.1f} tok/s"


def facts(usage: Usage, timings: Timings) -> str:
    """412 reused · 19 read · 0.14 s · 61 tok/s"""
    parts = [f"{count(usage.reused_tokens + usage.restored_tokens)} reused"]
    parts.append(f"{count(usage.computed_tokens)} read")
    if timings.first_token_ms > 0:
        parts.append(seconds(timings.first_token_ms / 1000))
    if timings.decode_tokens_per_s > 0:
        parts.append(rate(timings.decode_tokens_per_s))
    return " · ".join(parts)


def reading(progress: PromptProgress) -> str:
    """reading 64 % · 210 of 330 tokens · 2 s left"""
    share = 100 * progress.done // max(progress.total, 1)
    words = f"reading {share} % · {count(progress.done)} of {count(progress.total)} tokens"
    if progress.tokens_per_s <= 0:
        return words
    left = (progress.total - progress.done) / progress.tokens_per_s
    return f"{words} · {left:.0f} s left"


def reuse_break(broken: ReuseBreak) -> str:
    return f"first change at token {count(broken.position)}: {broken.part}"


def moment(timestamp: float) -> str:
    """09:12 in local time; empty for an unknown time."""
    return datetime.fromtimestamp(timestamp).strftime("%H:%M") if timestamp > 0 else ""


def day_group(timestamp: float, now: datetime) -> str:
    """today, yesterday or older"""
    day = datetime.fromtimestamp(timestamp).date()
    if day >= now.date():
        return "today"
    return "yesterday" if day == now.date() - timedelta(days=1) else "older"


def bar(done: float, total: float, width: int) -> str:
    """A progress bar of exactly `width` cells."""
    filled = round(width * min(max(done / total, 0.0), 1.0)) if total > 0 else 0
    return "━" * filled + "─" * (width - filled)
