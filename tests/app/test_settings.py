"""Settings: order of their sources, and words for every wrong value."""

from __future__ import annotations

import contextlib
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import StorageError
from app.options import load_options, sampling_overrides
from app.paths import Paths
from app.setting_values import allowed
from app.settings import (
    LEAVES,
    OPTION_KEYS,
    KnowledgeSettings,
    Settings,
    apply_options,
    load_settings,
)
from app.settings_file import save_setting
from engine.errors import UsageError
from engine.messages import LoadOptions, SamplingOverrides

GOOD_OPTIONS = [
    "temperature=0", "top_k=0", "top_p=1", "min_p=0.5", "typical_p=0.9", "repeat_penalty=1.1",
    "repeat_last_n=-1", "frequency_penalty=-2", "presence_penalty=2.0", "seed=1", "max_tokens=10",
    "stop=END", "kv_type=q8", "ctx=4096", "threads=2", "flash=on", "speculate=off",
    "canonical=off", "backend=torch_paged", "kernels=reference", "weights=int8", "attach=search",
    "kb_rewrite=off", "kb_read_all=off",
    "kb_rerank=on",
]  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_the_options_are_exactly_the_documented_ones() -> None:
    assert set(OPTION_KEYS) == {option.partition("=")[0] for option in GOOD_OPTIONS}


def test_every_option_reaches_its_setting() -> None:
    settings = apply_options(Settings(), GOOD_OPTIONS)
    assert sampling_overrides(settings) == SamplingOverrides(
        temperature=0.0,
        top_k=0,
        top_p=1.0,
        min_p=0.5,
        typical_p=0.9,
        repeat_penalty=1.1,
        repeat_last_n=-1,
        frequency_penalty=-2.0,
        presence_penalty=2.0,
        seed=1,
    )
    assert settings.sampling.max_tokens == 10
    assert settings.sampling.stop == ("END",)
    assert settings.kb == KnowledgeSettings(
        attach="search", rewrite=False, rerank=True, read_all=False
    )
    paths = Paths.under(Path("/nowhere"))
    assert load_options(settings, paths) == LoadOptions(
        kv_type="q8",
        ctx=4096,
        threads=2,
        flash=True,
        speculate=False,
        canonical=False,
        backend="torch_paged",
        kernels="reference",
        weights="int8",
        cache_folder=str(paths.cache),
        converted_folder=str(paths.converted_models),
    )


def test_defaults_leave_every_choice_to_the_engine() -> None:
    assert sampling_overrides(Settings()) == SamplingOverrides()
    paths = Paths.under(Path("/nowhere"))
    assert load_options(Settings(), paths) == LoadOptions(
        cache_folder=str(paths.cache), converted_folder=str(paths.converted_models)
    )


def test_flag_goes_before_environment_before_file_before_default(file: Path) -> None:
    file.write_text("model = 'file'\n[sampling]\ntop_k = 1\nseed = 1\nmin_p = 0.1\n")
    environ = {"LOCALCHAT_SAMPLING_TOP_K": "2", "LOCALCHAT_SAMPLING_SEED": "2"}
    settings = apply_options(load_settings(file, environ), ["top_k=3"])
    assert settings.model == "file"
    sampling = settings.sampling
    assert (sampling.top_k, sampling.seed, sampling.min_p, sampling.top_p) == (3, 2, 0.1, None)


def test_variables_reach_every_kind_of_setting(file: Path) -> None:
    settings = load_settings(
        file,
        {
            "LOCALCHAT_MODEL": "gemma",
            "LOCALCHAT_ENGINE_KV_TYPE": "k8",
            "LOCALCHAT_ENGINE_FLASH": "auto",
            "LOCALCHAT_CHAT_ENTER_SENDS": "no",
            "LOCALCHAT_SAMPLING_STOP": '["a", "b"]',
            "LOCALCHAT_CACHE_BYTES": "1000",
            "LOCALCHAT_ENGINE_CTX": "auto",
            "LOCALCHAT_DATA_DIR": "/elsewhere",
            "UNRELATED": "x",
        },
    )
    assert settings.model == "gemma"
    assert settings.engine.kv_type == "k8"
    assert settings.engine.flash is None
    assert settings.engine.ctx is None
    assert settings.chat.enter_sends is False
    assert settings.sampling.stop == ("a", "b")
    assert settings.cache.bytes == 1000


def test_stop_may_be_given_several_times_and_replaces_the_files(file: Path) -> None:
    file.write_text("[sampling]\nstop = ['old']\n")
    settings = apply_options(load_settings(file, {}), ["stop=a", "stop=b=c"])
    assert settings.sampling.stop == ("a", "b=c")


@pytest.mark.parametrize(
    "option",
    [
        "temperature=-1", "temperature=nan", "temperature=inf", "temperature=1e308",
        "temperature=warm", "temperature=0x1", "top_k=-1", "top_k=1.5", "top_k=" + "9" * 5000,
        "top_p=1.1", "min_p=-0.1", "typical_p=2", "repeat_penalty=0", "repeat_last_n=-2",
        "frequency_penalty=100", "presence_penalty=-1e9", "seed=-1", "seed=18446744073709551616",
        "max_tokens=-5", "stop=", "stop=" + "x" * 1001, "kv_type=q5", "kv_type=", "ctx=0",
        "ctx=-4096", "ctx=1e308", "threads=0", "threads=2048", "flash=maybe", "canonical=2",
    ],
)  # fmt: skip
def test_an_impossible_value_is_refused_with_key_value_and_what_is_allowed(option: str) -> None:
    with pytest.raises(UsageError) as caught:
        apply_options(Settings(), [option])
    key, _, value = option.partition("=")
    assert key in caught.value.title
    assert value[:50] in caught.value.title
    assert allowed(LEAVES[OPTION_KEYS[key]]) in caught.value.text


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("temperature = 1", "sampling.temperature"),
        ("[sampling]\ntemprature = 1", "sampling.temperature"),
        ("[engine]\nkvtype = 'q8'", "engine.kv_type"),
        ("modle = 'x'", "model"),
    ],
)
def test_an_unknown_key_names_the_nearest(file: Path, content: str, named: str) -> None:
    file.write_text(content)
    with pytest.raises(UsageError) as caught:
        load_settings(file, {})
    assert f"`{named}`" in caught.value.text
    assert str(file) in caught.value.text


