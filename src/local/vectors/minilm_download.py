"""all-MiniLM-L6-v2 as Chroma offers it for download, for installations without its package."""

from pathlib import Path

import httpx
import numpy as np
import onnxruntime
from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2

from local.errors import VectorError
from local.vectors.matrix import FloatMatrix, unit_rows
from local.vectors.minilm_graph import TokenMatrix, session_options


def download(folder: Path) -> Path:
    """Fetch the model into `folder` unless it is there; return where its files lie.

    Raises:
        VectorError: it could not be fetched.
    """
    chroma = ONNXMiniLM_L6_V2()
    chroma.DOWNLOAD_PATH = folder
    try:
        chroma(["Chroma fetches the model with the first text it embeds."])
    except (httpx.HTTPError, OSError, ValueError) as error:
        raise VectorError(
            f"The model all-MiniLM-L6-v2 could not be downloaded to {folder}: {error}",
            remedy="Connect to the internet once, install the embedder with "
            "`uv sync --group embedder`, or use Ollama.",
        ) from error
    return folder / str(chroma.EXTRACTED_FOLDER_NAME)


class DownloadedEncoder:
    """From token ids to unit vectors, on one thread."""

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
