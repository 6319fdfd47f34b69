"""all-MiniLM-L6-v2 inside the process: 384 dimensions, no server, no graphics card.

The weights come from an installed package (decision 0003), or else from the download that Chroma
offers.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import onnxruntime
import safetensors.numpy
import structlog
from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2
from tokenizers import Encoding, Tokenizer

from local.errors import VectorError
from local.vectors import weights
from local.vectors.known_models import known
from local.vectors.matrix import FloatMatrix, unit_rows
from local.vectors.minilm_graph import MAX_TOKENS, SentenceEncoder, TokenMatrix, session_options

MODEL = weights.MODEL

MAX_CHARACTERS = 16 * MAX_TOKENS
"""Characters of a text that are tokenised; those far behind the last token used only cost time."""
CHUNK_TOKENS = MAX_TOKENS
"""Tokens, padding included, that go through the network at once: 45 ms, and more are not faster."""

log = structlog.get_logger()


class MiniLM:
    """An Embedder for English texts; it uses the first 256 tokens of a text."""

    name = MODEL
    dimensions = 384
    min_score = known(MODEL).min_score
    """Cosine: unrelated short texts are below it, paraphrased answers above."""
    floor = known(MODEL).floor

    def __init__(
        self, encode: Callable[[TokenMatrix, TokenMatrix], FloatMatrix], tokenizer: Tokenizer
    ) -> None:
        tokenizer.no_padding()
        tokenizer.enable_truncation(MAX_TOKENS)
        self._encode = encode
        self._tokenizer = tokenizer

    @classmethod
    def load(cls, models_dir: Path) -> "MiniLM":
        """Use the weights of the installed package, or else download those that Chroma offers.

        Args:
            models_dir: the folder of downloaded models.

        Raises:
            VectorError: the installed weights are damaged, or the download failed.
        """
        folder = weights.installed_folder()
        if folder is not None:
            return cls(SentenceEncoder(_weights(folder / "model.safetensors")), _tokenizer(folder))
        folder = download(models_dir)
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
        """Nothing to release; the network lives as long as its embedder."""


def _chunks(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Positions from the shortest text to the longest, in chunks of at most CHUNK_TOKENS."""
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
    if digest != weights.PACKAGE_SHA256:
        raise VectorError(
            f"The weights of {MODEL} in {file} are not the official ones.",
            remedy=f"Install {weights.PACKAGE} again.",
        )
    loaded: dict[str, FloatMatrix] = safetensors.numpy.load_file(file)
    return loaded


def download(models_dir: Path) -> Path:
    """Download the model unless it is there; return the folder of its files.

    Raises:
        VectorError: it could not be downloaded.
    """
    folder = weights.download_folder(models_dir)
    if not weights.is_downloaded(models_dir):
        size = weights.ARCHIVE_MEGABYTES
        log.info("model_downloading", url=weights.ARCHIVE_URL, megabytes=size, to=str(folder))
    chroma = ONNXMiniLM_L6_V2()
    chroma.DOWNLOAD_PATH = folder
    chroma.tqdm = partial(chroma.tqdm, disable=None)  # a log is no place for its bar
    try:
        chroma(["Chroma fetches the model with the first text it embeds."])
    except (httpx.HTTPError, OSError, ValueError) as error:
        raise VectorError(
            f"The model {MODEL} could not be downloaded to {folder}: {str(error).rstrip('.')}.",
            remedy="It is tried again every minute. `local2 doctor` says how to get it otherwise.",
        ) from error
    return folder / weights.UNPACKED


class DownloadedEncoder:
    """The network of Chroma's download: from token ids to unit vectors, on one thread."""

    def __init__(self, folder: Path) -> None:
        self._session = onnxruntime.InferenceSession(
            folder / "model.onnx", session_options(), providers=["CPUExecutionProvider"]
        )

    def __call__(self, ids: TokenMatrix, mask: TokenMatrix) -> FloatMatrix:
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = self._session.run(
            None, {name: matrix.astype(np.int64) for name, matrix in inputs.items()}
        )[0]
        return unit_rows((hidden * mask[:, :, np.newaxis]).sum(axis=1, dtype=np.float32))
