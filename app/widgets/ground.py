"""What is seen between the widgets inside a container."""

from __future__ import annotations

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


class EvenGround(Widget):
    """A container whose lines are all alike, with a border at its sides at most: one is painted.

    Textual paints every visible line of every container again when it grows, under the widgets
    that cover it: a third of what a draw of a streaming answer costs. It comes behind the container
    among the bases: Textual takes the style of the first.
    """

    def render_lines(self, crop: Region) -> list[Strip]:
        return super().render_lines(crop._replace(height=min(crop.height, 1))) * crop.height
