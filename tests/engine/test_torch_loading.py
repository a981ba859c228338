"""Laws of loading for our own backend, on the CPU: the worker answers as transformers does, what
cannot be loaded is refused before memory is taken, and what is predicted is what is taken.
"""

from __future__ import annotations

import copy
import json
import shutil
import weakref
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.backends.base import Row
from engine.backends.torch_paged.backend import TorchPagedBackend
from engine.client import EngineClient
from engine.error_values import EngineStopped
from engine.errors import ModelFileError, OutOfMemory, UnsupportedModel, UsageError
from engine.messages import Load, LoadOptions, SamplingOverrides
from engine.worker import loading_torch
from engine.worker.dispatch import load
from engine.worker.model import Model
from kernels.quantized_weight import QuantizedWeight
from models.decoder import Decoder
from models.weights import Weights
from tests.engine.client_support import ask, said, user
from tests.models.gguf_bytes import tiny_llama
from tests.models.hf_folders import VOCAB, change_config, greedy_answer, write_folder
from tests.models.peak_bytes import PeakBytes

GREEDY = SamplingOverrides(temperature=0)
OWN = LoadOptions(backend="torch_paged", self_tune=False, threads=1)
QUESTIONS = ("The quick brown fox 1234", "why?\r\n  你好 😀", "print(i, 'x' * 3)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("made") / "tiny")


@pytest.fixture(scope="module")
def client(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineClient]:
    client = EngineClient(tmp_path_factory.mktemp("log") / "engine.log")
    client.load(str(folder), OWN)
    yield client
    client.close()


def go_on(_done: int, _total: int) -> bool:
    return True


@pytest.fixture
def loaded() -> Iterator[list[Model]]:
    """Models to be closed at the end."""
    models: list[Model] = []
    yield models
    for model in models:
        model.close()


def test_what_is_loaded_is_told(client: EngineClient) -> None:
    found = client.loaded
    assert found is not None
    assert (found.backend, found.kv_type, found.name) == ("torch_paged", "f32", "tiny")
    assert (found.architecture, found.quantization, found.template) == (
        "llama",
        "F32",
        "model file",
    )
    assert (found.ctx, found.ctx_train, found.fits) == (1024, 1024, True)
    # Two layers, K and V, two heads of 16 values of 4 bytes.
    assert found.kv_bytes_per_token == 2 * 2 * 2 * 16 * 4


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_worker_answers_as_transformers_does(
    client: EngineClient, folder: Path, question: str
) -> None:
    prompt, answer = greedy_answer(folder, question, 24)
    result = ask(client, question, conversation=question, sampling=GREEDY, max_tokens=24)
    assert list(result.prompt_ids) == prompt
    assert list(result.token_ids) == answer
    assert result.kv_type == "f32"


def test_the_next_turn_computes_what_is_new(client: EngineClient, folder: Path) -> None:
    first = ask(client, "hello the", conversation="turns", sampling=GREEDY, max_tokens=8)
    identity = client.loaded.tokenizer if client.loaded else ""
    turns = (user("hello the"), said(first, identity), user("and?"))
    second = ask(client, *turns, conversation="turns", sampling=GREEDY, max_tokens=8)
    usage = second.usage
    found = usage.reused_tokens + usage.restored_tokens
    assert found >= first.usage.prompt_tokens
    assert usage.computed_tokens == usage.prompt_tokens - found


def test_loading_tells_its_progress_and_can_be_stopped(folder: Path) -> None:
    seen: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> bool:
        seen.append((done, total))
        return len(seen) < 5

    with pytest.raises(EngineStopped):
        load(Load(str(folder), OWN), stop)
    assert len(seen) == 5
    assert seen[0][0] == 0 < seen[-1][0] < seen[-1][1]


def test_too_little_memory_is_refused_with_figures(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.worker.loading_torch.free_memory", lambda: 2_000_000)
    monkeypatch.setattr("engine.worker.loading_torch.load_safetensors", None)
    with pytest.raises(OutOfMemory, match=r"weights.*KV.*compute.*2\.0 MB are free"):
        load(Load(str(folder), OWN), go_on)


def test_what_the_decoder_made_anew_is_not_held_twice(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels want some matrices as one: those that were read are gone before the pools come."""
    read: list[weakref.ref[torch.Tensor]] = []

    def noted(job: Any, progress: Any) -> Weights:
        found = weights_of(job, progress)
        assert isinstance(found.layers[0].q, torch.Tensor)
        read.append(weakref.ref(found.layers[0].q))
        return found

    def joining(config: Any, weights: Weights, *rest: Any) -> Decoder:
        return Decoder(config, copy.deepcopy(weights), *rest)

    def backend(*given: Any) -> TorchPagedBackend:
        assert read[0]() is None
        return TorchPagedBackend(*given)

    weights_of = loading_torch._weights
    monkeypatch.setattr(loading_torch, "_weights", noted)
    monkeypatch.setattr(loading_torch, "Decoder", joining)
    monkeypatch.setattr(loading_torch, "TorchPagedBackend", backend)
    load(Load(str(folder), OWN), go_on).close()


def test_memory_that_a_decoder_lacks_is_told_as_such(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> NoReturn:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB.\nmore")

    monkeypatch.setattr(loading_torch, "Decoder", full)
    with pytest.raises(OutOfMemory, match=r"CUDA out of memory. Tried to allocate 1 GiB. Use"):
        load(Load(str(folder), OWN), go_on)


def test_broken_weights_are_found_by_the_probe(folder: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(folder, tmp_path / "broken"))
    state = load_file(broken / "model.safetensors")
    state["model.norm.weight"][3] = torch.nan
    save_file(state, broken / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelFileError, match="broken computes nonsense"):
        load(Load(str(broken), OWN), go_on)


def test_an_unknown_family_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    change_config(other, model_type="warp9")
    with pytest.raises(UnsupportedModel, match="warp9"):
        load(Load(str(other), OWN), go_on)


def test_a_gguf_that_only_llama_cpp_knows_is_refused(tmp_path: Path) -> None:
    path = tiny_llama(2, "mamba").write(tmp_path / "x.gguf")
    with pytest.raises(UnsupportedModel, match="mamba"):
        load(Load(str(path), OWN), go_on)


@pytest.mark.parametrize(
    ("options", "words"), [({"kv_type": "q5"}, "q5"), ({"ctx": 20}, "too short")]
)
def test_settings_that_cannot_be_are_named(folder: Path, options: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load(Load(str(folder), LoadOptions(backend="torch_paged", **options)), go_on)


def test_forced_kernels_need_a_device(folder: Path) -> None:
    forced = LoadOptions(backend="torch_paged", kernels="triton")
    with pytest.raises(UsageError, match=r"kernels=triton .* no NVIDIA device"):
        load(Load(str(folder), forced), go_on)


def test_rounded_weights_are_told_and_bind_saved_states(
    tmp_path: Path, loaded: list[Model]
) -> None:
    folder = write_folder(tmp_path / "odd", intermediate_size=70)
    rounding = LoadOptions(backend="torch_paged", weights="int8")
    loaded += [load(Load(str(folder), options), go_on) for options in (OWN, rounding)]
    plain, rounded = loaded
    assert (plain.loaded.quantization, rounded.loaded.quantization) == ("F32", "INT8")
    assert plain.loaded.weights_bytes > 2 * rounded.loaded.weights_bytes
    assert plain.fingerprint != rounded.fingerprint
    told = "Matrices that stay float32 although weights=int8: 2; "
    assert any(one.startswith(told) for one in rounded.loaded.notices)
    assert not any("weights" in one for one in plain.loaded.notices)


def test_rounding_is_refused_where_it_cannot_be(folder: Path, tmp_path: Path) -> None:
    """A folder on llama.cpp, and a file, which has a type of its own, anywhere."""
    needed = {"llama__attention__layer_norm_rms_epsilon": 1e-5}
    file = tiny_llama(2, **needed).write(tmp_path / "x.gguf")
    cases: tuple[tuple[Path, Any, str], ...] = (
        (folder, "llama_cpp", "models convert --type q8_0"),
        (file, "llama_cpp", "Leave weights at auto"),
        (file, "torch_paged", "a GGUF file has a type of its own"),
    )
    for path, backend, words in cases:
        options = LoadOptions(backend=backend, weights="int8")
        with pytest.raises(UsageError, match="weights=int8 cannot be used with") as caught:
            load(Load(str(path), options), go_on)
        assert words in str(caught.value)


def test_padding_of_the_output_is_never_an_id(tmp_path: Path, loaded: list[Model]) -> None:
    padded = write_folder(tmp_path / "padded", vocab_size=512)
    loaded.append(load(Load(str(padded), OWN), go_on))
    assert loaded[0].backend.facts.vocab_size == VOCAB
    scores = loaded[0].backend.forward([Row(0, 0, (1, 2), True)])
    assert scores.row(0).shape == (VOCAB,)


def test_the_folders_sampling_is_the_default(
    folder: Path, tmp_path: Path, loaded: list[Model]
) -> None:
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    chosen = {"temperature": 0.25, "top_k": 7, "repetition_penalty": 1.5, "top_p": "much"}
    (other / "generation_config.json").write_text(json.dumps(chosen))
    loaded.append(load(Load(str(other), OWN), go_on))
    defaults = loaded[0].chat._defaults
    assert (defaults.temperature, defaults.top_k, defaults.repeat_penalty) == (0.25, 7, 1.5)


def test_a_saved_state_is_bound_to_all_that_it_depends_on(
    folder: Path, tmp_path: Path, loaded: list[Model]
) -> None:
    def fingerprint(path: Path = folder, **options: Any) -> str:
        wanted = LoadOptions(backend="torch_paged", **options)
        loaded.append(load(Load(str(path), wanted), go_on))
        return loaded[-1].fingerprint

    plain = fingerprint()
    assert fingerprint(cache_bytes=0, ctx=256) == plain
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    change_config(other, rms_norm_eps=1e-3)
    changed = fingerprint(kv_type="q8"), fingerprint(other), fingerprint(kernels="reference")
    assert len({plain, *changed}) == 4


# ---- memory


def taken(backend: TorchPagedBackend, ctx: int) -> int:
    """Bytes of weights, of pools, and of the largest pass at the end of a full context: a piece of
    a prompt, or drafts whose scores are all wanted.
    """
    rows, done = backend.settings.max_rows, 0
    drafts = backend.facts.max_draft + 1
    ids = tuple(i % 100 for i in range(ctx))
    while ctx - done > rows:
        backend.forward([Row(0, done, ids[done : done + rows], False)])
        done += rows
    with PeakBytes() as reading:
        backend.forward([Row(0, done, ids[done:], True)])
    backend.truncate(0, ctx - drafts)
    with PeakBytes() as drafting:
        backend.forward([Row(0, ctx - drafts, ids[-drafts:], True, True)])
    most = max(reading.peak, drafting.peak)
    return held(backend._decoder.weights) + backend.pool_bytes + most


def held(weights: Weights) -> int:
    values = [weights.embedding, weights.norm]
    values += [] if weights.output is weights.embedding else [weights.output]
    values += [getattr(layer, field.name) for layer in weights.layers for field in fields(layer)]
    found = (
        one.data if isinstance(one, QuantizedWeight) else one for one in values if one is not None
    )
    return sum(tensor.nbytes for tensor in found)


def predicted(path: Path, options: LoadOptions) -> Any:
    from engine.backends.torch_paged.planning import PagedDevice, paged_settings, plan_paged
    from models.description import describe
    from models.free_memory import free_memory
    from models.own_decoder import decoder_config

    description = describe(path)
    config, device = decoder_config(description), PagedDevice("cpu", None, free_memory())
    settings = paged_settings(config, device, options.kv_type)
    return plan_paged(description, config, device, settings, options.ctx)


@pytest.mark.model
@pytest.mark.parametrize(("kind", "kv_type"), [("folder", "auto"), ("file", "q8")])
def test_predicted_memory_is_what_is_taken(
    starter_folder: Path, starter_model: Path, loaded: list[Model], kind: str, kv_type: str
) -> None:
    path = starter_folder if kind == "folder" else starter_model
    options = LoadOptions(backend="torch_paged", kv_type=kv_type, ctx=2 * 520)
    loaded.append(load(Load(str(path), options), go_on))
    backend = loaded[0].backend
    assert isinstance(backend, TorchPagedBackend)
    plan = predicted(path, options)
    assert plan.predicted.weights == held(backend._decoder.weights)
    assert plan.predicted.kv == backend.pool_bytes
    really = taken(backend, 2 * 520)
    assert abs(plan.predicted.total - really) <= 0.03 * really
