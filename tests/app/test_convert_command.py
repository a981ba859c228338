"""`localchat models convert` from outside: where the file goes, what is printed, exit codes."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from app.cli import main
from app.console import Console
from tests.app.program import Outcome, run_program
from tests.models.conversion_folders import tiny_llama


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models") / "tiny model"
    tiny_llama(place)
    return place


def convert(home: Path, *arguments: str | Path) -> Outcome:
    return run_program(home, "models", "convert", *map(str, arguments))


def test_a_folder_is_converted_kept_listed_and_removed(folder: Path, tmp_path: Path) -> None:
    first = convert(tmp_path, folder, "--json")
    assert first.status == 0, first.err
    (made,) = first.objects
    assert made.keys() == {"path", "source", "type", "bytes", "kept", "seconds"}
    path = Path(made["path"])
    assert path.is_relative_to(tmp_path / "cache")
    assert (made["bytes"], made["type"], made["kept"]) == (path.stat().st_size, "q8_0", False)

    again = convert(tmp_path, folder)
    assert again.out == f"{path}\n"
    assert "kept from before" in again.err

    (listed,) = json.loads(convert(tmp_path, "--list", "--json").out)
    assert listed["path"] == str(path)
    assert listed["source"] == str(folder)
    assert "tiny model-Q8_0.gguf" in convert(tmp_path, "--list").out
    (status,) = run_program(tmp_path, "cache", "--json").objects
    assert (status["converted"], status["converted_bytes"]) == (1, made["bytes"])
    assert "1 converted model kept" in run_program(tmp_path, "cache").out

    assert convert(tmp_path, "--remove", "tiny").status == 3
    removed = convert(tmp_path, "--remove", path.name, "--json")
    assert removed.objects == [{"removed": [str(path)], "bytes": made["bytes"]}]
    assert not path.exists()


def test_another_place_and_type_can_be_named(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "mine.gguf"
    assert convert(tmp_path, folder, "--type", "f16", "-o", target).out == f"{target}\n"
    made = convert(tmp_path, folder, "--type", "BF16", "-o", tmp_path / "out")
    assert made.out == f"{tmp_path / 'out' / 'tiny model-BF16.gguf'}\n"
    assert run_program(tmp_path, "models", "check", str(target)).status == 0
    assert not list((tmp_path / "cache").rglob("*.gguf"))


def test_the_distance_from_f16_is_shown_when_asked(folder: Path, tmp_path: Path) -> None:
    outcome = convert(tmp_path, folder, "--check", "--json")
    assert outcome.status == 0, outcome.err
    (made,) = outcome.objects
    assert 0 <= made["kld"] < 0.1
    assert 0.8 < made["top1"] <= 1
    assert made["tokens"] == 512
    assert [path.name for path in Path(made["path"]).parent.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["models", "convert"], 2, "needs a folder"),
        (["models", "convert", "no such folder"], 3, "no such folder"),
        (["models", "convert", "EMPTY"], 3, "config.json"),
        (["models", "convert", "FOLDER", "--type", "q4"], 2, "Known: q8_0, f16, bf16"),
        (["models", "convert", "FOLDER", "-o", "FILE/in"], 1, "FILE"),
    ],
    ids=["nothing", "missing", "empty", "type", "place"],
)
def test_mistakes_have_their_exit_codes(
    arguments: list[str], status: int, words: str, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "EMPTY").mkdir()
    (tmp_path / "FILE").write_text("in the way")
    places = {"FOLDER": folder, "EMPTY": tmp_path / "EMPTY", "FILE/in": tmp_path / "FILE" / "in"}
    outcome = run_program(tmp_path, *(str(places.get(word, word)) for word in arguments))
    assert outcome.status == status, outcome.err
    assert words in outcome.err


def test_interrupted_it_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCALCHAT_CACHE_DIR", str(tmp_path / "cache"))
    calls = iter([signal.SIGINT])
    monkeypatch.setattr(Console, "status", lambda *_: signal.raise_signal(next(calls)))
    assert main(["models", "convert", str(folder)]) == 130
    assert not list((tmp_path / "cache").rglob("*.gguf"))
