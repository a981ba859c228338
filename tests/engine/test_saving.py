"""The open conversation is written to disk once it has been quiet for a minute."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.backends.base import Parked
from engine.backends.llama_cpp.saved_state import read_state
from engine.backends.scripted_vocabulary import BOS, END
from engine.events import Finished
from engine.messages import Close, FromWorker, Load, LoadOptions
from engine.request import Priority
from engine.worker.model import Model
from engine.worker.owner import Owner
from engine.worker.upkeep import SAVE_AFTER_S, Saving
from tests.engine.client_support import question
from tests.engine.engine_runs import Clock, ask
from tests.engine.workers.bytes_model import TURN, load
from tests.patience import becomes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "states"


@pytest.fixture
def model(folder: Path) -> Iterator[Model]:
    made = load(Load("/bytes", LoadOptions(cache_folder=str(folder))), lambda _done, _total: True)
    yield made
    made.close()


def is_due(saving: Saving) -> bool:
    return saving.due is not None


PROMPT = (BOS, TURN, *b"user\nhello", END, *b"\n", TURN, *b"assistant\n")


def talk(model: Model, conversation: str = "chat") -> int:
    """One answer; returns how many tokens are kept of the conversation."""
    request = ask(f"in {conversation}", PROMPT, conversation=conversation)
    model.engine.submit(request)
    while model.engine.busy:
        model.engine.step()
    (kept,) = model.engine.cache.of(conversation)
    return len(kept.ids)


def test_a_minute_after_the_last_change_one_file_is_written(model: Model, folder: Path) -> None:
    assert SAVE_AFTER_S == 60
    saving = Saving(model)
    length = talk(model)
    saving.touched("chat", 100.0)
    assert saving.due == 160.0
    saving.touched("chat", 130.0)
    assert saving.due == 190.0
    assert not folder.exists()
    saving.save()
    assert not is_due(saving)
    assert len(list(folder.iterdir())) == 1
    saved = read_state(folder, "chat", model.fingerprint)
    assert saved is not None
    assert len(saved.ids) == saved.parked.length == length
    saving.save()  # nothing has changed
    saving.touched("chat", 200.0)
    saving.save()
    assert len(list(folder.iterdir())) == 1


def test_a_private_conversation_is_never_due_and_never_written(model: Model, folder: Path) -> None:
    saving = Saving(model)
    talk(model, "private 1")
    saving.touched("private 1", 100.0)
    assert not is_due(saving)
    saving.save()
    assert not folder.exists()
    talk(model)
    saving.touched("chat", 110.0)
    saving.touched("private 1", 150.0)
    assert saving.due == 170.0
    saving.save()
    assert read_state(folder, "private 1", model.fingerprint) is None
    assert read_state(folder, "chat", model.fingerprint) is not None


def test_a_pinned_beginning_is_written_with_the_open_conversation(
    model: Model, folder: Path
) -> None:
    saving = Saving(model)
    for name in ("pinned", "known", "private pinned", "chat"):
        talk(model, name)
    saving.pinned("pinned", 400)
    saving.pinned("known", 2)
    saving.pinned("private pinned", 400)
    assert not is_due(saving)
    saving.touched("chat", 1.0)
    saving.save()
    written = ("chat", "known", "pinned", "private pinned")
    found = [read_state(folder, name, model.fingerprint) is not None for name in written]
    assert found == [True, False, True, False]
    assert len(list(folder.iterdir())) == 2


def test_a_dropped_conversation_is_not_due(model: Model, folder: Path) -> None:
    saving = Saving(model)
    talk(model)
    saving.touched("chat", 1.0)
    saving.save()
    saving.touched("chat", 2.0)
    saving.dropped("chat")
    assert saving.due is None
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_logged_and_the_chat_goes_on(
    model: Model, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write_text("in the way")
    saving = Saving(model)
    length = talk(model)
    saving.touched("chat", 0.0)
    saving.save()
    assert saving.due is None
    assert "was not saved" in caplog.text
    assert talk(model) == length


def test_where_memory_ends_nothing_is_saved_and_the_chat_is_read_again(
    model: Model, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_sequence: int) -> Parked:
        raise MemoryError

    saving = Saving(model)
    length = talk(model)
    saving.touched("chat", 0.0)
    monkeypatch.setattr(model.backend, "park", fail)
    saving.save()
    monkeypatch.undo()
    assert not folder.exists()
    assert model.engine.cache.of("chat") == []
    assert talk(model) == length


def test_the_owner_saves_by_itself_when_nothing_has_been_asked_for_a_minute(
    model: Model, folder: Path
) -> None:
    clock = Clock()
    told: list[FromWorker] = []
    owner = Owner(model, told.append, clock)
    threads = [threading.Thread(target=work) for work in (owner.desk.run, owner.run)]
    for thread in threads:
        thread.start()
    try:
        owner.desk.put(question("hello"))
        assert becomes(lambda: answers(told) == 1)
        for count in (2, 3):  # they come after what is done behind an answer
            owner.desk.put(question("hi", conversation="", priority=Priority.BACKGROUND))
            assert becomes(lambda count=count: answers(told) == count)
        clock.now = SAVE_AFTER_S - 0.5
        assert not becomes(folder.exists, 1.5)
        clock.now = SAVE_AFTER_S + 0.5
        assert becomes(lambda: folder.exists() and len(list(folder.iterdir())) == 1)
    finally:
        owner.put(Close())
        threads[1].join()
        owner.desk.close()
        threads[0].join()


def answers(told: list[FromWorker]) -> int:
    return sum(isinstance(message, Finished) for message in told)


def test_without_a_folder_nothing_is_due() -> None:
    model = load(Load("/bytes"), lambda _done, _total: True)
    saving = Saving(model)
    talk(model)
    saving.touched("chat", 0.0)
    assert saving.due is None
    saving.save()
    model.close()
