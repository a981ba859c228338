"""Errors that a person can meet, from the lowest layer that faces people.

    LocalchatError            failed (exit 1)
    ├── ModelFileError        model  (exit 3): the file is missing, damaged or not a model
    │   ├── ModelNotFound
    │   └── UnsupportedModel  known to be a model, but not one that can run
    ├── TemplateError         failed: the chat template refused or broke
    ├── LoadingStopped        interrupted: nobody wants the model that was being loaded any more
    ├── RenderingStopped      interrupted: nobody wants what was being rendered any more
    └── OutOfMemory           memory (exit 4)

Each error says what happened (`title`), why as far as known (`text`) and what to do now
(`next_step`).
The translation into a screen or an exit status happens in `app/errors.py` alone.
"""

from __future__ import annotations

from typing import ClassVar


class LocalchatError(Exception):
    """Base of every error that is meant to be read by a person."""

    code: ClassVar[str] = "failed"
    """Name of the exit status: failed, usage, model, memory, context or interrupted."""

    def __init__(self, title: str, text: str = "", next_step: str = "") -> None:
        super().__init__(title)
        self.title = title
        self.text = text
        self.next_step = next_step

    def __str__(self) -> str:
        return " ".join(part for part in (self.title, self.text, self.next_step) if part)


class ModelFileError(LocalchatError):
    """The model file is missing, damaged, or something else."""

    code = "model"


class ModelNotFound(ModelFileError):
    """No model of that name or path."""


class UnsupportedModel(ModelFileError):
    """A model file whose architecture, tensor type or setting is unknown; the text names it."""


class TemplateError(LocalchatError):
    """The chat template raised, ran too long, or took too much memory."""


class LoadingStopped(LocalchatError):
    """Loading a model was stopped on purpose; its memory is free again."""

    code = "interrupted"


class RenderingStopped(LocalchatError):
    """The chat template was stopped on purpose."""

    code = "interrupted"


class OutOfMemory(LocalchatError):
    """The machine's memory does not suffice; the text holds the numbers."""

    code = "memory"
