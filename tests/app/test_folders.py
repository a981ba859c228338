"""Safetensors folders from the command line: named, described, checked and answered, on our own
backend and, converted once, on llama.cpp.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.app.chat_oracle import Oracle
from tests.app.program import run_program
from tests.models.hf_folders import greedy_answer, write_folder

OWN = ("-o", "backend=torch_paged", "-o", "threads=1", "-o", "temperature=0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("made") / "tiny")


def test_ask_answers_from_a_folder_on_our_own_backend(tmp_path: Path, folder: Path) -> None:
    prompt, said = greedy_answer(folder, "the fox", 10)
    options = (*OWN, "-o", "max_tokens=10")
    outcome = run_program(tmp_path, "ask", "--json", "-m", str(folder), *options, "the fox")
    assert outcome.status == 0, outcome.err
    (answer,) = outcome.objects
    assert (answer["backend"], answer["kv_type"], answer["model"]) == ("torch_paged", "f32", "tiny")
    assert answer["token_ids"] == said
    assert answer["usage"]["computed_tokens"] == len(prompt)
    # Without a name the model used last is loaded, a folder too.
    again = run_program(tmp_path, "ask", "--json", *options, "the fox")
    assert again.objects[0]["token_ids"] == said, again.err


def test_models_lists_describes_and_checks_a_folder(tmp_path: Path, folder: Path) -> None:
    models = tmp_path / "data" / "models"
    models.mkdir(parents=True)
    (models / "linked").symlink_to(folder)
    listed = json.loads(run_program(tmp_path, "models", "--json").out)
    (entry,) = (one for one in listed if one["name"] == "linked")
    assert (entry["architecture"], entry["format"], entry["error"]) == (
        "llama",
        "safetensors",
        None,
    )
    told = json.loads(run_program(tmp_path, "models", "info", "linked", "--json").out)
    assert told["layers"] == 2
    checked = run_program(tmp_path, "models", "check", str(folder))
    assert (checked.status, "shapes fit" in checked.out) == (0, True)


@pytest.mark.parametrize(
    ("name", "words"),
    [("config.json", "no config.json"), ("tokenizer.json", "no tokenizer.json")],
)
def test_an_incomplete_folder_is_refused_with_status_3(
    tmp_path: Path, name: str, words: str
) -> None:
    broken = write_folder(tmp_path / "broken")
    (broken / name).unlink()
    outcome = run_program(tmp_path, "ask", "--json", "-m", str(broken), *OWN, "hello")
    assert outcome.status == 3
    (error,) = (one["error"] for one in outcome.objects)
    assert error["code"] == "model"
    assert words in error["message"]


def test_bench_measures_files_only(tmp_path: Path, folder: Path) -> None:
    outcome = run_program(tmp_path, "bench", "--json", "-m", str(folder))
    assert outcome.status == 2
    assert "models convert" in outcome.objects[0]["error"]["next"]


def test_doctor_tells_the_backend_and_why(tmp_path: Path) -> None:
    environment = {"CUDA_VISIBLE_DEVICES": ""}
    facts = json.loads(run_program(tmp_path, "doctor", "--json", **environment).out)
    assert facts["backend"] == {"used": "llama_cpp", "because": "no NVIDIA device was found"}


SCRIPT: tuple[dict[str, Any], ...] = (
    {"user": "Name a colour."},  # 1, 2
    {"user": "Another one?"},  # 3, 4
    {"regenerate": 4},  # 5
    {"user": "And a third, please."},  # 6, 7
    {"edit": 3, "user": "Another one, but dark?"},  # 8, 9
    {"user": "Say it in French."},  # 10, 11
    {"edit": 1, "user": "Name a bird."},  # 12, 13
)
PARENTS = {1: None, 3: 2, 6: 5, 8: 2, 10: 9, 12: None}


@pytest.mark.model
def test_every_turn_of_a_branching_chat_computes_only_what_is_new(
    tmp_path: Path, starter_folder: Path
) -> None:
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(starter_folder)
    oracle = Oracle(lambda text: tokenizer.encode(text, add_special_tokens=False), least_computed=1)
    options = ("-o", "backend=torch_paged", "-o", "temperature=0", "-o", "max_tokens=6")
    model = ("-m", str(starter_folder), "-o", "canonical=off", "-o", "ctx=1024", *options)
    stdin = "".join(json.dumps(request) + "\n" for request in SCRIPT)
    outcome = run_program(tmp_path, "chat", "--json", *model, stdin=stdin)
    assert outcome.status == 0, outcome.err
    assert len(outcome.objects) == len(SCRIPT)
    for request, answer in zip(SCRIPT, outcome.objects, strict=True):
        assert answer["backend"] == "torch_paged"
        question = answer["user_message_id"]
        if "user" in request:
            oracle.ask(question, PARENTS[question], request["user"])
        oracle.expect(answer)
    answers = {one["message_id"]: one["token_ids"] for one in outcome.objects}
    assert answers[5] == answers[4]
    first = outcome.objects[0]
    _, expected = greedy_answer(starter_folder, "Name a colour.", 6)
    assert first["token_ids"] == expected


@pytest.mark.model
def test_without_a_gpu_a_folder_is_converted_once(tmp_path: Path, starter_folder: Path) -> None:
    options = ("-o", "temperature=0", "-o", "max_tokens=4", "-o", "ctx=512")
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    for _ in range(2):
        outcome = run_program(
            tmp_path, "ask", "--json", "-m", str(starter_folder), *options, "Hello", **hidden
        )
        assert outcome.status == 0, outcome.err
        (answer,) = outcome.objects
        assert (answer["backend"], answer["model"]) == ("llama_cpp", starter_folder.name)
    (converted,) = (tmp_path / "cache" / "models").rglob("*.gguf")
    assert converted.stat().st_size < 200_000_000
