"""Laws of painting: what is kept from one draw to the next is what a fresh paint would give."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from rich.color_triplet import ColorTriplet
from textual.app import App, ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.geometry import Region
from textual.selection import SELECT_ALL
from textual.strip import Strip
from textual.widgets import Static

from app.themes import THEMES
from app.widgets.answer_text import AnswerText
from app.widgets.ground import EvenGround
from tests.app.tui.conftest import Stage

ITEM = "- a point with **strong** words and `code`, number {}\n"


class Ground(Vertical, EvenGround):
    """Grows with its text."""


class Scene(App[None]):
    """An answer between two borders in a view that follows the end."""

    CSS = """
    Ground { height: auto; border-left: outer green; padding: 0 1; background: #203040; }
    """

    def __init__(self) -> None:
        super().__init__()
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = THEMES[0].name
        self.answer = AnswerText()

    def compose(self) -> ComposeResult:
        with VerticalScroll() as view:
            view.anchor()
            with Ground():
                yield Static("header")
                yield self.answer
                yield Static("facts")

    def strips(self) -> list[Strip]:
        return [line.simplify() for line in self.screen._compositor.render_strips()]

    def repainted(self) -> list[Strip]:
        """The screen with nothing kept."""
        for widget in self.screen.walk_children():
            widget.notify_style_update()
            widget.refresh()
        self.answer._painted.clear()
        return self.strips()


def colours(strips: list[Strip]) -> list[ColorTriplet]:
    styles = [segment.style for strip in strips for segment in strip if segment.style]
    both = [colour for style in styles for colour in (style.color, style.bgcolor)]
    return [colour.get_truecolor() for colour in both if colour is not None]


def is_grey(colour: ColorTriplet) -> bool:
    return len(set(colour)) == 1


async def grow(scene: Scene, pilot: Any, items: range, cuts: int = 1) -> None:
    """Each item comes in so many pieces."""
    for number in items:
        item = ITEM.format(number)
        size = -(-len(item) // cuts)
        for start in range(0, len(item), size):
            scene.answer.add(item[start : start + size])
            scene.answer.draw()
            await pilot.pause()


@pytest.mark.parametrize("change", ["nothing", "theme", "selection", "width", "no colour"])
async def test_what_is_kept_equals_a_fresh_paint(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if change == "no colour":
        monkeypatch.setenv("NO_COLOR", "1")
    scene = Scene()
    async with scene.run_test(size=(60, 12)) as pilot:
        await grow(scene, pilot, range(20))
        if change == "theme":
            scene.theme = THEMES[1].name
        elif change == "selection":
            scene.screen.selections = {scene.answer: SELECT_ALL}
        elif change == "width":
            await pilot.resize_terminal(44, 12)
        await pilot.pause()
        await grow(scene, pilot, range(20, 24), cuts=5)
        assert scene.strips() == scene.repainted()
        assert "number 23" in "".join(line.text for line in scene.strips())
        assert (change == "no colour") == all(map(is_grey, colours(scene.strips())))


async def test_what_a_draw_leaves_out_did_not_change() -> None:
    scene = Scene()
    wrong: list[tuple[str, str]] = []
    refresh = scene.answer.refresh

    def watched(*regions: Region, **kwargs: Any) -> AnswerText:
        after = scene.answer._lines
        for region in regions:
            outside = [y for y in range(len(before)) if y not in region.line_range]
            pairs = [(before[y].text, after[y].text if y < len(after) else "") for y in outside]
            wrong.extend(pair for pair in pairs if pair[0] != pair[1])
        return refresh(*regions, **kwargs)

    async with scene.run_test(size=(60, 12)) as pilot:
        scene.answer.refresh = watched  # type: ignore[method-assign]
        text = (
            "word " * 30 + "\n***bold\n\n| a | b |\n|---|---|\n| 1 | 22222 |\n\n```py\nx = 1\n```\n"
        )
        for character in text:
            before = list(scene.answer._lines)
            scene.answer.add(character)
            scene.answer.draw()
        await pilot.pause()
        assert scene.strips() == scene.repainted()
    assert wrong == []


async def painted_for_a_piece(before: int) -> int:
    """Lines of the answer painted when one more point comes to so many."""
    scene = Scene()
    painted: list[int] = []
    paint = scene.answer.render_line

    def counted(y: int) -> Strip:
        painted.append(y)
        return paint(y)

    async with scene.run_test(size=(60, 12)) as pilot:
        scene.answer.add("".join(map(ITEM.format, range(before - 1))))
        await grow(scene, pilot, range(before - 1, before))
        scene.answer.render_line = counted  # type: ignore[method-assign]
        await grow(scene, pilot, range(before, before + 1))
    return len(painted)


async def test_a_draw_costs_the_same_at_the_end_of_a_long_answer() -> None:
    short, long = await painted_for_a_piece(20), await painted_for_a_piece(150)
    assert 0 < long <= short <= 2


async def test_every_line_of_an_even_ground_has_its_border() -> None:
    scene = Scene()
    async with scene.run_test(size=(60, 12)) as pilot:
        await grow(scene, pilot, range(5))
        first = [line.text[0] for line in scene.strips() if line.text.strip()]
    assert first == ["▌"] * 7


async def test_the_collector_looks_past_what_was_there_before_an_answer(
    stage: Callable[..., Any],
) -> None:
    frozen: list[int] = []
    async with stage() as opened:
        watched: Stage = opened
        end = watched.screen.answering.ended

        async def ended() -> None:
            frozen.append(gc.get_freeze_count())
            await end()

        watched.screen.answering.ended = ended  # type: ignore[method-assign]
        await watched.ask("hello")
        await watched.until(lambda: frozen)
    assert frozen[0] > 10_000
    assert gc.get_freeze_count() == 0
