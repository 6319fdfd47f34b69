"""Embeds with a model of an Ollama server."""

import httpx
import numpy as np
import ollama

from local2.errors import VectorError, without_credentials
from local2.vectors.embedder import FloatMatrix, KnownModel, known, unit_rows
from local2.vectors.served import ServedEmbedder, counted

BATCH_SIZE = 32
"""Maximum number of texts in one request: queries wait longer for a larger one."""
CONNECT_TIMEOUT = 2.0
"""Timeout in seconds for connecting; Ollama runs nearby, and a start waits for the probe."""
READ_TIMEOUT = 60.0
"""Timeout in seconds for an answer; the first request waits until the model is loaded."""
# Connection refused, timeouts, error statuses, answers of another shape (pydantic's ValueError).
_FAILURES = (OSError, httpx.HTTPError, ollama.ResponseError, ValueError)
BROKEN = "Update Ollama and the model, or choose another embedder and run `local2 reindex`."


class OllamaEmbedder(ServedEmbedder):
    """A model of an Ollama server."""

    def __init__(self, url: str, model: str, properties: KnownModel | None = None) -> None:
        """`properties`: those of the model, if they differ from the known ones."""
        super().__init__(properties or known(model), batch=BATCH_SIZE)
        self.name = model.removesuffix(":latest")
        self._url = without_credentials(url)
        self._client = _client(url, read_timeout=READ_TIMEOUT)

    def close(self) -> None:
        self._client.close()  # type: ignore[no-untyped-call]

    def _embed(self, texts: list[str], *, query: bool) -> FloatMatrix:  # noqa: ARG002 - as long
        failed = f"Ollama at {self._url} did not embed {counted(len(texts))} with {self.name}"
        try:
            answer = self._client.embed(model=self.name, input=texts, truncate=True)
            with np.errstate(over="ignore"):  # becomes infinite, and is refused below
                vectors = np.array(answer.embeddings, np.float32)
        except ValueError as error:  # pydantic's and numpy's, whose messages quote the texts
            raise VectorError(
                f"{failed}: its answer is not a list of vectors.", remedy=BROKEN
            ) from error
        except _FAILURES as error:
            remedy = (
                "Start it with `ollama serve`, or choose another embedder and run `local2 reindex`."
            )
            if (
                isinstance(error, ollama.ResponseError)
                and error.status_code == httpx.codes.NOT_FOUND
            ):
                remedy = f"Run `ollama pull {self.name}`."
            raise VectorError(f"{failed}: {error}", remedy=remedy) from error
        if problem := self._problem(vectors, len(texts)):
            raise VectorError(f"{failed}: it returned {problem}.", remedy=BROKEN)
        return unit_rows(vectors)


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
