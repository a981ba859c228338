"""The extent of what a widget holds, for widgets that grow all the time."""

from __future__ import annotations

from textual.geometry import Size
from textual.reactive import Reactive


def settled_extent() -> Reactive[Size]:
    """For a widget's `virtual_size`: laying out tells it, so it asks for no other layout.

    Textual's own does, which draws the whole screen twice for every line of a streaming answer.
    """
    return Reactive(Size(0, 0), layout=False, repaint=False)