def test_an_unknown_option_and_a_misspelt_variable_name_the_nearest(file: Path) -> None:
    with pytest.raises(UsageError, match="temperature"):
        apply_options(Settings(), ["temprature=1"])
    with pytest.raises(UsageError, match="LOCALCHAT_ENGINE_THREADS"):
        load_settings(file, {"LOCALCHAT_ENGINE_THREAD": "1"})
    with pytest.raises(UsageError, match="key=value"):
        apply_options(Settings(), ["temperature"])


@pytest.mark.parametrize(
    "content",
    [
        "[sampling]\ntop_k = '40'", "[sampling]\ntop_k = true", "[sampling]\ntop_p = nan",
        "[sampling]\nstop = 'a'", "[sampling]\nstop = [1]", "[engine]\nflash = 1", "engine = 1",
        "model = ['a']", "[chat]\nenter_sends = 'maybe'", "[keys]\na = 1", "[engine\n", "x = ",
        "[sampling.top_k]\na = 1", "[model]\nname = 'x'",
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_by_name(file: Path, content: str) -> None:
    file.write_text(content)
    with pytest.raises(UsageError) as caught:
        load_settings(file, {})
    assert str(file) in caught.value.text + caught.value.title


def test_a_file_that_is_no_text_or_no_file_is_told(file: Path, tmp_path: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read"):
        load_settings(file, {})
    with pytest.raises(StorageError, match="folder"):
        load_settings(tmp_path, {})
    assert load_settings(tmp_path / "missing.toml", {}) == Settings()


@given(st.sampled_from(sorted(LEAVES)), st.text() | st.integers() | st.floats() | st.booleans())
def test_any_value_is_taken_or_refused(key: str, value: Any) -> None:
    option = {full: short for short, full in OPTION_KEYS.items()}.get(key, "temperature")
    with contextlib.suppress(UsageError):
        assert isinstance(apply_options(Settings(), [f"{option}={value}"]), Settings)


# ---- changing the file


def test_saving_changes_one_line_and_keeps_the_rest(file: Path) -> None:
    file.write_text(
        "# mine\ntheme = 'dark'   # my eyes\n\n[sampling]\n# careful\ntop_k = 1\n"
        "stop = [\n 'a',\n]\n"
        "\n[engine]\nthreads = 2\n"
    )
    save_setting(file, "theme", "light")
    save_setting(file, "sampling.stop", ["b", 'c"d'])
    save_setting(file, "sampling.min_p", 0.25)
    save_setting(file, "chat.system", "line\nline # no comment")
    save_setting(file, "engine.threads", None)
    save_setting(file, "keys.chat.new", "ctrl+n")
    assert file.read_text() == (
        '# mine\ntheme = "light"   # my eyes\n\n[sampling]\n# careful\ntop_k = 1\n'
        'stop = ["b", "c\\"d"]\nmin_p = 0.25\n\n[engine]\n\n[chat]\n'
        'system = "line\\nline # no comment"\n\n[keys]\n"chat.new" = "ctrl+n"\n'
    )
    settings = load_settings(file, {})
    assert settings.chat.system == "line\nline # no comment"
    assert settings.keys == {"chat.new": "ctrl+n"}


def test_saving_makes_the_file_and_finds_dotted_keys(file: Path) -> None:
    save_setting(file, "model", "gemma")
    assert tomllib.loads(file.read_text()) == {"model": "gemma"}
    file.write_text("sampling.top_k = 1\n")
    save_setting(file, "sampling.top_k", 2)
    assert file.read_text() == "sampling.top_k = 2\n"


@pytest.mark.parametrize("content", ["sampling = { top_k = 1 }\n", "sampling.min_p = 0.1\n"])
def test_a_file_that_cannot_be_edited_safely_stays_as_it_was(file: Path, content: str) -> None:
    file.write_text(content)
    with pytest.raises(UsageError, match="by hand"):
        save_setting(file, "sampling.top_k", 2)
    assert file.read_text() == content


def test_wrong_values_are_not_saved(file: Path) -> None:
    for key, value in (("sampling.top_k", -1), ("nope", 1), ("model", "\udcff")):
        with pytest.raises(UsageError):
            save_setting(file, key, value)
    assert not file.exists()


@given(text=st.text(st.characters(codec="utf-8")), number=st.integers(0, 1000))
def test_what_is_saved_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, text: str, number: int
) -> None:
    file = tmp_path_factory.mktemp("settings") / "config.toml"
    save_setting(file, "chat.system", text)
    save_setting(file, "sampling.top_k", number)
    save_setting(file, "sampling.stop", [text[:900] or "x"])
    settings = load_settings(file, {})
    assert settings.chat.system == text
    assert settings.sampling.top_k == number
    assert settings.sampling.stop == (text[:900] or "x",)
