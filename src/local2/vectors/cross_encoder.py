"""Runs a cross-encoder in the vector worker: it reads a question together with each document.

Nothing of that can be prepared: every document is read again for every question. So it reads in
small batches, the best documents first, for as long as the search waits.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count, takewhile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
from tokenizers import Encoding, Tokenizer

from local2.errors import VectorError, abridged
from local2.model_files import MODEL_FILE, TOKENIZER_FILE, check_files
from local2.protocol.vectors import VectorRerank, VectorScores
from local2.vectors.batches import (
    MAX_CHARACTERS,
    MAX_TOKENS,
    batches_by_length,
    padded,
    session_options,
)
from local2.vectors.worker_thread import WorkerThread

Scores = npt.NDArray[np.float64]
INPUTS = "input_ids", "attention_mask", "token_type_ids"
WINDOW = 20
"""Number of documents that are read before the next ones; among these, the shortest come first."""


class CrossEncoder:
    """A model for pairs of texts, as transformers and sentence-transformers export them to ONNX."""

    def __init__(self, session: onnxruntime.InferenceSession, tokenizer: Tokenizer) -> None:
        """Use a session and its tokenizer; raise ValueError if the session's inputs are unknown."""
        tokenizer.no_padding()
        tokenizer.enable_truncation(MAX_TOKENS)  # of question and document, at the longer one
        self._tokenizer = tokenizer
        self._session = session
        self._input_types = {
            declared.name: np.int32 if declared.type == "tensor(int32)" else np.int64
            for declared in session.get_inputs()
        }
        if unknown := sorted(self._input_types.keys() - {*INPUTS}):
            raise ValueError(f"it needs the input {unknown[0]}; known are {', '.join(INPUTS)}")
        outputs = [declared.name for declared in session.get_outputs()]
        self._output = "logits" if "logits" in outputs else outputs[0]

    @classmethod
    def load(cls, folder: Path) -> "CrossEncoder":
        """Load the model of a folder, and score one pair to see whether it works.

        Raises:
            VectorError: A file is missing or differs from its digest, or is no such model.
        """
        check_files(folder)
        try:
            session = onnxruntime.InferenceSession(
                folder / MODEL_FILE, session_options(), providers=["CPUExecutionProvider"]
            )
            model = cls(session, Tokenizer.from_file(str(folder / TOKENIZER_FILE)))
            next(model.scores("question", ["document"]))
        except Exception as error:  # the libraries' errors have no other class in common
            reason = abridged(str(error).partition("\n")[0]).rstrip(".")
            raise VectorError(
                f"The reranker in {folder} cannot be used: {reason}.",
                remedy="It takes a cross-encoder exported to ONNX with one or two logits, and its "
                "tokenizer.json; `local2 models get NAME` fetches one.",
            ) from error
        return model

    def scores(self, query: str, documents: Sequence[str]) -> Iterator[tuple[list[int], Scores]]:
        """Yield positions in `documents` with their scores, from 0 to 1, the first ones first."""
        for start in range(0, len(documents), WINDOW):
            window = documents[start : start + WINDOW]
            encodings = self._tokenizer.encode_batch_fast(
                [(query, document[:MAX_CHARACTERS]) for document in window]
            )
            for batch in batches_by_length([encoding.ids for encoding in encodings]):
                scores = self._read([encodings[position] for position in batch])
                yield [start + position for position in batch], scores

    def _read(self, pairs: Sequence[Encoding]) -> Scores:
        ids, mask = padded([pair.ids for pair in pairs])
        types, _ = padded([pair.type_ids for pair in pairs])
        matrices = dict(zip(INPUTS, (ids, mask, types), strict=True))
        inputs = {name: matrices[name].astype(type_) for name, type_ in self._input_types.items()}
        logits = self._session.run([self._output], inputs)[0].astype(np.float64)
        if logits.shape == (len(pairs), 2):
            logits = logits[:, 1] - logits[:, 0]
        elif logits.shape not in {(len(pairs),), (len(pairs), 1)}:
            raise ValueError(f"its output has the shape {logits.shape}")
        if not np.isfinite(logits).all():
            raise VectorError("The reranker's model gave a score that is not a number.")
        # The logistic function, which neither overflows nor makes low scores equal.
        scores: Scores = np.exp(-np.logaddexp(0, -logits.reshape(-1)))
        return scores


class Reranking:
    """Answers `vector.rerank`, in a thread of its own: nobody's search waits for it.

    Several requests take turns by batches.
    """

    def __init__(
        self, model: CrossEncoder | VectorError, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`model`: the model, or why it cannot be used, which is then every answer."""
        self._model = model
        self._clock = clock
        self._thread = WorkerThread("reranking")

    async def rerank(self, ask: VectorRerank) -> VectorScores:
        """Score the first documents, as many as there is time for.

        Raises:
            VectorError: The model cannot be used, or there was no time to read the first document.
        """
        if isinstance(self._model, VectorError):
            raise self._model
        ends = self._clock() + ask.patience
        scores: dict[int, float] = {}
        batches = self._model.scores(ask.query, ask.documents)
        while self._clock() < ends:
            batch = await self._thread.run(next, batches, None)
            if batch is None:
                break
            positions, batch_scores = batch
            scores.update(zip(positions, batch_scores.tolist(), strict=True))
        # A document that was read must not pass a better one that was not.
        first = [scores[position] for position in takewhile(scores.__contains__, count())]
        if ask.documents and not first:
            raise VectorError(
                f"The reranker did not read the first document within {ask.patience:g} s.",
                remedy="Raise reranker_timeout, or use a smaller model.",
            )
        return VectorScores(scores=first)

    def close(self) -> None:
        self._thread.close()
