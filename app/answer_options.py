"""What one answer does differently from the settings, and what comes with its question."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.attached import Attachment
from app.settings import KnowledgeSettings
from engine.messages import SamplingOverrides
from engine.request import Priority


@dataclass(frozen=True, slots=True)
class Options:
    """What one answer overrides of the settings; None and () leave the setting."""

    sampling: SamplingOverrides = field(default_factory=SamplingOverrides)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stop_after: int | None = None
    """Stop after this many tokens, as a person pressing stop would."""
    priority: Priority = Priority.INTERACTIVE
    kb: str | None = None
    """Name of the knowledge base that a new question is answered from."""
    attached: tuple[Attachment, ...] = ()
    """Text that comes with a new question."""
    as_written: str | None = None
    """Question and attached text as one message, for where nothing is searched; None: the text
    before the question.
    """
    documents: KnowledgeSettings | None = None
    """How documents are searched and read; None: as the settings say."""
