"""Laws of split sets: any part leads to the whole, and what is missing or mixed up is named."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from models.errors import ModelFileError
from models.loaders.split import find_parts, part_name, read_model
from tests.models.gguf_bytes import GGUFBytes, Tensor


def write_set(folder: Path, stem: str, count: int) -> list[Path]:
    paths = []
    for index in range(count):
        file = GGUFBytes(
            {"split.no": index, "split.count": count, "split.tensors.count": count},
            [Tensor(f"w{index}", (8,))],
        )
        paths.append(file.write(folder / f"{stem}-{index + 1:05d}-of-{count:05d}.gguf"))
    return paths


def test_any_part_leads_to_all_tensors(tmp_path: Path) -> None:
    paths = write_set(tmp_path, "a", 3)
    write_set(tmp_path, "b", 2)
    for path in paths:
        files = read_model(path)
        assert [part.path for part in files.parts] == paths
        assert [(tensor.name, tensor.file) for tensor in files.tensors] == [
            (f"w{index}", part) for index, part in enumerate(paths)
        ]


def test_sets_of_the_gguf_package_are_read(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama", split_max_tensors=1)
    for index in range(3):
        writer.add_tensor(f"w{index}", np.full(8, index, np.float32))
    writer.write_header_to_file(path=tmp_path / "m.gguf")
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    files = read_model(tmp_path / "m-00002-of-00003.gguf")
    assert [tensor.name for tensor in files.tensors] == ["w0", "w1", "w2"]


def test_missing_parts_are_named(tmp_path: Path) -> None:
    paths = write_set(tmp_path, "a", 3)
    paths[1].unlink()
    for path in (paths[0], paths[2]):
        with pytest.raises(ModelFileError, match=r"a-00002-of-00003\.gguf is missing"):
            read_model(path)


def test_huge_counts_do_not_flood_the_message(tmp_path: Path) -> None:
    path = tmp_path / "a-00001-of-99999.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(ModelFileError, match="more are missing") as caught:
        read_model(path)
    assert len(str(caught.value)) < 500


def test_a_set_of_one_is_a_model(tmp_path: Path) -> None:
    (path,) = write_set(tmp_path, "a", 1)
    assert read_model(path).tensors[0].name == "w0"


def test_renamed_parts_are_detected(tmp_path: Path) -> None:
    paths = write_set(tmp_path, "a", 2)
    renamed = paths[0].rename(tmp_path / "model.gguf")
    with pytest.raises(ModelFileError, match="part 1 of 2, under another name"):
        read_model(renamed)


def test_swapped_parts_are_detected(tmp_path: Path) -> None:
    first, second = write_set(tmp_path, "a", 2)
    first.rename(tmp_path / "x")
    second.rename(first)
    (tmp_path / "x").rename(second)
    with pytest.raises(ModelFileError, match="Inside it says part 2 of 2; its name says 1 of 2"):
        read_model(first)


def test_parts_of_two_models_do_not_make_one(tmp_path: Path) -> None:
    paths = write_set(tmp_path, "a", 2)
    same = GGUFBytes({"split.no": 1, "split.count": 2}, [Tensor("w0", (8,))])
    same.write(paths[1])
    with pytest.raises(ModelFileError, match="tensor w0 a second time"):
        read_model(paths[0])
    few = GGUFBytes({"split.no": 1, "split.count": 2}, [])
    few.write(paths[1])
    with pytest.raises(ModelFileError, match="hold 1 tensors; the first part counts 2"):
        read_model(paths[0])


def test_joined_parts_are_explained(tmp_path: Path) -> None:
    paths = write_set(tmp_path, "a", 2)
    joined = tmp_path / "joined.gguf"
    joined.write_bytes(b"".join(path.read_bytes() for path in paths))
    with pytest.raises(ModelFileError, match="several files joined"):
        read_model(joined)


@pytest.mark.parametrize(
    "name",
    [
        "a.gguf",
        "a-00000-of-00002.gguf",
        "a-00003-of-00002.gguf",
        "a-1-of-2.gguf",
        "-00001-of-00002",
    ],
)
def test_other_names_are_no_parts(name: str) -> None:
    assert part_name(Path(name)) is None
    assert find_parts(Path(name)) == (Path(name),)
