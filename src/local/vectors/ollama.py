"""Embeddings from an Ollama server."""

import httpx
import numpy as np
import ollama

from local.errors import VectorError, without_credentials
from local.vectors.known_models import KnownModel, known
from local.vectors.matrix import FloatMatrix, unit_rows
from local.vectors.served import ServedEmbedder

BATCH_SIZE = 32
"""Texts in one request: a larger one would make a query wait longer behind it."""
CONNECT_TIMEOUT = 2.0
"""Seconds; Ollama runs on this machine or near it, and a start waits for the probe."""
READ_TIMEOUT = 60.0
"""Seconds; the first request waits until the model is loaded."""

# Connection refused, timeouts, error statuses, answers of another shape (pydantic's ValueError).
_FAILURES = (OSError, httpx.HTTPError, ollama.ResponseError, ValueError)
BROKEN = "Update Ollama and the model, or choose another embedder and run `local2 reindex`."


class OllamaEmbedder(ServedEmbedder):
    """A model of an Ollama server."""

    def __init__(self, url: str, model: str, form: KnownModel | None = None) -> None:
        """`form` says what the model wants before a text, if not what is known of it."""
        super().__init__(form or known(model), batch=BATCH_SIZE)
        self.name = model.removesuffix(":latest")
        self._url = without_credentials(url)
        self._client = _client(url, read_timeout=READ_TIMEOUT)

    def close(self) -> None:
        self._client.close()  # type: ignore[no-untyped-call]

    def _embed(self, texts: list[str], *, query: bool) -> FloatMatrix:  # noqa: ARG002 - as long
        failed = f"Ollama at {self._url} did not embed {len(texts)} texts with {self.name}"
        try:
            answer = self._client.embed(model=self.name, input=texts, truncate=True)
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
