"""Embedders that call a server; here, an endpoint with OpenAI's API."""

import base64
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from local2.endpoint.address import Endpoint, EndpointError, is_too_large, unreadable_error
from local2.endpoint.clients import EndpointClient
from local2.errors import VectorError, VectorFaultError
from local2.vectors.embedder import OPENAI_PREFIX, FloatMatrix, KnownModel, known, unit_rows

QUERY_SECONDS = 4.0
"""Timeout in seconds for embedding queries; shorter than that of a search (`vector_timeout`), so
that the search can report what went wrong."""
DOCUMENT_SECONDS = 60.0
"""Timeout in seconds for embedding a batch of documents."""
PATIENCE = 2.0
"""Maximum number of seconds to wait for an endpoint's rate limit; indexing tries again later."""
QUERY_ATTEMPTS = 2
DOCUMENT_ATTEMPTS = 4
SHORTEST = 200
"""Minimum length in characters to which texts are cut that an endpoint finds too long."""
ENDPOINT_BROKEN = "See the endpoint's log, or choose another embedder and run `local2 reindex`."


class ServedEmbedder(ABC):
    """An Embedder that contacts its server only when called, and again after a failure."""

    is_served = True

    def __init__(self, properties: KnownModel, *, batch: int) -> None:
        """`properties`: prefixes and scores of the model. `batch`: number of texts per request."""
        self._properties = properties
        self._batch = batch
        self._dimensions: int | None = None

    @property
    def min_score(self) -> float:
        return self._properties.min_score

    @property
    def floor(self) -> float:
        return self._properties.floor

    @property
    def dimensions(self) -> int:
        """Length of a vector; the first access sends a request.

        Raises:
            VectorError: The server did not answer.
        """
        if self._dimensions is None:
            self._dimensions = self.embed_queries(["dimensions"]).shape[1]
        return self._dimensions

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        prefix, size = self._properties.query_prefix, self._batch
        batches = [
            self._embed([prefix + text for text in texts[start : start + size]], query=True)
            for start in range(0, len(texts), size)
        ]
        return np.concatenate(batches) if batches else np.empty((0, self.dimensions), np.float32)

    def embed_documents(self, texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        """Yield positions in `texts` with their vectors, the shortest texts first."""
        order = sorted(range(len(texts)), key=lambda position: len(texts[position]))
        prefix, size = self._properties.document_prefix, self._batch
        for start in range(0, len(order), size):
            positions = order[start : start + size]
            yield positions, self._embed([prefix + texts[i] for i in positions], query=False)

    @abstractmethod
    def _embed(self, texts: list[str], *, query: bool) -> FloatMatrix:
        """One unit vector for each text.

        Raises:
            VectorError: The server did not return them.
        """

    def _problem(self, vectors: FloatMatrix, texts: int) -> str | None:
        """Describe what is wrong with the vectors of an answer; None if they are right."""
        if len(vectors) != texts:
            return f"{len(vectors)} vectors"
        length = vectors.shape[1]
        if not length or length != (self._dimensions or length):
            return f"vectors of {length} numbers"
        return None if np.isfinite(vectors).all() else "vectors that are not finite"


class _Embedding(msgspec.Struct, frozen=True):
    embedding: str | list[float]
    index: int | None = None


class _Answer(msgspec.Struct, frozen=True):
    data: list[_Embedding]


class OpenAIEmbedder(ServedEmbedder):
    """A model of an endpoint."""

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        properties: KnownModel | None = None,
        *,
        batch: int = 32,
    ) -> None:
        """`properties`: those of the model, if they differ from the known ones.

        `batch`: number of texts per request.
        """
        super().__init__(properties or known(model), batch=batch)
        self.name = OPENAI_PREFIX + model
        self._model = model
        self._client = EndpointClient(endpoint)
        self._base64 = True
        self._longest: int | None = None
        """Length to which texts are cut, once a text was too long."""

    def close(self) -> None:
        self._client.close()

    def _embed(self, texts: list[str], *, query: bool) -> FloatMatrix:
        """Embed a batch; if it is too large, embed its halves, or a single text's beginning."""
        inputs = [text[: self._longest] for text in texts]
        try:
            return self._vectors(inputs, query=query)
        except EndpointError as error:
            if error.kind == "silent" and not query:  # send smaller batches from now on
                self._batch = max(self._batch // 2, 1)
            if is_too_large(error) and len(inputs) > 1:
                half = len(inputs) // 2
                parts = inputs[:half], inputs[half:]
                return np.concatenate([self._embed(part, query=query) for part in parts])
            if is_too_large(error) and len(inputs[0]) // 2 >= SHORTEST:
                self._longest = len(inputs[0]) // 2
                return self._embed(inputs, query=query)
            # A refusal is the texts' fault, any other error the endpoint's.
            kind = VectorFaultError if error.kind == "refused" else VectorError
            failed_to_embed = f"{self._model} did not embed {counted(len(inputs))}"
            failed = kind(
                f"{failed_to_embed}: {error.message}",
                remedy=error.remedy or ENDPOINT_BROKEN,
                logged=f"{failed_to_embed}: {error.logged}",
            )
            failed.retry_after = error.retry_after
            raise failed from error

    def _vectors(self, inputs: list[str], *, query: bool) -> FloatMatrix:
        answer = self._request(inputs, query=query)
        try:
            with np.errstate(over="ignore"):  # becomes infinite, and is refused below
                embeddings = msgspec.json.decode(answer, type=_Answer).data
                if all(embedding.index is not None for embedding in embeddings):
                    embeddings.sort(key=lambda embedding: embedding.index or 0)
                rows = [
                    np.frombuffer(base64.b64decode(embedding.embedding, validate=True), "<f4")
                    if isinstance(embedding.embedding, str)
                    else np.array(embedding.embedding, np.float32)
                    for embedding in embeddings
                ]
                vectors: FloatMatrix = (
                    np.stack(rows).astype(np.float32, copy=False)
                    if rows
                    else np.empty((0, 0), np.float32)
                )
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:
            raise unreadable_error(self._client.endpoint, error) from error
        if problem := self._problem(vectors, len(inputs)):
            raise EndpointError(
                "failed",
                f"{self._client.endpoint.shown} returned {problem} for {len(inputs)} texts.",
                remedy=ENDPOINT_BROKEN,
            )
        return unit_rows(vectors)

    def _request(self, inputs: list[str], *, query: bool) -> bytes:
        """Request vectors in base64, a third of the size, unless the endpoint refuses it."""
        form = "base64" if self._base64 else "float"
        try:
            return self._client.post(
                "embeddings",
                {"model": self._model, "input": inputs, "encoding_format": form},
                within=QUERY_SECONDS if query else DOCUMENT_SECONDS,
                patience=PATIENCE,
                attempts=QUERY_ATTEMPTS if query else DOCUMENT_ATTEMPTS,
            )
        except EndpointError as error:
            reply = error.reply.lower()
            about_encoding = "encoding" in reply or "base64" in reply
            if not (self._base64 and error.kind == "refused" and about_encoding):
                raise
        self._base64 = False
        return self._request(inputs, query=query)


def counted(texts: int) -> str:
    """How many texts, in words."""
    return "1 text" if texts == 1 else f"{texts} texts"
