"""What is known about one answer, and about a whole chat, as lines. It reads values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from app.branches import Place, path_to, walk
from app.sanitize import single_line
from app.screens.page import Line
from app.store.conversation import AnswerInfo, Message
from app.widgets import words


def turn_lines(message: Message) -> list[Line]:
    """Lines about one message; for a question only what it is."""
    lines: list[Line] = [
        ("message", f"{message.id} · {message.status}"),
        ("time", datetime.fromtimestamp(message.created).strftime("%Y-%m-%d %H:%M:%S")),
        ("length", f"{len(message.text):,} characters"),
    ]
    info = message.info
    if info is None:
        return lines
    return [*lines, *model_lines(info), *sampling_lines(info), *cost_lines(info), *odd_lines(info)]


def model_lines(info: AnswerInfo) -> list[Line]:
    return present(
        ("Model", ""),
        ("file", info.model),
        ("hash", info.fingerprint),
        ("quantization", info.quantization),
        ("template", info.template_hash),
        ("engine", info.backend),
        ("KV storage", info.kv_type),
    )


def sampling_lines(info: AnswerInfo) -> list[Line]:
    chosen = [
        f"{name} {value}"
        for name, value in asdict(info.sampling).items()
        if value is not None and name != "seed"
    ]
    return present(
        ("Sampling", ""),
        ("seed", "" if info.seed is None else str(info.seed)),
        ("sampler", " · ".join(chosen) or "the model's and the program's defaults"),
        ("most tokens", "" if info.max_tokens is None else words.count(info.max_tokens)),
        ("stop", " · ".join(repr(text) for text in info.stop)),
        ("ended by", info.finish_reason or "not finished"),
    )


def cost_lines(info: AnswerInfo) -> list[Line]:
    usage, timings = info.usage, info.timings
    prompt = (
        f"{usage.prompt_tokens:,} tokens = {usage.reused_tokens:,} reused"
        f" + {usage.restored_tokens:,} restored + {usage.computed_tokens:,} read"
    )
    first = words.seconds(timings.first_token_ms / 1000)
    broken = info.reuse_break
    return present(
        ("Cost", ""),
        ("prompt", prompt),
        ("answer", words.plural(usage.completion_tokens, "token")),
        ("reuse ended", "" if broken is None else words.reuse_break(broken)),
        ("first word after", first if timings.first_token_ms else ""),
        ("reading", words.seconds(timings.prefill_ms / 1000) if timings.prefill_ms else ""),
        ("restoring", words.seconds(timings.restore_ms / 1000) if timings.restore_ms else ""),
        ("writing", words.rate(timings.decode_tokens_per_s) if timings.decode_ms else ""),
        ("loading", words.seconds(timings.load_ms / 1000) if timings.load_ms else ""),
    )


def odd_lines(info: AnswerInfo) -> list[Line]:
    lines: list[Line] = [("notice", notice) for notice in info.notices]
    if info.reasoning_unfinished:
        lines.append(("notice", "The thinking never closed."))
    if info.error is not None:
        parts = (info.error.title, info.error.text, info.error.next_step)
        lines.append(("error", "\n".join(part for part in parts if part)))
    return [("Notices", ""), *lines] if lines else []


def present(heading: Line, *lines: Line) -> list[Line]:
    """The lines that have a value, under their heading; nothing where none has."""
    kept = [line for line in lines if line[1]]
    return [("", " "), heading, *kept] if kept else []


def chat_lines(messages: Sequence[Message]) -> list[Line]:
    """Sums over the visible branch of a chat."""
    infos = [message.info for message in messages if message.info is not None]
    prompt = sum(info.usage.prompt_tokens for info in infos)
    computed = sum(info.usage.computed_tokens for info in infos)
    written = sum(info.usage.completion_tokens for info in infos)
    rates = [i.timings.decode_tokens_per_s for i in infos if i.timings.decode_tokens_per_s > 0]
    share = f"{100 * (prompt - computed) / prompt:.0f} %" if prompt else "none yet"
    return [
        ("messages", words.count(len(messages))),
        ("answers", words.count(len(infos))),
        ("prompt tokens", words.count(prompt)),
        ("of these read", words.count(computed)),
        ("not read again", share),
        ("written", words.plural(written, "token")),
        ("speed", words.rate(sum(rates) / len(rates)) if rates else "none yet"),
    ]


def tree_lines(messages: Sequence[Message], leaf: int | None) -> list[Line]:
    """A line a message of all branches, indented below each branch point; `▸` marks the branch
    that ends at `leaf`.
    """
    shown = {message.id for message in path_to(messages, leaf)}
    return [place_line(place, place.message.id in shown) for place in walk(messages)]


def place_line(place: Place, is_shown: bool) -> Line:
    message = place.message
    who = "You" if message.role == "user" else "Answer"
    branch = "" if place.siblings == 1 else f" {place.number}/{place.siblings}"
    start = single_line(message.text, 60) or f"({message.status})"
    indent = "  " * min(place.depth, 12)
    return f"{'▸' if is_shown else ' '} {message.id}", f"{indent}{who}{branch}: {start}"
