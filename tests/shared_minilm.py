"""MiniLM, loaded once per test process and before others are forked from it.

Loading takes 0.35 s of processor time and 100 MB, and every stack would do it again. It also
embeds each text once: most tests of a module fill their memories with the same texts.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from local2.vectors import weights
from local2.vectors.embedder import FloatMatrix
from local2.vectors.minilm import MiniLM

if TYPE_CHECKING:
    from local2.vectors.e5 import MultilingualE5
    from local2.vectors.joined import JoinedEmbedder


class SharedMiniLM(MiniLM):
    """Embeds each text once."""

    def __init__(self, original: MiniLM) -> None:
        super().__init__(original._encode, original._tokenizer)
        self._vectors: dict[str, FloatMatrix] = {}

    def embed_documents(self, texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        known = [position for position, text in enumerate(texts) if text in self._vectors]
        new = [position for position, text in enumerate(texts) if text not in self._vectors]
        if known:
            yield known, np.stack([self._vectors[texts[position]] for position in known])
        for chunk, vectors in super().embed_documents([texts[position] for position in new]):
            positions = [new[i] for i in chunk]
            self._vectors.update(zip((texts[i] for i in positions), vectors, strict=True))
            yield positions, vectors


_load = MiniLM.load
_installed_folder = weights.installed_folder()
original = _load(Path())
_shared = SharedMiniLM(original)


def _load_shared(models_dir: Path) -> MiniLM:
    """Return the shared one, unless a test has replaced its weights."""
    if weights.installed_folder() == _installed_folder:
        return _shared
    return _load(models_dir)


MiniLM.load = _load_shared  # type: ignore[method-assign]


def embed_documents(
    embedder: "MiniLM | MultilingualE5 | JoinedEmbedder", texts: list[str]
) -> FloatMatrix:
    """Return the vectors in the order of their texts."""
    vectors = np.full((len(texts), embedder.dimensions), np.nan, np.float32)
    for positions, batch in embedder.embed_documents(texts):
        vectors[positions] = batch
    return vectors
