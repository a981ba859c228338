"""Writing with and without drafts, in turns: a copied text, and free chat.

    python -m tests.bench.speculation [--threads N] [--rounds N] [starter|window...]

Each round writes the same prompt's answer once in each way, the order changing; the ratio is that
of the two speeds from the first token to the last. Nothing but the length ends an answer. The last
line is JSON: medians of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from engine.backends.llama_cpp.backend import LlamaCppBackend
from engine.backends.llama_cpp.loader import load_model
from engine.backends.llama_cpp.model import LoadedModel
from engine.backends.llama_cpp.settings import BackendOptions, ContextSettings
from engine.chat_vocabulary import ChatVocabulary
from engine.config import EngineConfig
from engine.engine import Engine
from engine.events import Failed, Finished, Result
from engine.request import Limits, Request, Sampling
from models.tokenizers.gguf_vocab import GGUFTokenizer
from tests import real_models

MODELS = {"starter": real_models.starter, "window": real_models.window}
WRITTEN = 128
TEXT = (
    "The lighthouse stood on a rock two miles from the harbour. Every evening the keeper climbed "
    "its stairs, lit the lamp and wrote down the wind, the rain and the ships that passed. In "
    "winter no boat could land for weeks, so he kept flour, oil and a box of books. One night a "
    "ship without lights came close, and he rang the bell until the fog had gone. The captain sent "
    "him a barrel of apples and a letter, which he kept between the pages of his log. When the "
    "lamp was made electric, the keeper moved to the village, but on stormy nights he still looked "
    "out of the window and counted the seconds between one flash and the next."
)
COPY = f"Original:\n\n{TEXT}\n\nFirst copy:\n\n{TEXT}\n\nSecond copy:\n\n{TEXT[:58]}"
QUESTIONS = (
    "Question: How do I keep bread fresh for longer?\nAnswer:",
    "Question: Tell me a short story about a fox and a bridge.\nAnswer:",
    "Question: Why is the sky red in the evening?\nAnswer:",
    "Question: What should I pack for a week in the mountains?\nAnswer:",
    "Question: Explain what a database index is.\nAnswer:",
    "Question: Give me ideas for a birthday party with little money.\nAnswer:",
    "Question: How does a bicycle stay upright?\nAnswer:",
)


class Writer:
    """One engine of its own over the shared weights."""

    def __init__(self, backend: LlamaCppBackend, tokenizer: GGUFTokenizer, speculate: bool) -> None:
        vocabulary = ChatVocabulary(tokenizer, None)
        vocabulary.end_ids = frozenset()
        self._tokenizer = tokenizer
        self.engine = Engine(backend, vocabulary, EngineConfig(speculate=speculate))

    def write(self, text: str, sampling: Sampling) -> Result:
        ids = tuple(self._tokenizer.encode(text))
        self.engine.submit(Request("r", ids, sampling, Limits(WRITTEN)))
        while True:
            for event in self.engine.step():
                if isinstance(event, Failed):
                    raise RuntimeError(event.cause.title)
                if isinstance(event, Finished):
                    return event.result


@contextmanager
def writers(path: Path, threads: int | None) -> Iterator[tuple[Writer, Writer]]:
    """With drafts, without."""
    with ExitStack() as stack:
        model = load_model(path, BackendOptions(), lambda _done, _total: True)
        stack.callback(model.close)
        tokenizer = GGUFTokenizer(path)
        stack.callback(tokenizer.close)
        yield (
            Writer(_opened(stack, model, threads), tokenizer, speculate=True),
            Writer(_opened(stack, model, threads), tokenizer, speculate=False),
        )


def _opened(stack: ExitStack, model: LoadedModel, threads: int | None) -> LlamaCppBackend:
    backend = LlamaCppBackend(model, ContextSettings(2048, threads=threads))
    stack.callback(backend.close)
    return backend


def ratios(pair: tuple[Writer, Writer], prompts: list[tuple[str, Sampling]]) -> list[float]:
    found = []
    for round_, (text, sampling) in enumerate(prompts):
        order = pair if round_ % 2 else pair[::-1]
        speed = {w: w.write(text, sampling).timings.decode_tokens_per_s for w in order}
        found.append(speed[pair[0]] / speed[pair[1]])
    return found


def compare(name: str, threads: int | None, rounds: int) -> dict[str, object]:
    greedy = Sampling(temperature=0.0)
    with writers(MODELS[name](), threads) as pair:
        ratios(pair, [(QUESTIONS[0], greedy)])  # buffers are touched, rates are known
        before = pair[0].engine.stats
        chat = ratios(pair, _questions(rounds))
        between = pair[0].engine.stats
        copy = ratios(pair, [(COPY, greedy)] * rounds)
        after = pair[0].engine.stats
    return {
        "model": name,
        "copy": round(median(copy), 3),
        "copy_rounds": [round(ratio, 3) for ratio in copy],
        "copy_accepted": after.accepted_tokens - between.accepted_tokens,
        "copy_drafted": after.drafted_tokens - between.drafted_tokens,
        "chat": round(median(chat), 3),
        "chat_rounds": [round(ratio, 3) for ratio in chat],
        "chat_accepted": between.accepted_tokens - before.accepted_tokens,
        "chat_drafted": between.drafted_tokens - before.drafted_tokens,
    }


def _questions(rounds: int) -> list[tuple[str, Sampling]]:
    return [(QUESTIONS[n % len(QUESTIONS)], Sampling(seed=n)) for n in range(rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help=" or ".join(MODELS))
    parser.add_argument("--threads", type=int)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    names = asked.models or list(MODELS)
    print(json.dumps([compare(name, asked.threads, asked.rounds) for name in names]))


if __name__ == "__main__":
    main()
