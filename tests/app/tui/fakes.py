"""A scripted engine client: the real session and store run over it, without a worker process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.paths import Paths
from app.session import Session
from app.settings import Settings
from app.store.history import History
from engine.client import EngineClient
from engine.errors import LocalchatError
from engine.events import (
    Delta,
    ErrorInfo,
    Event,
    Failed,
    Finished,
    FinishReason,
    PromptProgress,
    Result,
    Started,
    Timings,
    Usage,
)
from engine.messages import Loaded, LoadOptions, LoadProgress, State, Submit

LOADED = Loaded(
    name="SmolLM2-135M-Instruct.Q4_1.gguf",
    path="/models/SmolLM2-135M-Instruct.Q4_1.gguf",
    architecture="llama",
    quantization="Q4_1",
    backend="scripted",
    kv_type="f16",
    ctx=8192,
    ctx_train=8192,
    threads=2,
    flash=False,
    weights_bytes=98_000_000,
    kv_bytes_per_token=23_040.0,
    tokenizer="tok",
    template="model file",
    template_hash="5f0c8a1e",
    load_ms=120.0,
    model_fingerprint="9d3ab27c",
)


STATE = State(12_000_000, 0, 200_000_000, 2)


@dataclass(frozen=True)
class Script:
    """One answer of the scripted engine."""

    pieces: tuple[str, ...] = ("Hello", " there.")
    reasoning: tuple[str, ...] = ()
    finish: FinishReason = "stop"
    progress: tuple[tuple[int, int], ...] = ()
    prompt_tokens: int = 431
    reused: int = 412
    failure: ErrorInfo | None = None
    notices: tuple[str, ...] = ()
    gate: threading.Event | None = None
    """The last piece waits for it."""
    pause_s: float = 0.0
    """Between pieces."""


@dataclass
class ScriptedClient(EngineClient):
    """Stands for `EngineClient`; answers come from `scripts` in order, then the default one."""

    scripts: list[Script] = field(default_factory=list)
    load_error: LocalchatError | None = None
    load_gate: threading.Event | None = None
    submits: list[Submit] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    now: Loaded | None = None
    cancelled: set[str] = field(default_factory=set)
    load_cancelled: bool = False
    closed: bool = False
    counts: int = 0
    loads: list[LoadOptions] = field(default_factory=list)
    load_paths: list[str] = field(default_factory=list)
    model: Loaded = LOADED
    memory: State = STATE

    @property
    def loaded(self) -> Loaded | None:
        return self.now

    @property
    def state(self) -> State | None:
        return self.memory

    @property
    def pid(self) -> int | None:
        return None

    def load(
        self,
        path: str,
        options: LoadOptions = LoadOptions(),  # noqa: B008 - frozen
        progress: Callable[[LoadProgress], None] | None = None,
    ) -> Loaded:
        self.loads.append(options)
        self.load_paths.append(path)
        if progress is not None:
            progress(LoadProgress(68_000_000, 107_000_000))
        while self.load_gate is not None and not self.load_gate.wait(0.01):
            if self.load_cancelled:
                self.load_cancelled = False
                raise LocalchatError("Loading was stopped.")
        if self.load_error is not None:
            raise self.load_error
        self.now = self.model
        return self.model

    def cancel_load(self) -> None:
        self.load_cancelled = True

    def cancel(self, request_id: str) -> None:
        self.cancelled.add(request_id)

    def count(self, text: str, timeout: float = 1.0) -> int | None:
        self.counts += 1
        return len(text.split())

    def drop(self, conversation: str) -> bool:
        self.dropped.append(conversation)
        return True

    def close(self, timeout: float = 5.0) -> None:
        self.closed = True

    def submit(self, submit: Submit) -> Iterator[Event]:
        self.submits.append(submit)
        script = self.scripts.pop(0) if self.scripts else Script()
        name = submit.request_id
        yield Started(name, script.prompt_tokens, script.reused, 0)
        for done, total in script.progress:
            yield PromptProgress(name, done, total, 60.0)
        if script.failure is not None:
            yield Failed(name, script.failure)
            return
        yield from self._write(name, script)

    def _write(self, name: str, script: Script) -> Iterator[Event]:
        text = reasoning = ""
        finish = script.finish
        for piece in script.reasoning:
            reasoning += piece
            yield Delta(name, (1,), "", piece)
        for index, piece in enumerate(script.pieces):
            self._wait(name, script, index == len(script.pieces) - 1)
            if name in self.cancelled:
                finish = "cancelled"
                break
            text += piece
            yield Delta(name, (1,), piece, "")
        yield Finished(name, make_result(text, reasoning, finish, script))

    def _wait(self, name: str, script: Script, is_last: bool) -> None:
        if script.pause_s:
            time.sleep(script.pause_s)
        while is_last and script.gate is not None and not script.gate.wait(0.01):
            if name in self.cancelled:
                return


def make_result(text: str, reasoning: str, finish: FinishReason, script: Script) -> Result:
    return Result(
        text=text,
        reasoning=reasoning,
        token_ids=tuple(range(max(len(text.split()), 1))),
        finish_reason=finish,
        seed=42,
        kv_type="f16",
        usage=Usage(
            script.prompt_tokens,
            script.reused,
            0,
            script.prompt_tokens - script.reused,
            max(len(text.split()), 1),
        ),
        timings=Timings(first_token_ms=140.0, decode_ms=900.0, decode_tokens_per_s=61.0),
        notices=script.notices,
    )


def make_session(folder: Path, client: EngineClient, settings: Settings) -> Session:
    """A real session and store in `folder` over an engine."""
    paths = Paths.under(folder).ensure()
    history = History.open(paths.database, paths.locks)
    return Session(history, client, settings, paths)


def fill(session: Session, turns: Sequence[tuple[str, str]], title: str | None = None) -> int:
    """A chat of finished turns; returns its id."""
    history = session.history
    chat = history.new_chat(title=title)
    leaf: int | None = None
    for question, answer in turns:
        user = history.add_user(chat.id, leaf, question)
        written = history.begin_answer(chat.id, user.id)
        history.finish_answer(written.id, "complete", answer)
        leaf = written.id
    return chat.id
