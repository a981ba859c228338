"""How far two files of one model are apart: the distributions of llama.cpp along a fixed text.

One file is loaded at a time; the first one's scores wait on the disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.errors import OutOfMemory

Row = npt.NDArray[np.float32]
TOKENS = 512
"""Of the text, at most."""
MICRO_BATCH = 128

TEXT = """\
The lighthouse stood on a rock two miles from the harbour. Every evening the keeper climbed its \
stairs, lit the lamp and wrote down the wind, the rain and the ships that passed. In winter no \
boat could land for weeks, so he kept flour, oil and a box of books. One night a ship without \
lights came close, and he rang the bell until the fog had gone.

Question: A train leaves at 9:40 and needs 2 hours and 35 minutes. When does it arrive?
Answer: 9:40 plus two hours is 11:40, and 35 minutes more make it 12:15.

def median(values):
    \"\"\"The middle of the sorted values; the mean of the two middle ones of an even count.\"\"\"
    ordered = sorted(values)
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2

Water boils at a lower temperature on a mountain, since the air presses less on its surface. At \
3,000 metres it is about 90 degrees, which is why potatoes take longer there. A pressure cooker \
does the opposite: its closed lid keeps the steam in, the pressure rises, and so does the boiling \
point, to about 120 degrees.

Dear Ms. Alvarez, thank you for your letter of 14 March. We have looked at the three offers and \
would like to go on with the second, provided that delivery is possible before the end of May. \
Could you send us a drawing with all measures? Please also tell us whether the price of 1,250 \
euros includes the transport. Kind regards, J. Brandt

- Bring the milk to a boil, take it off the stove and let it cool to 45 degrees.
- Stir in two spoons of yoghurt, cover the bowl and keep it warm for eight hours.
- Do not move it in that time; it sets only when it stands still.
"""


@dataclass(frozen=True, slots=True)
class Divergence:
    divergence: float
    """Mean Kullback-Leibler divergence of the second file from the first, in nats."""
    same_best: float
    tokens: int


def divergence(reference: Path, other: Path, scratch: Path) -> Divergence:
    """Both files have the same vocabulary; `scratch` is a folder for the scores of the first.

    Raises ModelFileError when llama.cpp does not load one of them, OutOfMemory, OSError.
    """
    kept = scratch / "scores"
    with _LoadedFile(reference) as first:
        ids = first.ids(TEXT)[:TOKENS]
        with kept.open("wb") as file:
            for row in first.rows(ids):
                file.write(row.tobytes())
    with _LoadedFile(other) as second:
        pairs = zip(_stored_rows(kept, second.width), second.rows(ids), strict=True)
        found = np.array([_compared(one, two) for one, two in pairs])
    return Divergence(float(found[:, 0].mean()), float(found[:, 1].mean()), len(ids))


def _stored_rows(path: Path, width: int) -> Iterator[Row]:
    """Read, not mapped: on a full disk a mapped file would end the process."""
    with path.open("rb") as file:
        while raw := file.read(4 * width):
            yield np.frombuffer(raw, np.float32)


def _compared(expected: Row, found: Row) -> tuple[float, float]:
    """Divergence of one place, and whether both have the same best token."""
    one, two = _log_softmax(expected), _log_softmax(found)
    same = float(expected.argmax() == found.argmax())
    return float((np.exp(one) * (one - two)).sum()), same


def _log_softmax(logits: Row) -> npt.NDArray[np.float64]:
    wide = logits.astype(np.float64) - float(logits.max())
    shifted: npt.NDArray[np.float64] = wide - np.log(np.exp(wide).sum())
    return shifted


class _LoadedFile:
    """A file in llama.cpp, with a context for one text."""

    def __init__(self, path: Path) -> None:
        from llama_cpp import llama_cpp

        from engine.backends.llama_cpp.loader import load_model
        from engine.backends.llama_cpp.settings import BackendOptions

        self._api: Any = llama_cpp
        self._path = path
        self._model = load_model(path, BackendOptions(), lambda done, total: True)
        self.width = self._model.vocab_size

    def __enter__(self) -> _LoadedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._model.close()

    def ids(self, text: str) -> tuple[int, ...]:
        """With the token that begins a prompt, where there is one."""
        from models.tokenizers.gguf_vocab import GGUFTokenizer

        tokenizer = GGUFTokenizer(self._path)
        try:
            begin = (tokenizer.bos_id,) if tokenizer.add_bos and tokenizer.bos_id else ()
            return (*begin, *tokenizer.encode(text))
        finally:
            tokenizer.close()

    def rows(self, ids: Sequence[int]) -> Iterator[Row]:
        """Scores [vocabulary] after each token; valid until the next."""
        api, context = self._api, self._context(len(ids))
        batch = api.llama_batch_init(MICRO_BATCH, 0, 1)
        try:
            for start in range(0, len(ids), MICRO_BATCH):
                piece = ids[start : start + MICRO_BATCH]
                _fill(batch, piece, start)
                if api.llama_decode(context, batch):
                    raise OutOfMemory("llama.cpp could not compute the scores of the text.")
                for index in range(len(piece)):
                    pointer = api.llama_get_logits_ith(context, index)
                    yield np.ctypeslib.as_array(pointer, (self.width,))
        finally:
            api.llama_batch_free(batch)
            api.llama_free(context)

    def _context(self, tokens: int) -> Any:
        from engine.backends.llama_cpp.threads import default_threads

        params = self._api.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = tokens, MICRO_BATCH, MICRO_BATCH
        params.n_threads = params.n_threads_batch = default_threads()
        params.flash_attn_type = 0
        context = self._api.llama_init_from_model(self._model.handle, params)
        if not context:
            raise OutOfMemory("llama.cpp could not make room for the text.")
        return context


def _fill(batch: Any, ids: Sequence[int], start: int) -> None:
    batch.n_tokens = len(ids)
    for index, token in enumerate(ids):
        batch.token[index], batch.pos[index] = token, start + index
        batch.n_seq_id[index], batch.seq_id[index][0] = 1, 0
        batch.logits[index] = True
