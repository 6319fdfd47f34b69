"""Embeddings from an endpoint that speaks OpenAI's API."""

import base64
import binascii

import msgspec
import numpy as np

from local.endpoint.address import Endpoint, is_too_large, unreadable
from local.endpoint.clients import EndpointClient
from local.errors import EndpointError, VectorError, VectorFaultError
from local.vectors.known_models import KnownModel, known
from local.vectors.matrix import FloatMatrix, unit_rows
from local.vectors.served import ServedEmbedder

PREFIX = "openai:"
"""Before the model in an embedder's name: another server may have a model of the same name."""
QUERY_SECONDS = 8.0
"""Searches wait less, and a start asks how things are within ten seconds."""
DOCUMENT_SECONDS = 60.0
PATIENCE = 2.0
"""Seconds that a batch waits for an endpoint's rate limit: questions wait behind it. Whoever
indexes comes again."""
QUERY_ATTEMPTS = 2
DOCUMENT_ATTEMPTS = 4
SHORTEST = 200
"""Characters to which a text that an endpoint finds too long is cut at least."""
BROKEN = "See the endpoint's log, or choose another embedder and run `local2 reindex`."


class _Embedding(msgspec.Struct, frozen=True):
    embedding: str | list[float]
    index: int | None = None


class _Answer(msgspec.Struct, frozen=True):
    data: list[_Embedding]


class OpenAIEmbedder(ServedEmbedder):
    """A model of an endpoint."""

    def __init__(
        self, endpoint: Endpoint, model: str, form: KnownModel | None = None, *, batch: int = 32
    ) -> None:
        """`form`: what the model wants before a text, if not what is known of it.

        `batch`: texts in one request.
        """
        super().__init__(form or known(model), batch=batch)
        self.name = PREFIX + model
        self._model = model
        self._client = EndpointClient(endpoint)
        self._base64 = True
        self._longest: int | None = None
        """Characters of a text, once one was too long."""

    def close(self) -> None:
        self._client.close()

    def _embed(self, texts: list[str], *, query: bool) -> FloatMatrix:
        """Embed a batch; halves of it if it is too large as a whole, and a text's beginning."""
        inputs = [text[: self._longest] for text in texts]
        try:
            return self._vectors(inputs, query=query)
        except EndpointError as error:
            if error.kind == "silent" and not query:  # next time it has less to do at once
                self._batch = max(self._batch // 2, 1)
            if is_too_large(error) and len(inputs) > 1:
                half = len(inputs) // 2
                parts = inputs[:half], inputs[half:]
                return np.concatenate([self._embed(part, query=query) for part in parts])
            if is_too_large(error) and len(inputs[0]) // 2 >= SHORTEST:
                self._longest = len(inputs[0]) // 2
                return self._embed(inputs, query=query)
            raise self._failed(error, len(inputs)) from error

    def _vectors(self, inputs: list[str], *, query: bool) -> FloatMatrix:
        answer = self._answer(inputs, query=query)
        try:
            with np.errstate(over="ignore"):  # becomes infinite, and is refused below
                vectors = _matrix(msgspec.json.decode(answer, type=_Answer).data)
        except (msgspec.MsgspecError, RecursionError, ValueError, binascii.Error) as error:
            raise unreadable(self._client.endpoint, error) from error
        if wrong := self._wrong(vectors, len(inputs)):
            raise EndpointError(
                "failed",
                f"{self._client.endpoint.shown} answered {wrong} for {len(inputs)} texts.",
                remedy=BROKEN,
            )
        return unit_rows(vectors)

    def _answer(self, inputs: list[str], *, query: bool) -> bytes:
        """In base64, which is a third as long, unless the endpoint refuses it."""
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
            if not (self._base64 and error.kind == "refused" and _names_encoding(error.said)):
                raise
        self._base64 = False
        return self._answer(inputs, query=query)

    def _failed(self, error: EndpointError, texts: int) -> VectorError:
        """A refusal is the fault of what it refused, anything else of the endpoint."""
        kind = VectorFaultError if error.kind == "refused" else VectorError
        failed = kind(
            f"{self._model} did not embed {texts} texts: {error.message}",
            remedy=error.remedy or BROKEN,
            logged=f"{self._model} did not embed {texts} texts: {error.logged}",
        )
        failed.retry_after = error.retry_after
        return failed


def _names_encoding(said: str) -> bool:
    return "encoding" in said.lower() or "base64" in said.lower()


def _matrix(embeddings: list[_Embedding]) -> FloatMatrix:
    """One vector a row, in the order of their texts."""
    if all(each.index is not None for each in embeddings):
        embeddings = sorted(embeddings, key=lambda each: each.index or 0)
    rows = [
        np.frombuffer(base64.b64decode(each.embedding, validate=True), "<f4")
        if isinstance(each.embedding, str)
        else np.array(each.embedding, np.float32)
        for each in embeddings
    ]
    return np.stack(rows).astype(np.float32, copy=False) if rows else np.empty((0, 0), np.float32)
