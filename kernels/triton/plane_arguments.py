"""What kernels are told about a packed weight."""

from __future__ import annotations

from kernels.mixed_planes import MixedPlanes
from kernels.plane_format import places
from kernels.triton.plane_tiles import LIFTS
from kernels.weight_planes import PlaneWeight


def plane_arguments(weight: PlaneWeight) -> dict[str, object]:
    """The words, where the planes lie among them, and what their format is."""
    format = weight.format
    where, _ = places(format, *weight.shape[-2:])
    codes = code_kind(weight)
    return {
        "p_words": weight.data,
        **{
            f"{name}_at": where[name].start if name in where else 0
            for name in ("high", "scales", "mins", "supers", "values")
        },
        "CODES": codes,
        "LOW": format.low,
        "HIGH": format.high,
        "GROUP": format.group,
        "LIFT": LIFTS[codes] + format.zero,
        "SCALES": format.scales,
        "HAS_MINS": format.has_mins or format.scales in ("bytes_mins", "nibbles"),
        "HAS_SUPERS": format.has_supers,
    }


def mixed_arguments(weight: MixedPlanes) -> dict[str, object]:
    """The same of both parts, and how many rows each has."""
    below = {"n": weight.lower.shape[0], **plane_arguments(weight.lower)}
    return {
        "n": weight.upper.shape[0],
        **plane_arguments(weight.upper),
        **{f"{name}_{'BELOW' if name.isupper() else 'below'}": one for name, one in below.items()},
    }


def code_kind(weight: PlaneWeight) -> str:
    """Of `LIFTS`."""
    if weight.format.values is not None:
        return "values"
    if weight.format.low < 8:
        return "small"
    return "floats" if weight.type_name == "F8_E4M3" else "bytes"
