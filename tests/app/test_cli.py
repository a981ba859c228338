"""Laws of the command line that need no model: words, exit statuses, and what a mistake costs."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from app.arguments import split_command
from app.cli import COMMANDS, command_parser, root_parser
from tests.app.program import COMMAND, Outcome, environment, run_program


def assert_clear_failure(outcome: Outcome, status: int) -> None:
    """An exit status, a sentence on stderr, nothing on stdout, and no traceback anywhere."""
    assert outcome.status == status, outcome.err
    assert outcome.err.startswith("localchat: ")
    assert "Traceback" not in outcome.err + outcome.out
    assert outcome.out == ""


def test_help_fits_eighty_columns_and_shows_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for parser in [root_parser(), *(command_parser(name) for name in COMMANDS)]:
        text = parser.format_help()
        assert max(map(len, text.splitlines())) <= 80, parser.prog
        assert "examples:" in text or "instead:" in text
        assert "--json" in text


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from app.cli import main; main(['--help']); main(['ask', '--help']); "
        "heavy = {'textual', 'numpy', 'llama_cpp', 'torch', 'jinja2', 'sqlite3', 'psutil'}; "
        "sys.exit(', '.join(heavy & sys.modules.keys()) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("option", ["-h", "--help", "-V", "--version"])
def test_help_and_version_succeed_everywhere(tmp_path: Path, option: str) -> None:
    for words in ([option], ["chats", option], [option, "models"]):
        outcome = run_program(tmp_path, *words)
        assert outcome.status == 0
        assert "localchat" in outcome.out
        assert outcome.err == ""


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (["aks", "hello"], "ask"),
        (["chats", "serach", "x"], "search"),
        (["models", "chek", "x"], "check"),
        (["kb", "crate", "x"], "create"),
        (["ask", "--jsn", "hi"], "--json"),
        (["ask", "-o", "temprature=1", "hi"], "temperature"),
        (["locate", "modles"], "models"),
        (["completion", "bsh"], "bash"),
        (["bench", "--kv", "q9"], "q8"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_nearest(
    tmp_path: Path, words: list[str], nearest: str
) -> None:
    outcome = run_program(tmp_path, *words)
    assert_clear_failure(outcome, 2)
    assert nearest in outcome.err


@pytest.mark.parametrize(
    "words",
    [
        ["ask"],
        ["ask", ""],
        ["ask", " \n\t "],
        ["ask", "-o", "temperature=hot", "hi"],
        ["ask", "-o", "temperature=-1", "hi"],
        ["ask", "-o", "temperature=nan", "hi"],
        ["ask", "-o", "top_p=1e99", "hi"],
        ["ask", "-o", "ctx=0", "hi"],
        ["ask", "-o", "threads=100000000000000000000", "hi"],
        ["ask", "-o", "seed", "hi"],
        ["ask", "-o", "kv_type=zip", "hi"],
        ["ask", "--chat", "0", "hi"],
        ["ask", "-c", "--chat", "3", "hi"],
        ["ask", "--no-save", "-c", "hi"],
        ["ask", "-s", "Be kind.", "-c", "hi"],
        ["ask", "--kb", "notes", "hi"],
        ["ask", "-f", "missing.txt", "hi"],
        ["ask", "-f", "/", "hi"],
        ["ask", "-m"],
        ["kb", "lists"],
        ["serve"],
        ["replay", "3"],
        ["chats", "show"],
        ["chats", "show", "one"],
        ["chats", "show", "7"],
        ["chats", "delete"],
        ["models", "info"],
    ],
)
def test_wrong_usage_is_status_2_with_a_sentence(tmp_path: Path, words: list[str]) -> None:
    assert_clear_failure(run_program(tmp_path, *words), 2)


def bad_models(folder: Path, starter: Path) -> dict[str, Path]:
    """Every kind of file that is no usable model."""
    whole = starter.read_bytes()
    files = {
        "missing": folder / "missing.gguf",
        "empty": folder / "empty.gguf",
        "truncated": folder / "truncated.gguf",
        "header only": folder / "header.gguf",
        "text": folder / "text.gguf",
        "folder": folder / "folder.gguf",
        "architecture": folder / "architecture.gguf",
    }
    files["empty"].write_bytes(b"")
    files["truncated"].write_bytes(whole[: len(whole) // 2])
    files["header only"].write_bytes(whole[:30])
    files["text"].write_text("not a model at all")
    files["folder"].mkdir()
    files["architecture"].write_bytes(whole.replace(b"llama", b"lamma"))
    return files


BAD_MODEL_WORDS = {
    "missing": ("There is no file missing.gguf.", "{path}", "Check the path"),
    "empty": ("empty.gguf is empty.", "0 bytes", "Download"),
    "truncated": ("truncated.gguf is not complete.", "ends at 49 MB of 98 MB", "Download"),
    "header only": ("header.gguf is not complete.", "at 30 bytes, inside its header", "Download"),
    "text": ("text.gguf is not a GGUF file.", "a text of 18 bytes", "Download"),
    "folder": ("folder.gguf is a folder.", "Name the GGUF file inside it."),
    "architecture": ("architecture.gguf cannot be used.", "'lamma'", "Use another model"),
}
"""What is wrong, the fact that shows it, and what to do."""


@pytest.mark.model
def test_a_bad_model_file_is_status_3_and_says_why(tmp_path: Path, starter_model: Path) -> None:
    files = bad_models(tmp_path, starter_model)
    assert files.keys() == BAD_MODEL_WORDS.keys()
    for kind, path in files.items():
        for words in (["ask", "-m", str(path), "hi"], ["models", "check", str(path)]):
            outcome = run_program(tmp_path, *words)
            assert_clear_failure(outcome, 3)
            for part in BAD_MODEL_WORDS[kind]:
                assert part.format(path=path) in outcome.err, (kind, outcome.err)


def test_a_model_that_is_not_there_is_an_object_for_programs(tmp_path: Path) -> None:
    outcome = run_program(tmp_path, "ask", "--json", "-m", "/nowhere/x.gguf", "hi")
    assert outcome.status == 3
    (answer,) = outcome.objects
    assert answer["error"]["code"] == "model"
    assert answer["error"].keys() == {"code", "message", "next"}


def test_listings_without_anything_are_empty_lists(tmp_path: Path) -> None:
    assert json.loads(run_program(tmp_path, "chats", "--json").out) == []
    assert json.loads(run_program(tmp_path, "--json", "chats", "search", "x").out) == []
    assert run_program(tmp_path, "chats").status == 0


def test_locate_names_the_folders_that_are_really_used(tmp_path: Path) -> None:
    places = json.loads(run_program(tmp_path, "locate", "--json").out)
    assert places["data"] == str(tmp_path / "data")
    assert places["config"] == str(tmp_path / "config" / "config.toml")
    one = run_program(tmp_path, "locate", "models")
    assert one.out == f"{tmp_path / 'data' / 'models'}\n"
    assert not (tmp_path / "data").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    outcome = run_program(tmp_path, "chats")
    assert_clear_failure(outcome, 1)
    assert str(tmp_path / "data") in outcome.err


def test_a_damaged_settings_file_is_named_with_the_key(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text("[sampling]\ntemprature = 1\n")
    outcome = run_program(tmp_path, "ask", "hi")
    assert_clear_failure(outcome, 2)
    assert "temprature" in outcome.err
    assert "config.toml" in outcome.err


def test_doctor_shows_facts_and_makes_nothing(tmp_path: Path) -> None:
    facts = json.loads(run_program(tmp_path, "doctor", "--json").out)
    assert facts["versions"]["llama-cpp-python"] == "0.3.36"
    assert facts["chats"]["state"] == "not made yet"
    assert facts["machine"]["cores"] >= 1
    assert not (tmp_path / "data").exists()


def test_doctor_names_a_damaged_database(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "chats.sqlite3").write_bytes(b"no database" * 100)
    outcome = run_program(tmp_path, "doctor", "--json")
    assert outcome.status == 1
    assert "chats" in json.loads(outcome.out)["problems"][0]


def test_options_may_stand_before_the_command() -> None:
    assert split_command(["-m", "a b", "--json", "ask", "-c", "hi"]) == (
        "ask",
        ["-m", "a b", "--json", "-c", "hi"],
    )
    assert split_command(["--plain", "-m", "x"]) == (None, ["--plain", "-m", "x"])
    assert split_command(["--", "ask"]) == (None, ["--", "ask"])


def test_words_and_options_mix_in_any_order() -> None:
    args = command_parser("ask").parse_intermixed_args(["why", "-m", "x", "not", "--json", "now?"])
    assert (args.question, args.model, args.json) == (["why", "not", "now?"], "x", True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_command(tmp_path: Path, shell: str) -> None:
    outcome = run_program(tmp_path, "completion", shell)
    assert outcome.status == 0
    assert all(name in outcome.out for name in COMMANDS)


def test_the_bash_completion_completes(tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(run_program(tmp_path, "completion", "bash").out)
    code = (
        f'source "{script}"; COMP_WORDS=(localchat ask --js); COMP_CWORD=2; _localchat; '
        'echo "${COMPREPLY[@]}"; COMP_WORDS=(localchat ch); COMP_CWORD=1; _localchat; '
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines() == ["--json", "chat chats"]


def test_a_closed_reader_ends_the_program_quietly(tmp_path: Path) -> None:
    code = "import sys; from app.cli import main; sys.exit(main(['--json', 'doctor']))"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) in (0, 141)
    assert errors == b""


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full")
@pytest.mark.parametrize(
    ("redirected", "status"),
    [("<&- >&- 2>&-", 0), (">/dev/full", 1), (">/dev/full 2>/dev/full", 1)],
)
@pytest.mark.parametrize("command", ["locate --json", "--help", "completion bash"])
def test_streams_that_take_nothing_are_never_a_traceback(
    tmp_path: Path, redirected: str, status: int, command: str
) -> None:
    words = " ".join(map(shlex.quote, [*COMMAND, *command.split()]))
    done = subprocess.run(
        ["sh", "-c", f"{words} {redirected}"],
        stderr=subprocess.PIPE,
        # As most people run it: what is written waits in a buffer.
        env={**environment(tmp_path), "PYTHONUNBUFFERED": ""},
        check=False,
    )
    assert done.returncode == status
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
    assert (b"disk is full" in done.stderr) == (redirected == ">/dev/full")
