"""What to read for which parameter, settled and checked before any memory is taken.

Works on names and shapes alone: the loaders of both file formats make their tensors known here, and
every parameter of the decoder has to be filled exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from models.config import ModelConfig
from models.errors import ModelFileError
from models.hf_names import Piece
from models.parameters import Shape, Slot, parameter_shapes
from models.sizes import show_name


@dataclass(frozen=True, slots=True)
class Source:
    """A tensor in a file; `shape` in torch's order."""

    name: str
    shape: Shape
    byte_count: int
    file: Path


@dataclass(frozen=True, slots=True)
class Step:
    """One tensor and the places that it fills; none: it is passed over."""

    source: Source
    pieces: tuple[Piece, ...]


_Filled = dict[Slot, dict[int | None, Source]]
"""By slot: which expert's place (None: the whole) is filled from where."""


def plan_steps(
    sources: Iterable[Source],
    pieces_of: Callable[[str], tuple[Piece, ...]],
    name_of: Callable[[Slot], str],
    config: ModelConfig,
) -> tuple[Step, ...]:
    """One step for each tensor that is needed, in the order of `sources`.

    Raises:
        UnsupportedModel: from `pieces_of`, for a name that means nothing.
        ModelFileError: a parameter is missing, comes twice, is left over or has a wrong shape.
    """
    shapes = parameter_shapes(config)
    # A tied model may keep its output beside the embedding.
    allowed = {**shapes, Slot(None, "output"): shapes[Slot(None, "embedding")]}
    filled: _Filled = {}
    steps = []
    for source in sources:
        pieces = pieces_of(source.name)
        _check_shape(source, pieces, allowed)
        for piece in pieces:
            _fill(filled, piece, source)
        if pieces:
            steps.append(Step(source, pieces))
    _check_missing(filled, shapes, name_of)
    return tuple(steps)


def _check_shape(source: Source, pieces: tuple[Piece, ...], shapes: Mapping[Slot, Shape]) -> None:
    for piece in pieces:
        if piece.slot not in shapes:
            raise _wrong(source, f"Its tensor {source.name} has no place in the model.")
    expected = _expected(pieces, shapes)
    if pieces and source.shape != expected:
        has, needs = _show(source.shape), _show(expected)
        raise _wrong(source, f"Its tensor {source.name} is {has}; the config asks for {needs}.")


def _expected(pieces: tuple[Piece, ...], shapes: Mapping[Slot, Shape]) -> Shape:
    """Of a whole tensor: its pieces lie one below the other."""
    if not pieces:
        return ()
    first = pieces[0]
    shape = shapes[first.slot] if first.expert is None else shapes[first.slot][1:]
    if first.rows is None:
        return shape
    rows = max(piece.rows[1] for piece in pieces if piece.rows)
    place = max(len(shape) - 2, 0)
    return (*shape[:place], rows, *shape[place + 1 :])


def _fill(filled: _Filled, piece: Piece, source: Source) -> None:
    """A slot is filled by one tensor, or expert by expert."""
    places = filled.setdefault(piece.slot, {})
    for expert, other in places.items():
        if expert == piece.expert or expert is None or piece.expert is None:
            raise _wrong(source, f"Its tensor {source.name} fills the place of {other.name}.")
    places[piece.expert] = source


def _check_missing(
    filled: _Filled, shapes: Mapping[Slot, Shape], name_of: Callable[[Slot], str]
) -> None:
    for slot, shape in shapes.items():
        places = filled.get(slot, {})
        if not places:
            raise _incomplete(filled, f"The tensor {name_of(slot)} is missing.")
        if None in places:
            continue
        if missing := set(range(shape[0])) - set(places):
            raise _incomplete(filled, f"Expert {min(missing)} of {name_of(slot)} is missing.")


def _incomplete(filled: _Filled, text: str) -> ModelFileError:
    file = next((one.file for places in filled.values() for one in places.values()), None)
    return ModelFileError(
        f"{show_name(file) if file else 'The model'} does not hold a whole model.",
        text,
        "Download the model again, all of its files.",
    )


def _wrong(source: Source, text: str) -> ModelFileError:
    return ModelFileError(
        f"{show_name(source.file)} does not fit the model's config.",
        text,
        "Download the model again, all of its files.",
    )


def _show(shape: Shape) -> str:
    return " x ".join(f"{dimension:,}" for dimension in shape) or "a single number"
