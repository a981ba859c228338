"""Laws of the description of safetensors folders: as their files say, refused by name, no torch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.description import describe
from models.errors import ModelFileError, UnsupportedModel
from models.own_decoder import decoder_config, loaded_bytes
from models.tokenizers.hf_tokenizer import HFTokenizer
from tests.models.hf_folders import SIZES, TEMPLATE, VOCAB, change_config, write_folder
from tests.models.refusal import refusal


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("made") / "tiny", dtype=torch.bfloat16)


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(made, tmp_path / "tiny"))


def test_a_folder_is_described_by_its_files(folder: Path) -> None:
    (folder / "README.md").write_text("---\nlicense: apache-2.0\nlanguage: en\n---\n# Tiny\n")
    found = describe(folder)
    assert (found.format, found.architecture, found.quantization) == (
        "safetensors",
        "llama",
        "BF16",
    )
    assert (found.name, found.layers, found.embedding, found.heads) == ("tiny", 2, 64, 4)
    assert (found.kv_heads, found.key_length, found.value_length) == ((2, 2), 16, 16)
    assert (found.ctx_train, found.vocab_size, found.window) == (1024, VOCAB, None)
    assert found.files == (folder / "model.safetensors",)
    assert found.file_bytes == (folder / "model.safetensors").stat().st_size
    assert found.parameters * 2 == found.weights_bytes < found.file_bytes
    assert (found.template, found.license) == (TEMPLATE, "apache-2.0")
    assert found.tokenizer == HFTokenizer(folder).fingerprint


def test_its_size_in_memory_follows_the_dtype_of_the_load(folder: Path) -> None:
    found = describe(folder)
    config = decoder_config(found)
    assert loaded_bytes(found, config, "bfloat16") == found.weights_bytes
    assert loaded_bytes(found, config, "float32") == 2 * found.weights_bytes


def test_describing_needs_no_torch(folder: Path) -> None:
    code = (
        "import sys; sys.modules.update(torch=None, llama_cpp=None, gguf=None, safetensors=None)\n"
        "from pathlib import Path; from models.description import describe\n"
        "print(describe(Path(sys.argv[1])).name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "tiny\n"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("chat_template.jinja", "{{ 'own file' }}", "{{ 'own file' }}"),
        ("chat_template.jinja", "", None),
        ("tokenizer_config.json", '{"chat_template": "{{ 1 }}"}', "{{ 1 }}"),
        (
            "tokenizer_config.json",
            '{"chat_template": [{"name": "tools", "template": "no"},'
            ' {"name": "default", "template": "yes"}]}',
            "yes",
        ),
        ("tokenizer_config.json", '{"chat_template": [{"name": "rag", "template": "no"}]}', None),
        ("tokenizer_config.json", '{"chat_template": 7}', None),
        ("tokenizer_config.json", "{}", None),
    ],
)
def test_the_template_comes_from_its_file_or_the_tokenizers_settings(
    folder: Path, name: str, content: str, expected: str | None
) -> None:
    (folder / name).write_text(content)
    found = describe(folder)
    assert found.template == expected
    assert bool(found.template_hash) is (expected is not None)


def test_windows_and_their_layers_are_told(folder: Path) -> None:
    change_config(
        folder, model_type="mistral", architectures=["MistralForCausalLM"], sliding_window=64
    )
    found = describe(folder)
    assert (found.window, found.window_layers) == (64, (True, True))


def remove(name: str) -> Any:
    return lambda folder: (folder / name).unlink()


def write(name: str, text: str) -> Any:
    return lambda folder: (folder / name).write_text(text)


def only_pickles(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def another_size(folder: Path) -> None:
    change_config(folder, intermediate_size=128)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (remove("config.json"), "no config.json"),
        (write("config.json", "{"), "config.json cannot be used"),
        (write("config.json", "[]"), "holds no object"),
        (write("generation_config.json", "\0"), "generation_config.json"),
        (remove("tokenizer.json"), "holds no tokenizer.json"),
        (remove("model.safetensors"), "no .safetensors file"),
        (write("model.safetensors", "x"), "not complete"),
        (only_pickles, "pytorch_model.bin, a Python pickle"),
        (another_size, "the config asks for"),
    ],
)
def test_incomplete_folders_say_what_is_missing(folder: Path, spoil: Any, words: str) -> None:
    spoil(folder)
    with pytest.raises(ModelFileError) as caught:
        describe(folder)
    assert words in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "warp9"}, "warp9"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "LlamaForSequenceClassification"),
        ({"rope_parameters": {"rope_type": "spiral", "rope_theta": 1e4}}, "spiral"),
        ({"hidden_act": "tangens"}, "tangens"),
    ],
)
def test_what_cannot_run_is_refused_by_name_with_the_folder(
    folder: Path, changes: dict[str, Any], words: str
) -> None:
    change_config(folder, **changes)
    with pytest.raises(UnsupportedModel) as caught:
        describe(folder)
    assert words in str(caught.value)
    assert "tiny" in caught.value.title


def test_the_cache_of_hugging_face_gives_the_models_name(made: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "models--org--Some-Model-1B" / "snapshots" / ("0" * 40)
    shutil.copytree(made, snapshot)
    assert describe(snapshot).name == "Some-Model-1B"


def test_fingerprints_follow_weights_and_config(folder: Path) -> None:
    plain = describe(folder).fingerprint
    change_config(folder, rms_norm_eps=1e-4)
    changed = describe(folder).fingerprint
    file = folder / "model.safetensors"
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    assert len({plain, changed, describe(folder).fingerprint}) == 3


def test_a_folder_named_like_a_file_stays_a_folder(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").mkdir()
    with pytest.raises(ModelFileError, match="is a folder"):
        describe(tmp_path / "x.gguf")


def test_old_settings_files_may_be_absent(folder: Path) -> None:
    for name in ("generation_config.json", "tokenizer_config.json"):
        (folder / name).unlink()
    found = describe(folder)
    assert found.template is None
    assert json.loads((folder / "config.json").read_text())["model_type"] == found.architecture


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(-5, 5), max_size=3),
    st.dictionaries(st.sampled_from(["rope_type", "factor", "content"]), st.text(max_size=4)),
)
KEYS = (
    *SIZES,
    *("model_type", "architectures", "rope_parameters", "rope_scaling", "rope_theta", "head_dim"),
    *("hidden_act", "rms_norm_eps", "tie_word_embeddings", "sliding_window", "layer_types"),
    *("quantization_config", "attention_bias", "torch_dtype", "add_bos_token", "bos_token"),
    *("chat_template", "added_tokens_decoder", "additional_special_tokens"),
)


@settings(max_examples=150)
@given(
    st.sampled_from(["config.json", "tokenizer_config.json", "generation_config.json"]),
    st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=3),
)
def test_any_value_at_any_key_is_described_or_refused_readably(
    folder: Path, name: str, changes: dict[str, Any]
) -> None:
    file = folder / name
    before = file.read_text()
    file.write_text(json.dumps({**json.loads(before), **changes}))
    try:
        assert refusal(describe, folder).isprintable()
        assert refusal(HFTokenizer, folder).isprintable()
    finally:
        file.write_text(before)
