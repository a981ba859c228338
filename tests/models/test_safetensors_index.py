"""Laws of safetensors folders: what is whole is described as it is; what is damaged, missing,
doubled or outside the folder is refused by name before anything is loaded."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save, save_file

from models.errors import LocalchatError, ModelFileError, ModelNotFound, UnsupportedModel
from models.loaders.safetensors_header import read_shard
from models.loaders.safetensors_index import is_safetensors_folder, read_safetensors
from tests.models.refusal import refusal
from tests.models.safetensors_bytes import SafetensorsBytes, entry, write_index

TENSORS = {"a": ("F32", [2, 3]), "b": ("BF16", [5]), "c": ("F8_E4M3", [7, 1, 2])}
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def write_sharded(folder: Path) -> None:
    SafetensorsBytes({"a": ("F32", [2, 3])}).write(folder / FIRST)
    SafetensorsBytes({"b": ("BF16", [5])}).write(folder / SECOND)
    write_index(folder, {"a": FIRST, "b": SECOND})


def test_a_single_file_is_described(tmp_path: Path) -> None:
    path = SafetensorsBytes(TENSORS).write(tmp_path / "model.safetensors")
    found = read_safetensors(tmp_path)
    assert {name: (one.dtype, list(one.shape)) for name, one in found.tensors.items()} == TENSORS
    assert (found.weights_bytes, found.file_bytes) == (48, path.stat().st_size)
    assert (found.parameters, found.dtype) == (25, "F32")
    assert all(one.file == path for one in found.tensors.values())


def test_shards_are_one_model(tmp_path: Path) -> None:
    write_sharded(tmp_path)
    found = read_safetensors(tmp_path)
    assert {name: one.file.name for name, one in found.tensors.items()} == {"a": FIRST, "b": SECOND}
    assert [shard.path.name for shard in found.shards] == [FIRST, SECOND]
    assert found.weights_bytes == 34


def test_what_the_package_writes_is_read(tmp_path: Path) -> None:
    arrays = {"x": np.zeros((3, 4), np.float16), "y": np.zeros((), np.float32)}
    save_file(arrays, tmp_path / "model.safetensors", metadata={"format": "pt"})
    found = read_safetensors(tmp_path)
    assert {name: one.shape for name, one in found.tensors.items()} == {"x": (3, 4), "y": ()}


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (SafetensorsBytes(TENSORS, missing=1), "ends at"),
        (SafetensorsBytes(TENSORS, missing=60), "ends at"),
        (SafetensorsBytes(TENSORS, extra=1), "tensors up to"),
        (SafetensorsBytes(raw_header=b"{}", length=3), "inside its header"),
        (SafetensorsBytes(raw_header=b"{}", missing=4), "too few for a header"),
        (SafetensorsBytes(raw_header=b"{}", missing=10), "0 bytes"),
        (SafetensorsBytes(TENSORS, length=2**63), "no safetensors file"),
        (SafetensorsBytes(raw_header=b"[]"), "no JSON"),
        (SafetensorsBytes(raw_header=b"{,}"), "cannot be read"),
        (SafetensorsBytes(raw_header=b"{" + b'"a":{' * 20_000), "cannot be read"),
        (SafetensorsBytes(raw_header=b'{"a": {}, "a": {}}'), "'a' twice"),
        (SafetensorsBytes(TENSORS, {"__metadata__": {"x": 1}}), "notes"),
        (SafetensorsBytes(TENSORS, {"b": entry("BF16", [5], 20)}), "b over the one before it"),
        (
            SafetensorsBytes(TENSORS, {"c": entry("F8_E4M3", [7, 2], 36)}),
            "hole before the tensor c",
        ),
        (SafetensorsBytes(TENSORS, {"c": entry("F8_E4M3", [15], 34)}), "ends at"),
        (SafetensorsBytes(TENSORS, {"c": entry("F8_E4M3", [0], 34)}), "c with a dimension of 0"),
        (SafetensorsBytes(TENSORS, {"c": entry("F8_E4M3", [-1], 34)}), "shape of the tensor c"),
        (SafetensorsBytes(TENSORS, {"c": entry("F8_E4M3", [2**62, 4], 34)}), "place of the tensor"),
        (SafetensorsBytes(TENSORS, {"c": {"dtype": "F32"}}), "no dtype, shape and place"),
        (
            SafetensorsBytes(
                TENSORS, {"c": {"dtype": "F32", "shape": [True], "data_offsets": [34, 38]}}
            ),
            "shape of the tensor c",
        ),
        (SafetensorsBytes({"\x1b[31m": ("F32", [1])}), "not readable text"),
    ],
)
def test_a_damaged_file_is_refused_by_name(
    tmp_path: Path, file: SafetensorsBytes, words: str
) -> None:
    file.write(tmp_path / "model.safetensors")
    with pytest.raises(ModelFileError) as caught:
        read_safetensors(tmp_path)
    assert words in str(caught.value)
    assert "model.safetensors" in caught.value.title
    assert caught.value.next_step
    assert str(caught.value).isprintable()


def test_an_unknown_dtype_is_refused_by_name(tmp_path: Path) -> None:
    SafetensorsBytes({"a": ("F4", [8])}).write(tmp_path / "model.safetensors")
    with pytest.raises(UnsupportedModel, match="The tensor a has the dtype F4"):
        read_safetensors(tmp_path)


def test_a_pointer_of_git_lfs_is_named(tmp_path: Path) -> None:
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    (tmp_path / "model.safetensors").write_text(text)
    assert "git lfs pull" in refusal(read_safetensors, tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "../outside.safetensors",
        "/etc/outside.safetensors",
        "sub/outside.safetensors",
        "sub\\outside.safetensors",
        "c:outside.safetensors",
        "outside.bin",
        "a\nb.safetensors",
        "",
        7,
        None,
    ],
)
def test_no_file_outside_the_folder_is_followed(tmp_path: Path, name: Any) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    for place in (tmp_path, folder / "sub"):
        SafetensorsBytes({"a": ("F32", [1])}).write(place / "outside.safetensors")
    write_index(folder, {"a": name})
    assert "no file of this folder" in refusal(read_safetensors, folder)


def test_a_link_of_the_hugging_face_cache_is_followed(tmp_path: Path) -> None:
    blob = SafetensorsBytes(TENSORS).write(tmp_path / "blob")
    folder = tmp_path / "snapshot"
    folder.mkdir()
    (folder / "model.safetensors").symlink_to(blob)
    assert set(read_safetensors(folder).tensors) == set(TENSORS)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write_sharded(tmp_path)
    (tmp_path / SECOND).unlink()
    with pytest.raises(ModelNotFound) as caught:
        read_safetensors(tmp_path)
    assert f"{SECOND} is missing" in str(caught.value)


def test_an_empty_shard_is_named(tmp_path: Path) -> None:
    write_sharded(tmp_path)
    (tmp_path / SECOND).write_bytes(b"")
    assert f"{SECOND} is not complete" in refusal(read_safetensors, tmp_path)


def test_a_pipe_is_no_shard(tmp_path: Path) -> None:
    """Opening one would wait for ever."""
    write_sharded(tmp_path)
    (tmp_path / SECOND).unlink()
    os.mkfifo(tmp_path / SECOND)
    assert f"{SECOND} is missing" in refusal(read_safetensors, tmp_path)


def test_two_sets_of_weights_are_refused(tmp_path: Path) -> None:
    write_sharded(tmp_path)
    SafetensorsBytes(TENSORS).write(tmp_path / "model.safetensors")
    assert "two sets of weights" in refusal(read_safetensors, tmp_path)


def test_files_that_the_index_does_not_name_are_left_alone(tmp_path: Path) -> None:
    write_sharded(tmp_path)
    (tmp_path / "consolidated.safetensors").write_bytes(b"something else")
    assert set(read_safetensors(tmp_path).tensors) == {"a", "b"}


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    write_sharded(tmp_path)
    SafetensorsBytes({"a": ("F32", [2, 3]), "b": ("BF16", [5])}).write(tmp_path / SECOND)
    assert f"holds the tensor a, and so does {FIRST}" in refusal(read_safetensors, tmp_path)


@pytest.mark.parametrize(
    ("weight_map", "words"),
    [
        ({"a": FIRST, "b": SECOND, "z": SECOND}, "looks for the tensor z in it"),
        ({"a": SECOND, "b": FIRST}, "looks for the tensor a in it"),
        ({"b": SECOND, "a": SECOND}, "looks for the tensor a in it"),
    ],
)
def test_an_index_that_says_something_else_is_refused(
    tmp_path: Path, weight_map: dict[str, str], words: str
) -> None:
    write_sharded(tmp_path)
    write_index(tmp_path, weight_map)
    assert words in refusal(read_safetensors, tmp_path)


def test_a_tensor_that_the_index_leaves_out_is_refused(tmp_path: Path) -> None:
    write_sharded(tmp_path)
    SafetensorsBytes({"b": ("BF16", [5]), "x": ("F32", [1])}).write(tmp_path / SECOND)
    assert "the tensor x, of which the index knows nothing" in refusal(read_safetensors, tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"weight_map": []}', '{"weight_map": {}}', "[" * 100_000, '{"a": 1, "a": 2}'],
)
def test_a_damaged_index_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(text)
    assert "index.json is damaged" in refusal(read_safetensors, tmp_path)


def test_a_name_twice_in_the_index_is_refused(tmp_path: Path) -> None:
    write_sharded(tmp_path)
    text = json.dumps({"weight_map": {"a": FIRST}})[:-2] + f', "a": "{SECOND}"}}}}'
    (tmp_path / "model.safetensors.index.json").write_text(text)
    assert "index.json is damaged" in refusal(read_safetensors, tmp_path)


def test_a_folder_without_weights_says_what_it_looked_for(tmp_path: Path) -> None:
    assert not is_safetensors_folder(tmp_path)
    assert "neither model.safetensors nor" in refusal(read_safetensors, tmp_path)
    SafetensorsBytes(TENSORS).write(tmp_path / "adapter.safetensors")
    assert "There is adapter.safetensors" in refusal(read_safetensors, tmp_path)
    assert "holds no safetensors weights" in refusal(read_safetensors, tmp_path / "absent")


def test_a_fingerprint_follows_every_sampled_byte_and_every_name(tmp_path: Path) -> None:
    write_sharded(tmp_path)
    first = read_safetensors(tmp_path).fingerprint()
    assert read_safetensors(tmp_path).fingerprint() == first
    raw = bytearray((tmp_path / SECOND).read_bytes())
    raw[-1] ^= 1
    (tmp_path / SECOND).write_bytes(raw)
    assert read_safetensors(tmp_path).fingerprint() != first


@settings(max_examples=300)
@given(place=st.integers(0, 400), value=st.integers(0, 255), cut=st.integers(0, 400))
def test_no_damage_goes_further_than_a_refusal(
    tmp_path: Path, place: int, value: int, cut: int
) -> None:
    """Whatever a byte or the length becomes: refused, or read as the package reads it."""
    whole = bytearray(save({name: np.zeros(5, np.float32) for name in ("a", "bb", "ccc")}))
    whole[place % len(whole)] = value
    path = tmp_path / "x.safetensors"
    path.write_bytes(whole[: len(whole) - cut % len(whole)] if cut % 3 == 0 else whole)
    try:
        shard = read_shard(path)
    except LocalchatError:
        return
    with safe_open(path, "np") as file:
        names = list(file.keys())
        shapes = {name: file.get_slice(name).get_shape() for name in names}
    assert {one.name: list(one.shape) for one in shard.tensors} == shapes
