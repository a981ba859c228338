"""A client whose engine is a script: what each submit yields is decided by the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from engine.client import EngineClient
from engine.events import (
    Delta,
    ErrorInfo,
    Event,
    Failed,
    Finished,
    FinishReason,
    Result,
    Started,
    Usage,
)
from engine.messages import Loaded, LoadOptions, LoadProgress, State, Submit

Script = Callable[[Submit, "FakeClient"], Iterator[Event]]


def loaded_model(path: str = "/models/tiny.gguf") -> Loaded:
    return Loaded(
        name="tiny.gguf",
        path=path,
        architecture="llama",
        quantization="Q4_1",
        backend="scripted",
        kv_type="f16",
        ctx=2048,
        ctx_train=2048,
        threads=2,
        flash=False,
        weights_bytes=1,
        kv_bytes_per_token=1.0,
        tokenizer="letters",
        template="model file",
        template_hash="t",
        load_ms=12.5,
    )


def result(text: str = "Hello.", reason: FinishReason = "stop", seed: int = 7) -> Result:
    ids = tuple(range(10, 10 + len(text)))
    return Result(
        text=text,
        reasoning="",
        token_ids=ids,
        finish_reason=reason,
        seed=seed,
        kv_type="f16",
        usage=Usage(20, 12, 0, 8, len(ids)),
    )


def answers(*parts: str, reason: FinishReason = "stop") -> Script:
    """Streams the parts, then finishes."""

    def script(submit: Submit, client: FakeClient) -> Iterator[Event]:
        name = submit.request_id
        yield Started(name, 20, 12, 0)
        position = 10
        for part in parts:
            ids = tuple(range(position, position + len(part)))
            position += len(part)
            yield Delta(name, ids, part, "")
            if name in client.cancelled:
                yield Finished(name, result(part, "cancelled"))
                return
        yield Finished(name, result("".join(parts), reason))

    return script


def dies_after(*parts: str) -> Script:
    """Streams the parts, then the engine's process is gone."""

    def script(submit: Submit, client: FakeClient) -> Iterator[Event]:
        yield Started(submit.request_id, 20, 0, 0)
        for part in parts:
            yield Delta(submit.request_id, tuple(range(len(part))), part, "")
        yield Failed(None, ErrorInfo("failed", "The engine's process ended.", "SIGKILL"))

    return script


@dataclass
class FakeClient(EngineClient):
    """Records what is asked of it."""

    script: Script = field(default_factory=lambda: answers("Hel", "lo."))
    submits: list[Submit] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    loads: list[tuple[str, LoadOptions]] = field(default_factory=list)
    now: Loaded | None = field(default_factory=loaded_model)
    closed: bool = False

    @property
    def loaded(self) -> Loaded | None:
        return self.now

    @property
    def state(self) -> State | None:
        return None

    def load(
        self,
        path: str,
        options: LoadOptions = LoadOptions(),  # noqa: B008 - frozen
        progress: Callable[[LoadProgress], None] | None = None,
    ) -> Loaded:
        self.loads.append((path, options))
        self.now = self.now or loaded_model(path)
        return self.now

    def cancel_load(self) -> None:
        pass

    def submit(self, submit: Submit) -> Iterator[Event]:
        self.submits.append(submit)
        return self.script(submit, self)

    def cancel(self, request_id: str) -> None:
        self.cancelled.append(request_id)

    def count(self, text: str, timeout: float = 1.0) -> int | None:
        return len(text)

    def drop(self, conversation: str) -> bool:
        self.dropped.append(conversation)
        return True

    def close(self, timeout: float = 5.0) -> None:
        self.closed = True
