"""Laws of the header reader: right files read as others read them, wrong ones are named."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.errors import ModelFileError, ModelNotFound, UnsupportedModel
from models.loaders.gguf import ArrayValue, read_gguf
from tests.models.gguf_bytes import GGUFBytes, Tensor, text, tiny_llama, typed
from tests.models.refusal import refusal


def reason(path: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        read_gguf(path)
    assert caught.value.title
    return str(caught.value)


@pytest.mark.model
def test_real_headers_read_as_the_gguf_package_reads_them(starter_model: Path) -> None:
    ours, theirs = read_gguf(starter_model), gguf.GGUFReader(starter_model)
    assert [(t.name, t.shape, t.type.id, t.offset, t.byte_count) for t in ours.tensors] == [
        (
            t.name,
            tuple(int(n) for n in t.shape),
            int(t.tensor_type),
            int(t.data_offset),
            int(t.n_bytes),
        )
        for t in theirs.tensors
    ]
    for key, value in ours.metadata.items():
        expected = theirs.fields[key].contents()
        assert (value.read() if isinstance(value, ArrayValue) else value) == expected, key


def test_written_values_come_back(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    writer.add_uint8("a.u8", 200)
    writer.add_int16("a.i16", -7)
    writer.add_uint64("a.u64", 2**63)
    writer.add_float64("a.f64", 0.1)
    writer.add_bool("a.flag", True)
    writer.add_string("a.text", "mödel\n模型")
    writer.add_array("a.words", ["", "b", "ccc"])
    writer.add_array("a.numbers", [1, -2, 3])
    writer.add_array("a.flags", [True, False])
    writer.add_tensor("w", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = read_gguf(tmp_path / "x.gguf")
    values = {
        key: value.read() if isinstance(value, ArrayValue) else value
        for key, value in file.metadata.items()
        if key.startswith("a.")
    }
    assert values == {
        "a.u8": 200,
        "a.i16": -7,
        "a.u64": 2**63,
        "a.f64": 0.1,
        "a.flag": True,
        "a.text": "mödel\n模型",
        "a.words": ["", "b", "ccc"],
        "a.numbers": [1, -2, 3],
        "a.flags": [True, False],
    }
    (tensor,) = file.tensors
    assert tensor.shape == (3, 2)
    data = tensor.file.read_bytes()[tensor.offset : tensor.offset + tensor.byte_count]
    assert np.frombuffer(data, np.float32).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("version", [2, 3])
def test_known_versions_are_read(tmp_path: Path, version: int) -> None:
    file = tiny_llama()
    file.version = version
    assert read_gguf(file.write(tmp_path / "x.gguf")).version == version


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: setattr(f, "version", 1), "version 1"),
        (lambda f: setattr(f, "version", 0x03000000), "big-endian"),
        (lambda f: setattr(f, "version", 4), "version 4"),
        (lambda f: setattr(f, "tensor_count", 100_001), "100,001 tensors"),
        (lambda f: setattr(f, "key_count", 10_001), "10,001 keys"),
        (lambda f: setattr(f, "tensor_count", 2**64 - 1), "tensors"),
        (
            lambda f: setattr(f, "tensor_count", 50),
            "Its header",
        ),
        (lambda f: f.keys.update({"general.alignment": 48}), "alignment"),
        (lambda f: f.keys.update({"general.alignment": 0}), "alignment"),
        (lambda f: f.keys.update({"general.alignment": 2**21}), "alignment"),
        (lambda f: f.keys.update({"general.alignment": "x"}), "alignment"),
        (lambda f: f.keys.update({"bad\x1b[31mkey": 1}), "key that is not readable"),
        (lambda f: f.keys.update({b"\xff\xfe": 1}), "key that is not readable"),
        (lambda f: f.raw_values.update({"general.name": typed(1)}), "twice"),
        (lambda f: f.raw_values.update({"x": struct.pack("<I", 13)}), "unknown value type 13"),
        (lambda f: f.raw_values.update({"x": struct.pack("<IB", 7, 2)}), "truth value"),
        (
            lambda f: f.raw_values.update({"x": struct.pack("<IIQ", 9, 77, 1)}),
            "unknown value type 77",
        ),
        (
            lambda f: f.raw_values.update({"x": struct.pack("<IIQIQIQ", 9, 9, 1, 9, 1, 9, 1)}),
            "nested",
        ),
        (
            lambda f: f.raw_values.update({"x": struct.pack("<IIQ", 9, 5, 2**62)}),
            "inside its header",
        ),
        (
            lambda f: f.raw_values.update({"x": struct.pack("<IIQ", 9, 8, 7_000_000)}),
            "inside its header",
        ),
        (lambda f: f.raw_values.update({"x": struct.pack("<IIQ", 9, 8, 2**60)}), "strings"),
        (lambda f: f.raw_values.update({"x": struct.pack("<IQ", 8, 2**63)}), "inside its header"),
        (lambda f: setattr(f.tensors[3], "shape", ()), "0 dimensions"),
        (lambda f: setattr(f.tensors[3], "shape", (1, 1, 1, 1, 1)), "5 dimensions"),
        (lambda f: setattr(f.tensors[3], "shape", (64, 0)), "dimension of 0"),
        (
            lambda f: setattr(f.tensors[3], "type", 77),
            "blk.0.attn_k.weight has the storage type 77",
        ),
        (lambda f: setattr(f.tensors[3], "type", 4), "storage type 4"),
        (
            lambda f: f.tensors.insert(0, Tensor("w", (33,), 2)),
            "whole blocks of Q4_0",
        ),
        (lambda f: setattr(f.tensors[3], "offset", 40), "unaligned"),
        (lambda f: setattr(f.tensors[3], "offset", 0), "over the one before"),
        (lambda f: setattr(f.tensors[3], "name", f.tensors[2].name), "twice"),
        (lambda f: setattr(f.tensors[3], "name", "a\nb"), "tensor name that is not readable"),
        (lambda f: setattr(f.tensors[3], "name", "n" * 64), "name of 64 bytes"),
        (lambda f: setattr(f.tensors[3], "name", ""), "tensor name that is not readable"),
    ],
)
def test_each_broken_rule_is_named(
    tmp_path: Path, change: Callable[[GGUFBytes], None], words: str
) -> None:
    file = tiny_llama()
    size = file.data_bytes()
    change(file)
    path = tmp_path / "x.gguf"
    path.write_bytes(file.header() + b"\0" * (size + 64))
    assert words in reason(path)


def test_products_beyond_64_bits_do_not_wrap(tmp_path: Path) -> None:
    file = GGUFBytes({}, [Tensor("w", (2**62, 2**62, 2**62, 2**62), size=64)])
    assert "The file ends at" in reason(file.write(tmp_path / "x.gguf"))


def test_every_shorter_file_is_called_incomplete_with_its_sizes(tmp_path: Path) -> None:
    whole = tiny_llama().build()
    path = tmp_path / "x.gguf"
    for length in [*range(4, 1200, 37), len(whole) - 1, len(whole) // 2]:
        path.write_bytes(whole[:length])
        assert "The file ends at" in reason(path), length
    path.write_bytes(whole[: len(whole) // 2])
    assert "of 358 kB: the download is incomplete" in reason(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"PK\x03\x04" + b"x" * 50, "zip archive"),
        (b"\x80\x02}q\x00.", "pickle"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "git lfs pull"),
        (b"<!DOCTYPE html><html>Sign in</html>", "web page"),
        (b"\n <html>", "web page"),
        (struct.pack("<Q", 20) + b'{"__metadata__":{}}  ', "safetensors"),
        (b"tjgg" + b"\0" * 90, "old GGJT"),
        (b"\0" * 4096, "zeros"),
        (b'{"error": "gone"}', "JSON"),
        (b"Entry not found", "a text of 15 bytes"),
        (b"\x07\x08\x99\xaa", "begins with the bytes 07 08 99 aa"),
    ],
)
def test_foreign_files_are_called_what_they_are(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    assert words in reason(path)


def test_missing_files_and_folders_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"no file gone\.gguf"):
        read_gguf(tmp_path / "gone.gguf")
    (tmp_path / "folder.gguf").mkdir()
    assert "is a folder" in reason(tmp_path / "folder.gguf")
    (tmp_path / "folder.gguf" / "model.safetensors").write_bytes(b"")
    assert "config.json" in reason(tmp_path / "folder.gguf")
    assert "cannot be read" in reason(Path("x" * 4000))
    assert "cannot be read" in reason(Path("a\0b"))


def test_joined_parts_are_recognised(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(tiny_llama().build() + tiny_llama().build())
    assert "several files joined" in reason(path)


def test_raw_pieces_say_how_to_join_them(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf.part1of2"
    path.write_bytes(b"rest of a file")
    assert "cat 'x.gguf.part1of2' 'x.gguf.part2of2' > 'x.gguf'" in reason(path)


def test_names_in_messages_are_printable(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31m\nb\udcff.gguf"
    path.write_bytes(b"junk")
    assert reason(path).isprintable()


@settings(max_examples=300)
@given(st.data())
def test_damaged_headers_raise_readable_errors_only(tmp_path: Path, data: st.DataObject) -> None:
    raw = bytearray(tiny_llama(layers=1).build())
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, 1800))
        patch = data.draw(st.binary(min_size=1, max_size=9))
        raw[place : place + len(patch)] = patch
    path = tmp_path / "x.gguf"
    path.write_bytes(raw)
    tracemalloc.start()
    try:
        assert refusal(read_gguf, path).isprintable()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 20_000_000


@settings(max_examples=150)
@given(st.binary(max_size=400))
def test_random_bytes_behind_the_magic_raise_readable_errors_only(
    tmp_path: Path, body: bytes
) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF\x03\0\0\0" + body)
    assert refusal(read_gguf, path).isprintable()


def test_string_arrays_give_chosen_elements(tmp_path: Path) -> None:
    file = read_gguf(tiny_llama().write(tmp_path / "x.gguf"))
    tokens = file.metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, ArrayValue)
    assert tokens.strings([0, 7, 39]) == ["t0", "t7", "t39"]
    assert text("ab") == b"\2\0\0\0\0\0\0\0ab"


def test_unknown_types_are_unsupported_not_damaged(tmp_path: Path) -> None:
    file = tiny_llama()
    file.tensors[3].type = 77
    with pytest.raises(UnsupportedModel):
        read_gguf(file.write(tmp_path / "x.gguf"))
