"""What travels over the two pipes between the front end and the worker process.

Every message is a frozen dataclass, encoded as MessagePack with its type's name in front
(`engine/pipe.py`);
nothing is ever unpickled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.events import Delta, ErrorInfo, Failed, Finished, PromptProgress, Started
from engine.request import Priority

PROTOCOL = 1

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load a model; `None` means "choose for me"."""

    kv_type: str = "auto"
    ctx: int | None = None
    """Context limit in tokens."""
    threads: int | None = None
    flash: bool | None = None
    speculate: bool = True
    """Check tokens that the conversation suggests several at a time."""
    cache_bytes: int | None = None
    """Budget for parked states and restore points; None: 25 % of the free memory, at most 4 GiB."""
    canonical: bool = True
    """Prefill finished answers again in idle time, as the next prompt will contain them."""
    self_tune: bool = True
    step_ms_streaming: int = 150
    step_ms: int = 500
    cache_folder: str | None = None
    """Where tuning results and saved states lie; None: neither is read nor written."""
    saved_states_bytes: int = 2_000_000_000
    backend: Literal["auto", "llama_cpp", "torch_paged"] = "auto"
    converted_folder: str | None = None
    """Where safetensors folders lie that were converted for llama.cpp."""
    ignore_memory: bool = False
    """Load although the estimate says that it does not fit."""
    kernels: Literal["auto", "triton", "reference"] = "auto"
    """Of our own backend: Triton kernels where they can run, everywhere, or plain torch alone."""
    weights: Literal["auto", "int8"] = "auto"
    """Of our own backend: as the files have them, or a folder's matrices rounded to 8 bits."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: Role
    content: str
    reasoning: str = ""
    ids: tuple[int, ...] = ()
    """For an answer: the ids that were sampled, used where the rendered text is unchanged."""
    tokenizer: str = ""
    """Fingerprint of the tokenizer that `ids` belong to."""


@dataclass(frozen=True, slots=True)
class SamplingOverrides:
    """Values a person set; None leaves the model's or our default."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: tuple[tuple[int, float], ...] | None = None
    seed: int | None = None


# ---- to the worker


@dataclass(frozen=True, slots=True)
class Load:
    path: str
    """As `os.fsdecode` makes it of a name in whatever encoding."""
    options: LoadOptions = LoadOptions()


@dataclass(frozen=True, slots=True)
class Submit:
    request_id: str
    conversation: str
    """Name of the chat in the KV cache; empty: keep nothing."""
    messages: tuple[ChatMessage, ...]
    kind: Literal["answer", "continue", "title", "aside", "judge", "pin"] = "answer"
    """continue: the last message is an answer that goes on. title: a side job over the chat's
    prefix. aside: a side job that the last message asks for, without thinking; nothing of it is
    kept. judge: an aside that is answered by one word; the result's `margin` says how much
    likelier yes is than no. pin: nothing is answered; what the last message begins with is read,
    and kept under the name of the conversation for all messages that begin so.
    """
    sampling: SamplingOverrides = SamplingOverrides()
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    priority: Priority = Priority.INTERACTIVE
    date: str = ""
    """ISO date for templates that ask for today, fixed when the chat was made."""
    stop_after: int | None = None
    """Cancel after this many tokens, as a person pressing stop would."""
    overflow: Literal["drop_turns", "refuse"] = "drop_turns"
    """When the history does not fit: leave out the oldest whole turns with a notice, or fail with
    ContextTooLong.
    """


@dataclass(frozen=True, slots=True)
class Cancel:
    request_id: str


@dataclass(frozen=True, slots=True)
class Count:
    """How many tokens a draft has; answered by the reader thread while the owner decodes."""

    count_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Forget a conversation: live, parked and saved KV."""

    conversation: str


@dataclass(frozen=True, slots=True)
class Embed:
    """To a process that embeds: one text."""

    request_id: str
    text: str
    is_query: bool = False
    """A question; some models want other words in front of it than of a passage."""


@dataclass(frozen=True, slots=True)
class Close:
    """Save what should outlive the process, then end."""


# ---- from the worker


@dataclass(frozen=True, slots=True)
class Hello:
    protocol: int
    pid: int


@dataclass(frozen=True, slots=True)
class LoadProgress:
    done_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """What is really in use."""

    name: str
    """File name, undecodable bytes escaped."""
    path: str
    architecture: str
    quantization: str
    backend: str
    kv_type: str
    ctx: int
    ctx_train: int
    threads: int
    flash: bool
    weights_bytes: int
    kv_bytes_per_token: float
    tokenizer: str
    """Fingerprint of tokenizer and vocabulary."""
    template: str
    """Where the chat template comes from: `model file`, or `none: completion mode`."""
    template_hash: str
    load_ms: float
    model_fingerprint: str = ""
    thinks: bool = False
    notices: tuple[str, ...] = ()
    fits: bool = True
    """Whether weights, context and computing stayed inside the free memory, as estimated before
    the load; False only where the person had the estimate ignored.
    """


@dataclass(frozen=True, slots=True)
class Counted:
    count_id: str
    tokens: int


@dataclass(frozen=True, slots=True)
class State:
    """Memory and threads now; sent when they change, at most once a second."""

    kv_bytes_live: int
    kv_bytes_parked: int
    resident_bytes: int
    threads: int
    tuning: bool = False


@dataclass(frozen=True, slots=True)
class EmbedderReady:
    """An embedding model is loaded."""

    name: str
    """File name, undecodable bytes escaped."""
    fingerprint: str
    """Vectors of equal fingerprints lie in one space."""
    size: int
    """Numbers in a vector."""
    speaks_cjk: bool
    """Its vocabulary was made for Chinese too."""


@dataclass(frozen=True, slots=True)
class Embedded:
    request_id: str
    vector: bytes
    """float32, little endian, of length 1."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A conversation's KV is gone, in memory and on disk."""

    conversation: str


ToWorker = Load | Submit | Cancel | Count | Drop | Close | Embed
FromWorker = (
    Hello
    | LoadProgress
    | Loaded
    | Started
    | PromptProgress
    | Delta
    | Finished
    | Failed
    | Counted
    | State
    | Dropped
    | EmbedderReady
    | Embedded
)

__all__ = [
    "PROTOCOL",
    "Cancel",
    "ChatMessage",
    "Close",
    "Count",
    "Counted",
    "Delta",
    "Drop",
    "Dropped",
    "Embed",
    "Embedded",
    "EmbedderReady",
    "ErrorInfo",
    "Failed",
    "Finished",
    "FromWorker",
    "Hello",
    "Load",
    "LoadOptions",
    "LoadProgress",
    "Loaded",
    "PromptProgress",
    "Role",
    "SamplingOverrides",
    "Started",
    "State",
    "Submit",
    "ToWorker",
]
