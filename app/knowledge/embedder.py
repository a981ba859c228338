"""What searching by meaning needs of an embedding model; and the one that this installation has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from app.errors import LocalchatError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]


ENDED = "Embedding was ended."


class EmbedderFailed(LocalchatError):
    """No vectors; documents are searched by their words."""


class EmbeddingEnded(EmbedderFailed):
    """Nothing went wrong: the vectors are not wanted any more."""


def always() -> bool:
    """The vectors are wanted whatever happens."""
    return True


class Embedder(Protocol):
    """Texts to unit vectors, so that a product is a cosine. Usable from any thread."""

    @property
    def fingerprint(self) -> str:
        """Vectors of equal fingerprints lie in one space."""
        ...

    @property
    def size(self) -> int:
        """Numbers in a vector."""
        ...

    @property
    def speaks_cjk(self) -> bool:
        """Whether it was trained on more than texts in Latin letters."""
        ...

    def embed_passages(
        self, texts: Sequence[str], is_wanted: Callable[[], bool] = always
    ) -> Floats:
        """[len(texts), size]. Waits while it is paused, and asks now and then whether to go on
        waiting. Raises EmbeddingEnded, EmbedderFailed.
        """
        ...

    def embed_query(self, text: str) -> Floats:
        """[size], at once even while it is paused. Raises EmbedderFailed."""
        ...

    def pause(self) -> None:
        """An answer begins: no passage is begun until as many `resume`, and two seconds more."""
        ...

    def resume(self) -> None: ...

    def wait(self, is_wanted: Callable[[], bool] = always) -> bool:
        """For other work behind answers: blocks while it is paused. False once it is closed, or
        not wanted any more.
        """
        ...

    def close(self) -> None:
        """Ends its process; who waits in `embed_passages` gets EmbeddingEnded."""
        ...


def installed_embedder() -> Embedder | None:
    """The built-in model as a process of its own, not started yet; None without its packages."""
    from app.knowledge.minilm import is_installed
    from app.knowledge.minilm_embedder import MiniLMEmbedder

    return MiniLMEmbedder() if is_installed() else None
