"""What workers and widgets tell the screen: small Textual messages. They hold values, never widgets
or connections.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from textual.message import Message as TextualMessage

from app.store.draft import KeptDraft

if (
    TYPE_CHECKING
):  # the session brings the database and the engine's client: not before the first paint
    from app.attached import Attachment
    from app.knowledge.source_view import SourceView
    from app.knowledge.states import FileState, SyncProgress
    from app.screens.knowledge.bases import BaseRow
    from app.screens.knowledge.sources import AnswerSources
    from app.session import Session, SessionEvent
    from app.store.conversation import Chat, ChatSummary, Message
    from engine.events import ErrorInfo
    from engine.library import ModelEntry
    from engine.messages import Loaded


@dataclass(frozen=True, slots=True)
class ChatView:
    """What is needed to draw one chat."""

    chat: Chat
    path: tuple[Message, ...]
    """Root to current leaf."""
    siblings: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Message id to all ids of its branch point, itself included; only where there are several."""
    draft: KeptDraft = field(default_factory=KeptDraft)


@dataclass
class SessionReady(TextualMessage):
    session: Session
    notices: tuple[str, ...] = ()


@dataclass
class SessionFailed(TextualMessage):
    error: ErrorInfo


@dataclass
class LoadAdvanced(TextualMessage):
    done_bytes: int
    total_bytes: int


@dataclass
class ModelLoaded(TextualMessage):
    loaded: Loaded


@dataclass
class LoadFailed(TextualMessage):
    error: ErrorInfo
    no_model: bool = False
    """There is no model at all."""


@dataclass
class AnswerBegun(TextualMessage):
    """Question and empty answer are on disk."""

    chat: Chat
    question: Message
    answer: Message
    siblings: dict[int, tuple[int, ...]]


@dataclass
class AnswerEvent(TextualMessage):
    """One event of the running answer."""

    event: SessionEvent


@dataclass
class AnswerEnded(TextualMessage):
    """The running answer's events are over, whatever they were."""


@dataclass
class ChatOpened(TextualMessage):
    view: ChatView
    keep_place: bool = False
    """The same chat again: do not move the prompt's draft."""


@dataclass
class ChatsListed(TextualMessage):
    chats: tuple[ChatSummary, ...]
    query: str


@dataclass
class ChatsChanged(TextualMessage):
    """The list of chats is to be read again."""


@dataclass
class ModelsFound(TextualMessage):
    entries: tuple[ModelEntry, ...]


@dataclass
class DraftCounted(TextualMessage):
    text: str
    tokens: int | None


@dataclass
class PasteCounted(TextualMessage):
    label: str
    tokens: int | None


@dataclass
class Told(TextualMessage):
    """One line for the person."""

    text: str
    is_problem: bool = False


@dataclass
class Shown(TextualMessage):
    """A page of lines for the person."""

    title: str
    lines: tuple[tuple[str, str], ...]


# ---- of knowledge bases


@dataclass
class BasesListed(TextualMessage):
    rows: tuple[BaseRow, ...]


@dataclass
class BasesNamed(TextualMessage):
    """What `/kb` may be followed by."""

    names: tuple[str, ...]


@dataclass
class BaseUsed(TextualMessage):
    """Questions are answered from it now."""

    name: str


@dataclass
class BaseMade(TextualMessage):
    """A base is new, or its folders are others: it is to be read."""

    name: str


@dataclass
class BaseAdvanced(TextualMessage):
    """A sync is on its way; `progress` None: it is over."""

    name: str
    progress: SyncProgress | None


@dataclass
class SyncTroubled(TextualMessage):
    """A sync cannot go on without a decision; `repair` says which."""

    name: str
    error: ErrorInfo
    repair: str


@dataclass
class FilesListed(TextualMessage):
    files: tuple[FileState, ...]
    problem: str = ""
    """Why they could not be read."""


@dataclass
class SourcesFound(TextualMessage):
    """The documents of an answer; `number`: the one to open at once."""

    shown: AnswerSources
    number: int = 0


@dataclass
class SourceRead(TextualMessage):
    view: SourceView


# ---- from widgets


@dataclass
class SourceWanted(TextualMessage):
    """A click under an answer; 0: all of its sources."""

    message_id: int
    number: int = 0


@dataclass
class Submitted(TextualMessage):
    """The person pressed the key that sends."""

    text: str
    """Everything, pastes where they stand."""
    written: str = ""
    """What was written around the pastes."""
    attached: tuple[Attachment, ...] = ()
    """The pastes and attached files."""


@dataclass
class NothingSubmitted(TextualMessage):
    """The person pressed the key that sends, and there was nothing but space."""


@dataclass
class DraftTyped(TextualMessage):
    """A key changed the draft: what depends on its first characters may change."""


@dataclass
class DraftChanged(TextualMessage):
    """The draft after a pause in typing, pastes included."""

    text: str


@dataclass
class PasteFolded(TextualMessage):
    """A big paste became a chip; its tokens are wanted."""

    label: str
    text: str


@dataclass
class ChatChosen(TextualMessage):
    chat_id: int
    message_id: int | None = None


@dataclass
class SearchTyped(TextualMessage):
    query: str


@dataclass
class BranchWanted(TextualMessage):
    message_id: int
    step: int
    """-1: the sibling to the left, 1: to the right."""


@dataclass
class LastWanted(TextualMessage):
    """Up in an empty prompt: bring the last message back."""


@dataclass
class OlderWanted(TextualMessage):
    """The transcript stands at its top and has more above."""


@dataclass
class DraftRestored(TextualMessage):
    """A draft from the store, or a message that could not be sent."""

    draft: KeptDraft


@dataclass
class DeleteAsked(TextualMessage):
    """How many messages would go with this one."""

    message_id: int
    count: int


@dataclass
class ChatRenamed(TextualMessage):
    chat: Chat


@dataclass
class Attached(TextualMessage):
    """A file's text for the draft."""

    name: str
    text: str
    notice: str = ""
    """What of it was guessed or lost."""
