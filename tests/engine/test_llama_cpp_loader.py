"""What cannot be used is refused with words, and nothing stays loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.backends.llama_cpp.context import Context, ContextShape
from engine.backends.llama_cpp.loader import LoadCancelled, load_model
from engine.backends.llama_cpp.settings import BackendOptions
from engine.errors import ModelFileError
from models.loaders.split import read_model
from tests.engine import tiny_models
from tests.engine.llama_cpp_support import feed, opened_backend, opened_model, prompt


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return tiny_models.write_llama(tmp_path / "tiny.gguf")


def load(path: Path) -> None:
    load_model(path, BackendOptions(), lambda _done, _total: True).close()


def test_a_file_that_llama_cpp_refuses_is_named_with_its_reason(tmp_path: Path, tiny: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(tiny.read_bytes()[:20_000])
    with pytest.raises(ModelFileError) as refused:
        load(cut)
    assert "cut.gguf" in refused.value.title
    assert "not within the file bounds" in refused.value.text


def test_weights_that_compute_no_numbers_are_found_at_load(tmp_path: Path, tiny: Path) -> None:
    data = bytearray(tiny.read_bytes())
    data[-4000:] = np.full(1000, np.nan, np.float32).tobytes()
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(data)
    with pytest.raises(ModelFileError, match="not finite"):
        load(damaged)


@pytest.mark.parametrize("mmap", [True, False])
def test_a_load_ends_with_all_bytes_reported_or_where_it_was_cancelled(
    tiny: Path, mmap: bool
) -> None:
    seen: list[tuple[int, int]] = []

    def note(done: int, total: int) -> bool:
        seen.append((done, total))
        return True

    load_model(tiny, BackendOptions(mmap=mmap, total_bytes=1000), note).close()
    assert seen[-1] == (1000, 1000)
    with pytest.raises(LoadCancelled):
        load_model(tiny, BackendOptions(mmap=mmap), lambda _done, _total: False)


@pytest.mark.parametrize("start", [1, 2, 4])
def test_a_set_of_parts_computes_as_the_one_file(tmp_path: Path, tiny: Path, start: int) -> None:
    """Whichever part is named."""
    whole = tmp_path / "parts.gguf"
    tiny_models.write_llama(whole, tensors_per_part=6)
    parts = sorted(tmp_path.glob("parts-*.gguf"))
    assert [part.name for part in parts] == [f"parts-0000{n}-of-00004.gguf" for n in range(1, 5)]
    assert not whole.exists()
    path = read_model(parts[start - 1]).first.path
    logits = []
    for each in (tiny, path):
        with opened_model(each) as model, opened_backend(model) as backend:
            logits.append(feed(backend, 0, prompt(200)))
    assert np.array_equal(logits[0], logits[1])


def test_an_error_of_the_callback_reaches_the_caller(tiny: Path) -> None:
    def fail(_done: int, _total: int) -> bool:
        raise KeyError("screen")

    with pytest.raises(KeyError, match="screen"):
        load_model(tiny, BackendOptions(), fail)


def test_a_context_refuses_what_would_end_the_process(tiny: Path) -> None:
    with opened_model(tiny) as model:
        context = Context(model, ContextShape(256, 2, 64, 32))
        with pytest.raises(ValueError, match="empty batch"):
            context.decode()
        with pytest.raises(ValueError, match="65 tokens"):
            context.batch.add(0, 0, (1,) * 65, wants_scores=True)
        for call in (context.first_position, context.state_size, context.last_position):
            with pytest.raises(ValueError, match="sequence 2 of 2"):
                call(2)
        context.batch.add(0, 0, (1, 2), wants_scores=True)
        assert context.decode() == 0
        for index in (0, 2, -1):
            with pytest.raises(ValueError, match="no scores"):
                context.logits(index)
        context.close()
        context.close()
        with pytest.raises(ValueError, match="closed"):
            context.decode()
