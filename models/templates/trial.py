"""Renders a small conversation with a template, to see whether it works at all."""

from __future__ import annotations

from models.errors import TemplateError
from models.templates.child import TemplateChild
from models.templates.job import RenderJob
from models.templates.marks import ControlTexts
from models.templates.normalize import fold_system, normalize
from models.templates.turns import Turn

_TURNS = (
    Turn("system", "Be brief."),
    Turn("user", "One?"),
    Turn("assistant", "Two."),
    Turn("user", "Three?"),
)


def try_template(template: str) -> tuple[str, ...]:
    """Notices of what had to be reshaped. Raises TemplateError when nothing renders."""
    history = normalize(_TURNS)
    failure = TemplateError("The model's chat template leaves messages out.")
    child = TemplateChild(template)
    try:
        for shape in (history, fold_system(history)):
            try:
                rendered = child.render(RenderJob(shape.turns, ControlTexts(())))
            except TemplateError as error:
                failure = error
                continue
            if not rendered.lost:
                return shape.notices
        raise failure
    finally:
        child.close()
