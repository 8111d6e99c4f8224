"""What turns texts into vectors: anything with a name and `embed`, such as a static model of model2vec."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rlm.errors import ConfigurationError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Embedder", "StaticEmbedder"]

_EXTRA = "pip install 'rlm-kernel[hybrid]'"


class Embedder(Protocol):
    """Turns texts into vectors, in the driver: the kernel never sees them.

    `identity` names the weights, in lower-case letters, digits and hyphens: vectors are cached under it.
    """

    @property
    def identity(self) -> str: ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a row for each text. All rows have the same length. Passes on its own errors."""
        ...


class StaticEmbedder:
    """A static model: the vector of a text is the mean of those of its words. It needs no server and costs
    nothing but the time."""

    def __init__(self, model: str) -> None:
        """Load `model`: a folder, or a name that model2vec downloads. Raises ConfigurationError."""
        try:
            from model2vec import StaticModel
        except ImportError as error:
            raise ConfigurationError(f"embeddings need the extra hybrid: {_EXTRA}") from error
        try:
            self._model = StaticModel.from_pretrained(model)
        # Whatever the library, its tokenizer or its downloader raises for a name that they can't load.
        except Exception as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ConfigurationError(
                f"model2vec can't load {model!r} ({reason}): give the folder of a static model"
            ) from error
        self._digest = hashlib.sha256(self._model.embedding.tobytes()).hexdigest()[:16]

    @property
    def identity(self) -> str:
        return f"model2vec-{self._digest}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a row for each text."""
        import numpy as np

        return np.asarray(self._model.encode(list(texts)), dtype=np.float32)
