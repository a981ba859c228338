"""What a conversation consists of, as values. They know nothing of files or SQL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from app.knowledge.sources import Citation, Sources
from engine.events import ErrorInfo, FinishReason, ReuseBreak, Timings, Usage
from engine.messages import SamplingOverrides

Role = Literal["user", "assistant"]
Status = Literal["complete", "streaming", "stopped", "cut", "error"]
"""stopped: by a person or a limit. cut: the program ended while it was written."""
TitleSource = Literal["none", "first line", "model", "person"]


@dataclass(frozen=True, slots=True)
class AnswerInfo:
    """How an answer came about; kept with it for good."""

    model: str = ""
    """File name."""
    fingerprint: str = ""
    """Of the model's weights."""
    quantization: str = ""
    tokenizer: str = ""
    """Fingerprint of the tokenizer that the answer's ids belong to."""
    template_hash: str = ""
    backend: str = ""
    kv_type: str = ""
    seed: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    sampling: SamplingOverrides = field(default_factory=SamplingOverrides)
    """What the person had set."""
    finish_reason: FinishReason | None = None
    """None: not finished yet, or cut."""
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)
    reuse_break: ReuseBreak | None = None
    reasoning_unfinished: bool = False
    notices: tuple[str, ...] = ()
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class Chat:
    id: int
    title: str
    """Empty before the first message."""
    title_source: TitleSource
    created: float
    """Seconds since 1970."""
    updated: float
    date: str
    """ISO date of its creation, for templates that ask for today."""
    system: str | None
    current_leaf: int | None
    """Last message of the branch on screen; None before the first message."""
    private: bool = False
    """Lives in memory only."""


@dataclass(frozen=True, slots=True)
class Message:
    id: int
    chat_id: int
    parent_id: int | None
    """None: a first message of the chat."""
    role: Role
    text: str
    reasoning: str
    status: Status
    ids: tuple[int, ...]
    """For an answer: the sampled ids."""
    tokenizer: str
    """Fingerprint of the tokenizer that `ids` belong to."""
    created: float
    info: AnswerInfo | None
    sources: Sources | None = None
    """For a question: the documents that stand beside it."""
    citations: tuple[Citation, ...] = ()
    """For an answer: its checked `[n]`, each number once, in the order of the numbers."""
    said: str = ""
    """For an answer: what the model wrote, where `text` is less: numbers without a source are taken
    out. Later prompts hold it, so that its ids stay valid. Empty: the same as `text`.
    """


@dataclass(frozen=True, slots=True)
class ChatSummary:
    """One line of a list of chats."""

    id: int
    title: str
    created: float
    updated: float
    messages: int
    """Of all branches."""
    snippet: str = ""
    """Where a search found something in a message."""
    message_id: int | None = None
    """The message that the snippet is from."""
