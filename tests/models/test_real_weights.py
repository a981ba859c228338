"""Real models through both loaders: equal to transformers on the same weights, and to llama.cpp as
far as llama.cpp is equal to itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel

from models.decoder import Decoder
from models.gguf_config import config_from_gguf
from models.hf_config import config_from_hf
from models.hf_folder import CONFIG, read_json
from models.loaders.gguf_weights import load_gguf
from models.loaders.safetensors_weights import load_safetensors
from models.loaders.split import read_model
from models.probe import check_finite
from tests.models.agreement import agreement
from tests.models.f32_gguf import write_f32
from tests.models.llama_logits import LlamaModel
from tests.models.paged import PagedRun

pytestmark = pytest.mark.model

ANSWER = 64
TOKENS = 640
"""More than the window of 512."""
WANTED = range(0, TOKENS, 5)
TEXT = (
    "A lighthouse is a tower that shows a light to ships at night. The first ones were hills with "
    "a fire on top; later keepers burned oil behind glass, and climbed {n} steps every evening to "
    "trim the wick. In the year 17{n} a storm broke the lantern of the one at the cape, and the "
    "keeper's daughter rowed out to warn the mail boat. Today a lamp no larger than a fist, turned "
    "by a motor and watched by nobody, is seen {n} kilometres away.\n"
)


@dataclass(frozen=True)
class RealModel:
    gguf: Path
    folder: Path
    reference: PreTrainedModel
    ids: list[int]
    """TOKENS ids of prose."""


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module", params=["starter", "window"])
def real(request: pytest.FixtureRequest) -> RealModel:
    gguf: Path = request.getfixturevalue(f"{request.param}_model")
    folder: Path = request.getfixturevalue(f"{request.param}_folder")
    reference = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    with LlamaModel(gguf) as model:
        ids = model.ids("".join(TEXT.format(n=n) for n in range(40, 50)))[:TOKENS]
    assert len(ids) == TOKENS
    return RealModel(gguf, folder, reference, ids)


@pytest.fixture(scope="module")
def from_folder(real: RealModel) -> Decoder:
    config = config_from_hf(read_json(real.folder / CONFIG))
    return Decoder(config, load_safetensors(real.folder, config, "cpu", torch.float32))


@pytest.fixture(scope="module")
def from_gguf(real: RealModel) -> Decoder:
    config = config_from_gguf(read_model(real.gguf))
    return Decoder(config, load_gguf(real.gguf, config, "cpu", torch.float32))


@pytest.fixture(scope="module")
def gguf_logits(real: RealModel, from_gguf: Decoder) -> Tensor:
    """Ours of the file as it is, blocks packed."""
    return PagedRun(from_gguf, capacity=TOKENS).step(real.ids, wanted=WANTED)


def test_greedy_answer_of_a_folder_is_transformers(real: RealModel, from_folder: Decoder) -> None:
    prompt = real.ids[:50]
    expected = real.reference.generate(
        torch.tensor([prompt]), max_new_tokens=ANSWER, do_sample=False, eos_token_id=None
    )
    run, found, added = PagedRun(from_folder, capacity=len(prompt) + ANSWER), list(prompt), prompt
    for _ in range(ANSWER):
        best = run.step(added, wanted=[len(added) - 1]).argmax()
        added = [int(best)]
        found += added
    assert found == expected[0].tolist()


def test_gguf_equals_transformers_on_the_same_numbers(real: RealModel, gguf_logits: Tensor) -> None:
    with torch.no_grad():
        inner = real.reference.model(torch.tensor([real.ids]), use_cache=False)
        expected = real.reference.lm_head(inner.last_hidden_state[0, list(WANTED)])
    found = agreement(gguf_logits, expected)
    print("against transformers:", found)
    assert found.error <= 1e-4
    assert found.top1 == 1


def test_gguf_equals_llama_cpp_on_the_same_numbers(
    real: RealModel, gguf_logits: Tensor, tmp_path: Path
) -> None:
    with LlamaModel(write_f32(real.gguf, tmp_path / "f32.gguf")) as model:
        expected = torch.from_numpy(model.logits(real.ids, WANTED))
    (tmp_path / "f32.gguf").unlink()
    found = agreement(gguf_logits, expected)
    print("against llama.cpp in F32:", found)
    assert found.top1 == 1
    assert found.kld <= 1e-5


def test_gguf_is_within_llama_cpps_own_spread(real: RealModel, gguf_logits: Tensor) -> None:
    """llama.cpp rounds activations to 8 bit, and so differs from itself with flash attention."""
    with LlamaModel(real.gguf) as model:
        plain = torch.from_numpy(model.logits(real.ids, WANTED))
        flash = torch.from_numpy(model.logits(real.ids, WANTED, flash=True))
    spread, found = agreement(flash, plain), agreement(gguf_logits, plain)
    print("against llama.cpp:", found, "llama.cpp against itself:", spread)
    assert found.kld <= 1.5 * spread.kld


def test_both_pass_the_probe(real: RealModel, from_gguf: Decoder, from_folder: Decoder) -> None:
    check_finite(from_gguf, real.gguf.name)
    check_finite(from_folder, real.folder.name)
