"""Converted files that are kept: found by what they were made of, made once, removable."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock
from safetensors.torch import load_file, save_file

from models.conversion import cache as caches
from models.conversion.cache import (
    cached_conversion,
    find_converted,
    list_converted,
    remove_converted,
)
from models.errors import LoadingStopped, LocalchatError, UnsupportedModel
from tests.models.conversion_folders import tiny_llama


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_llama(tmp_path / "tiny")
    return tmp_path / "tiny"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def never(done: int, total: int) -> bool:
    raise AssertionError("converted again")


def test_the_second_call_finds_the_file(folder: Path, cache: Path) -> None:
    assert find_converted(folder, cache) is None
    path = cached_conversion(folder, cache)
    assert path.name == "tiny-Q8_0.gguf"
    assert cached_conversion(folder, cache, progress=never) == path
    assert find_converted(folder, cache) == path


def test_folders_of_the_same_content_share_the_file(folder: Path, cache: Path) -> None:
    path = cached_conversion(folder, cache)
    copy = Path(shutil.copytree(folder, folder.with_name("other name")))
    assert cached_conversion(copy, cache, progress=never) == path
    assert find_converted(copy, cache) == path


def test_every_type_has_a_file_of_its_own(folder: Path, cache: Path) -> None:
    paths = {cached_conversion(folder, cache, "Q8_0"), cached_conversion(folder, cache, "F16")}
    assert {one.path for one in list_converted(cache)} == paths
    assert {one.kind for one in list_converted(cache)} == {"Q8_0", "F16"}


def change_weights(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    state["model.norm.weight"] += 1
    save_file(state, folder / "model.safetensors")


def change_config(folder: Path) -> None:
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**values, "rms_norm_eps": 1e-3}))


def change_tokenizer(folder: Path) -> None:
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "add_bos_token": True}))


def change_template(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")


@pytest.mark.parametrize(
    "change", [change_weights, change_config, change_tokenizer, change_template]
)
def test_a_source_that_changed_is_converted_anew_and_the_old_file_goes(
    change: Callable[[Path], None], folder: Path, cache: Path
) -> None:
    before = cached_conversion(folder, cache)
    change(folder)
    assert find_converted(folder, cache) is None
    after = cached_conversion(folder, cache)
    assert after != before
    assert [one.path for one in list_converted(cache)] == [after]
    assert not before.exists()


def test_a_file_that_was_cut_short_is_not_used(folder: Path, cache: Path) -> None:
    path = cached_conversion(folder, cache)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    assert find_converted(folder, cache) is None
    assert cached_conversion(folder, cache).read_bytes() == whole


def test_what_a_killed_process_left_is_swept_away(folder: Path, cache: Path) -> None:
    path = cached_conversion(folder, cache)
    path.unlink()
    (path.parent / ".tiny.abcd").write_bytes(b"half a model")
    cached_conversion(folder, cache)
    assert sorted(os.listdir(path.parent)) == ["source.json", "tiny-Q8_0.gguf"]


def test_kept_files_are_listed_with_their_size_and_removed(folder: Path, cache: Path) -> None:
    path = cached_conversion(folder, cache)
    (one,) = list_converted(cache)
    assert (one.path, one.source, one.bytes) == (path, str(folder), path.stat().st_size)
    remove_converted(one)
    assert list_converted(cache) == ()
    assert not path.parent.exists()


@pytest.mark.parametrize("calls", [1, 5])
def test_stopped_it_leaves_nothing(folder: Path, cache: Path, calls: int) -> None:
    answers = iter([True] * (calls - 1) + [False])
    with pytest.raises(LoadingStopped):
        cached_conversion(folder, cache, progress=lambda *_: next(answers))
    assert list(cache.rglob("*.gguf")) == []
    assert list_converted(cache) == ()


def test_a_refused_folder_leaves_nothing(folder: Path, cache: Path) -> None:
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UnsupportedModel, match=r"tokenizer\.json"):
        cached_conversion(folder, cache)
    assert [path for path in cache.iterdir() if path.is_dir()] == []


def test_a_cache_that_cannot_be_written_is_named(folder: Path, cache: Path) -> None:
    cache.write_text("a file in the way")
    with pytest.raises(LocalchatError, match="cannot be kept"):
        cached_conversion(folder, cache)


def test_who_waits_for_another_process_can_stop_waiting(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "_POLL_SECONDS", 0.01)
    place = caches._place(folder, cache, "Q8_0")
    cache.mkdir()
    with FileLock(cache / f"{place.name}.lock"), pytest.raises(LoadingStopped):
        cached_conversion(folder, cache, progress=lambda *_: False)


def test_of_several_at_once_one_converts_and_all_get_the_file(folder: Path, cache: Path) -> None:
    made: list[int] = []
    paths: list[Path] = []

    def run() -> None:
        seen: list[int] = []
        paths.append(
            cached_conversion(folder, cache, "F16", lambda done, _: seen.append(done) or True)
        )
        made.append(max(seen, default=0))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(paths)) == 1
    assert len(paths) == 4
    assert sum(1 for most in made if most > 1) == 1


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = sys.modules["safetensors"] = sys.modules["transformers"] = None
from pathlib import Path
from models.conversion.cache import cached_conversion
print(cached_conversion(Path(sys.argv[1]), Path(sys.argv[2])))
"""


def test_it_needs_no_torch(folder: Path, cache: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(folder), str(cache)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_file()
