"""What a step of a whole model launches: as many kernels as docs/kernels.md says, no waiting for
the device, no memory of its own, and no new variant from one step to the next.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from kernels.weight_planes import empty_planes
from models.config import ModelConfig
from models.decoder import Decoder
from models.weights import Matrix
from tests.kernels.triton.dry_run import Launch, dry_run
from tests.kernels.triton.meta_model import (
    CONFIG,
    EXPERTS,
    GEMMA,
    NoNewMemory,
    decoder,
    pools,
    step,
)

ARCHITECTURE = 90
ATTENTION = ["store_qkv_kernel", "decode_attention_kernel", "merge_kernel"]
LINEAR = {"bf16": "dense_linear_kernel", "Q4_K": "packed_linear_kernel"}


def planes(kind: str, **others: str) -> Callable[[str, tuple[int, ...]], Matrix]:
    """`others`: of some matrices, by their names."""
    return lambda name, shape: empty_planes(others.get(name, kind), shape, torch.device("meta"))


def launched(
    model: Decoder, config: ModelConfig, new: list[int], kv: str, wanted: int
) -> tuple[list[Launch], list[str]]:
    """Of one pass in given room, after one of the same kind: launches, and where memory was
    taken.
    """
    held, given = pools(config, kv), step(config, new, wanted)
    room = model.workspace(64, 8).part(sum(new), wanted)
    with dry_run(ARCHITECTURE) as launches:
        model.forward(given, held, room=room)
        before = len(launches)
        with NoNewMemory() as memory:
            model.forward(given, held, room=room)
    return launches[before:], memory.found


@pytest.mark.parametrize(("kind", "kv"), [("bf16", "bf16"), ("bf16", "q8"), ("Q4_K", "q8")])
def test_a_decode_step_is_seven_launches_a_layer(kind: str, kv: str) -> None:
    model = decoder(CONFIG, matrix=None if kind == "bf16" else planes(kind))
    linear = LINEAR[kind]
    layer = [linear, *ATTENTION, linear, linear, linear]
    launches, taken = launched(model, CONFIG, [1, 1, 1, 1], kv, 4)
    wanted = ["embed_kernel", *layer * 2, "norm_rows_kernel", "dense_linear_kernel"]
    assert [one.name for one in launches] == wanted
    assert not taken
    assert not model.missing_kernels(pools(CONFIG, kv), CONFIG.vocab_size)


@pytest.mark.parametrize(
    "others",
    [
        {"v": "Q6_K"},
        pytest.param({"v": "Q6_K", "down": "Q6_K"}, marks=pytest.mark.model),
        pytest.param({"k": "Q8_0", "v": "Q8_0"}, marks=pytest.mark.model),
    ],
)
def test_files_of_mixed_types_take_no_more(others: dict[str, str]) -> None:
    """Those named Q4_K_M keep v, and in the same layers down, in more bits than the others."""
    model = decoder(CONFIG, matrix=planes("Q4_K", **others))
    linear = LINEAR["Q4_K"]
    layer = ["mixed_linear_kernel", *ATTENTION, linear, linear, linear]
    launches, taken = launched(model, CONFIG, [1, 1, 1, 1], "q8", 4)
    wanted = ["embed_kernel", *layer * 2, "norm_rows_kernel", "dense_linear_kernel"]
    assert [one.name for one in launches] == wanted
    assert not taken
    assert not model.missing_kernels(pools(CONFIG, "q8"), CONFIG.vocab_size)
    launches, taken = launched(model, CONFIG, [64], "q8", 1)
    names = [one.name for one in launches]
    assert names[1:5] == ["norm_rows_kernel", *["plane_matrix_kernel"] * 2, "store_qkv_kernel"]
    assert not taken


def test_norms_after_the_blocks_are_a_launch_each() -> None:
    model, linear = decoder(GEMMA), LINEAR["bf16"]
    layer = [linear, *ATTENTION, linear, "norm_rows_kernel", linear, linear, "norm_rows_kernel"]
    launches, taken = launched(model, GEMMA, [1, 1], "q8", 2)
    wanted = ["embed_kernel", *layer * 2, "norm_rows_kernel", linear]
    assert [one.name for one in launches] == wanted
    assert not taken


def test_experts_are_chosen_without_the_host() -> None:
    model, linear = decoder(EXPERTS), LINEAR["bf16"]
    network = ["norm_rows_kernel", linear, linear, linear]
    launches, _ = launched(model, EXPERTS, [1, 1], "q8", 2)
    wanted = ["embed_kernel", *[linear, *ATTENTION, linear, *network] * 2]
    assert [one.name for one in launches] == [*wanted, "norm_rows_kernel", linear]
    held = pools(EXPERTS, "q8")
    assert model.why_not_recorded(8, 1, held) is None
    assert "experts" in str(model.why_not_recorded(64, 64, held))


def test_checking_drafts_takes_the_kernels_of_decoding() -> None:
    launches, taken = launched(decoder(CONFIG), CONFIG, [4, 4], "q8", 8)
    layer = [LINEAR["bf16"], *ATTENTION, *[LINEAR["bf16"]] * 3]
    assert [one.name for one in launches][1:8] == layer
    assert not taken


def test_answers_beside_a_prompt_have_kernels_of_their_own() -> None:
    launches, _ = launched(decoder(CONFIG), CONFIG, [1, 1, 40], "q8", 3)
    names = [one.name for one in launches if "attention" in one.name or "merge" in one.name]
    layer = ["decode_attention_kernel", "merge_kernel", "prefill_attention_kernel"]
    assert names == layer * 2


@pytest.mark.parametrize("kind", LINEAR)
def test_a_prompt_goes_through_the_vendors_product(kind: str) -> None:
    """Which is no kernel of ours, so that the list has only what stands around it."""
    model = decoder(CONFIG, matrix=None if kind == "bf16" else planes(kind))
    decoded = [] if kind == "bf16" else ["plane_matrix_kernel"]
    layer = ["norm_rows_kernel", *decoded, "store_qkv_kernel", "prefill_attention_kernel"]
    layer += [*decoded, "norm_rows_kernel", *decoded * 2, "gated_kernel", *decoded]
    launches, taken = launched(model, CONFIG, [64], "q8", 1)
    wanted = ["embed_kernel", *layer * 2, "norm_rows_kernel", "dense_linear_kernel"]
    assert [one.name for one in launches] == wanted
    assert not taken
    assert model.why_not_recorded(64, 64, pools(CONFIG, "q8")) is None


def test_batches_share_their_variants() -> None:
    model, held = decoder(CONFIG), pools(CONFIG, "q8")
    with dry_run(ARCHITECTURE) as launches:
        for count in (2, 3, 5, 8):
            room = model.workspace(8, 8).part(count, count)
            model.forward(step(CONFIG, [1] * count, count), held, room=room)
    kinds = {(one.name, one.variant) for one in launches}
    names = [name for name, _ in kinds]
    # q, k and v, the output, the network's two halves and the head differ in shape.
    assert {name: names.count(name) for name in set(names)} == {
        "embed_kernel": 1,
        "dense_linear_kernel": names.count("dense_linear_kernel"),
        "store_qkv_kernel": 1,
        "decode_attention_kernel": 1,
        "merge_kernel": 1,
        "norm_rows_kernel": 1,
    }
    assert names.count("dense_linear_kernel") <= 5


def test_plain_torch_can_be_forced() -> None:
    model = decoder(CONFIG, mode="reference")
    with dry_run(ARCHITECTURE) as launches, pytest.raises(RuntimeError):
        # Its attention asks the device for lengths, which meta tensors do not have.
        model.forward(step(CONFIG, [1], 1), pools(CONFIG, "q8"))
    assert not launches


def test_what_has_no_kernel_is_named_with_its_reason() -> None:
    model, held = decoder(CONFIG), pools(CONFIG, "f32")
    missing = model.missing_kernels(held, CONFIG.vocab_size)
    assert set(missing) == {"attention"}
    assert "f32" in missing["attention"]
    assert "f32" in str(model.why_not_recorded(4, 1, held))
    assert model.why_not_recorded(4, 1, pools(CONFIG, "q8")) is None
