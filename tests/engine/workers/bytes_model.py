"""A model without weights: bytes are tokens, a small chat template, scripted answers."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from engine.backends.base import Row
from engine.backends.scripted import ScriptedBackend, ScriptedScores, scripted_backend
from engine.backends.scripted_vocabulary import BOS, END, END_OF_TURN, VOCAB_SIZE
from engine.chat import Chat
from engine.chat_vocabulary import ChatVocabulary
from engine.config import EngineConfig
from engine.engine import Engine
from engine.error_values import EngineStopped
from engine.errors import BackendLost
from engine.messages import Load, Loaded
from engine.request import Sampling
from engine.worker.model import Model, NoUpkeep
from models.templates.formatter import ChatFormatter

PONDER = "please ponder"
"""A question over which the template never comes to an end."""
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<turn>{{ m.role }}\n{{ m.content }}<end>\n{% endfor %}"
    "{% if add_generation_prompt %}<turn>assistant\n{% endif %}"
    f"{{% if '{PONDER}' in messages[-1].content %}}"
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}{% endif %}"
)
TURN = END_OF_TURN


class BytesTokenizer:
    """Satisfies `models.tokenizers.base.Tokenizer`."""

    vocab_size = VOCAB_SIZE
    fingerprint = "bytes"
    bos_id: int | None = BOS
    eos_id = END
    add_bos = True
    end_ids = frozenset({END})
    control_tokens: Mapping[str, int] = {"<bos>": BOS, "<end>": END, "<turn>": TURN}

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(text.encode("utf-8", "replace"))

    encode_section = encode
    encode_after = encode

    def piece(self, token_id: int) -> bytes:
        return bytes((token_id,)) if 0 <= token_id < 256 else b""

    def token_text(self, token_id: int) -> str:
        return self.piece(token_id).decode("latin-1")

    def find(self, text: str) -> int | None:
        return self.control_tokens.get(text)

    def strips(self, token_id: int) -> tuple[bool, bool]:
        return False, False


def echo(ids: tuple[int, ...]) -> Sequence[int]:
    """The answer to `TEXT` is `echo TEXT`; to `repeat N TEXT`, N times TEXT."""
    last = bytes(i if i < 256 else 0 for i in ids).split(b"\0")[-3]
    text = last.partition(b"\n")[2]
    word, _, rest = text.partition(b" ")
    if word == b"repeat":
        count, _, rest = rest.partition(b" ")
        return tuple(rest * int(count))
    return tuple(b"echo " + text)


class Misbehaving(ScriptedBackend):
    """Does in its next forward what a prompt tells it to."""

    def forward(self, rows: Sequence[Row]) -> ScriptedScores:
        for row in rows:
            text = bytes(i for i in row.ids if i < 256)
            for word, act in ACTS.items():
                if word in text:
                    act()
        return super().forward(rows)

    def require_alive(self) -> None:
        raise BackendLost("The device answers nothing.", "illegal address")


def _print_natively() -> None:
    ctypes.CDLL(None).puts(b"a native line on standard output")
    ctypes.CDLL(None).fflush(None)
    os.write(2, b"a line on standard error\n")


def _hang() -> None:
    os.write(2, b"it hangs\n")
    time.sleep(600)


def _break() -> None:
    raise RuntimeError("illegal address")


ACTS: Mapping[bytes, Callable[[], object]] = {
    b"please abort": os.abort,
    b"please segfault": lambda: ctypes.string_at(0),
    b"please exit": lambda: os._exit(3),
    b"please hang": _hang,
    b"please break": _break,
    b"please print": _print_natively,
}


def bytes_formatter() -> ChatFormatter:
    return ChatFormatter(BytesTokenizer(), TEMPLATE)


def load(message: Load, progress: Callable[[int, int], bool], delay_s: float = 0.0) -> Model:
    """`path` ending in `slow`: loads until it is cancelled; in `broken`: raises."""
    if message.path.endswith("slow"):
        for _ in range(6000):
            if not progress(1, 2):
                raise EngineStopped("Loading was stopped.")
            time.sleep(0.01)
    if message.path.endswith("broken"):
        raise RuntimeError("broken on purpose")
    options = message.options
    context = options.ctx or 4096
    backend = scripted_backend(context, delay_s, script=echo, max_rows=512)
    backend.__class__ = Misbehaving
    formatter = bytes_formatter()
    tokenizer = formatter.tokenizer
    config = EngineConfig(
        fingerprint="bytes",
        step_ms_streaming=options.step_ms_streaming,
        step_ms=options.step_ms,
        cache_bytes=1 << 28,
    )
    progress(2, 2)
    return Model(
        loaded=loaded(message.path, context),
        engine=Engine(backend, ChatVocabulary(tokenizer, None), config),
        backend=backend,
        chat=Chat(formatter, context, Sampling(temperature=0.0)),
        upkeep=NoUpkeep(),
        fingerprint="bytes",
        close=formatter.close,
        saved_folder=Path(options.cache_folder) if options.cache_folder else None,
        saved_bytes=options.saved_states_bytes,
        canonical=options.canonical,
    )


def loaded(path: str, context: int) -> Loaded:
    return Loaded(
        name=Path(path).name,
        path=path,
        architecture="bytes",
        quantization="none",
        backend="scripted",
        kv_type="f16",
        ctx=context,
        ctx_train=context,
        threads=1,
        flash=False,
        weights_bytes=0,
        kv_bytes_per_token=8.0,
        tokenizer="bytes",
        template="model file",
        template_hash="t",
        load_ms=5.0,
    )
