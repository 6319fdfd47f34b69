"""Embeddings from an Ollama server."""

from collections.abc import Iterator, Sequence

import httpx
import numpy as np
import ollama

from local.errors import VectorError, without_credentials
from local.vectors.known_models import KnownModel, known
from local.vectors.matrix import FloatMatrix, unit_rows

BATCH_SIZE = 32
"""Texts in one request: a larger one would make a query wait longer behind it."""
CONNECT_TIMEOUT = 2.0
"""Seconds; Ollama runs on this machine or near it, and a start waits for the probe."""
READ_TIMEOUT = 60.0
"""Seconds; the first request waits until the model is loaded."""

# Connection refused, timeouts, error statuses, answers of another shape (pydantic's ValueError).
_FAILURES = (OSError, httpx.HTTPError, ollama.ResponseError, ValueError)
BROKEN = "Update Ollama and the model, or choose another embedder and run `local2 reindex`."


class OllamaEmbedder:
    """An Embedder that needs its server only when called, and tries it again after a failure."""

    def __init__(self, url: str, model: str, form: KnownModel | None = None) -> None:
        """`form` says what the model wants before a text, if not what is known of it."""
        self.name = model.removesuffix(":latest")
        self._url = without_credentials(url)
        self._client = _client(url, read_timeout=READ_TIMEOUT)
        self._form = form or known(model)
        self._dimensions: int | None = None

    @property
    def min_score(self) -> float:
        return self._form.min_score

    @property
    def floor(self) -> float:
        return self._form.floor

    @property
    def dimensions(self) -> int:
        """The length of a vector, which is asked of the model once.

        Raises:
            VectorError: Ollama has not answered yet.
        """
        if self._dimensions is None:
            self._dimensions = self.embed_queries(["dimensions"]).shape[1]
        return self._dimensions

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        batches = [
            self._embed(self._form.query_prefix, texts[start : start + BATCH_SIZE])
            for start in range(0, len(texts), BATCH_SIZE)
        ]
        return np.concatenate(batches) if batches else np.empty((0, self.dimensions), np.float32)

    def embed_documents(self, texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        """Yield positions in `texts` with their vectors, shortest texts first."""
        order = sorted(range(len(texts)), key=lambda position: len(texts[position]))
        for start in range(0, len(order), BATCH_SIZE):
            positions = order[start : start + BATCH_SIZE]
            chunk = [texts[i] for i in positions]
            yield positions, self._embed(self._form.document_prefix, chunk)

    def close(self) -> None:
        self._client.close()  # type: ignore[no-untyped-call]

    def _embed(self, prefix: str, texts: Sequence[str]) -> FloatMatrix:
        inputs = [prefix + text for text in texts]
        failed = f"Ollama at {self._url} did not embed {len(texts)} texts with {self.name}"
        try:
            answer = self._client.embed(model=self.name, input=inputs, truncate=True)
            with np.errstate(over="ignore"):  # becomes infinite, and is refused below
                vectors = np.array(answer.embeddings, np.float32)
        except ValueError as error:  # pydantic's and numpy's, whose messages quote the texts
            raise VectorError(
                f"{failed}: its answer is no list of vectors.", remedy=BROKEN
            ) from error
        except _FAILURES as error:
            raise VectorError(f"{failed}: {error}", remedy=self._remedy(error)) from error
        if wrong := self._wrong(vectors, len(texts)):
            raise VectorError(f"{failed}: it answered {wrong}.", remedy=BROKEN)
        return unit_rows(vectors)

    def _wrong(self, vectors: FloatMatrix, texts: int) -> str | None:
        """What is wrong with an answer that has the right form, or None."""
        if len(vectors) != texts:
            return f"{len(vectors)} vectors"
        length = vectors.shape[1]
        if not length or length != (self._dimensions or length):
            return f"vectors of {length} numbers"
        return None if np.isfinite(vectors).all() else "vectors that are not finite"

    def _remedy(self, error: Exception) -> str:
        if isinstance(error, ollama.ResponseError) and error.status_code == httpx.codes.NOT_FOUND:
            return f"Run `ollama pull {self.name}`."
        return "Start it with `ollama serve`, or choose another embedder and run `local2 reindex`."


def probe(url: str, model: str) -> bool:
    """Whether an Ollama server answers at `url` and has `model`."""
    client = _client(url, read_timeout=CONNECT_TIMEOUT)
    try:
        installed = {known.model for known in client.list().models}
    except _FAILURES:
        return False
    finally:
        client.close()  # type: ignore[no-untyped-call]
    return bool(installed & {model, f"{model}:latest"})


def _client(url: str, *, read_timeout: float) -> ollama.Client:
    timeout = httpx.Timeout(read_timeout, connect=CONNECT_TIMEOUT)
    return ollama.Client(host=without_credentials(url), timeout=timeout)
