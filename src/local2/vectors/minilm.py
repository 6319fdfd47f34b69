"""Runs all-MiniLM-L6-v2 inside the process: 384 dimensions, no server, no graphics card.

The weights come from an installed package (decision 0037), or else from the download that Chroma
offers. The network's graph is a page of text and takes a tenth of a second to build, so it is built
at every start and not cached. It uses onnxruntime's fused operators for BERT, which are several
times faster than the plain ones on short texts. The table of tokens, half of the weights, stays in
the file: it is mapped into memory, and only the rows of a text are read.

all-MiniLM-L6-v2-int8 is the same model with matrices and activations in 8 bits, an embedder of its
own name (decision 0062). The steps of the activations are fixed: with steps measured in each run, a
text's vector would depend on its neighbours in the batch.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import numpy.typing as npt
import onnxruntime
import structlog
from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2
from tokenizers import Tokenizer

from local2.errors import VectorError
from local2.vectors import weights
from local2.vectors.batches import (
    MAX_CHARACTERS,
    MAX_TOKENS,
    Encode,
    Network,
    TokenMatrix,
    encode_in_batches,
    in_order,
    session_options,
)
from local2.vectors.embedder import FloatMatrix, known, unit_rows

LAYERS = 6
"""Number of layers of the model."""

_LAYER = """
    attended_{i} = com.microsoft.Attention <num_heads = 12>
        (hidden_{i}, attention_{i}, attention_bias_{i}, mask)
    mixed_{i} = MatMul (attended_{i}, mix_{i})
    mixed_on_{i} = Add (mixed_{i}, mix_bias_{i})
    middle_sum_{i} = Add (mixed_on_{i}, hidden_{i})
    middle_{i} = LayerNormalization <axis = -1, epsilon = 1e-12>
        (middle_sum_{i}, middle_scale_{i}, middle_shift_{i})
    wide_{i} = MatMul (middle_{i}, widen_{i})
    active_{i} = com.microsoft.BiasGelu (wide_{i}, widen_bias_{i})
    narrowed_{i} = MatMul (active_{i}, narrow_{i})
    narrowed_on_{i} = Add (narrowed_{i}, narrow_bias_{i})
    end_sum_{i} = Add (narrowed_on_{i}, middle_{i})
    hidden_{next} = LayerNormalization <axis = -1, epsilon = 1e-12>
        (end_sum_{i}, end_scale_{i}, end_shift_{i})
"""
# Each activation is rounded to whole numbers before it is multiplied. `_in_int8` makes the arrays.
_INT8_LAYER = """
    even_hidden_{i} = Mul (hidden_{i}, hidden_factor_{i})
    whole_hidden_{i} = QuantizeLinear (even_hidden_{i}, even_step, even_zero)
    query_{i} = com.microsoft.MatMulIntegerToFloat (whole_hidden_{i},
        query_matrix_{i}, even_step, query_steps_{i}, even_zero, , query_bias_{i})
    key_{i} = com.microsoft.MatMulIntegerToFloat (whole_hidden_{i},
        key_matrix_{i}, even_step, key_steps_{i}, even_zero, , key_bias_{i})
    value_{i} = com.microsoft.MatMulIntegerToFloat (whole_hidden_{i},
        value_matrix_{i}, even_step, value_steps_{i}, even_zero, , value_bias_{i})
    attended_{i} = com.microsoft.MultiHeadAttention <num_heads = 12>
        (query_{i}, key_{i}, value_{i}, , mask)
    whole_attended_{i} = QuantizeLinear (attended_{i}, attended_step, attended_zero)
    mixed_{i} = com.microsoft.MatMulIntegerToFloat (whole_attended_{i},
        mix_matrix_{i}, attended_step, mix_steps_{i}, attended_zero, , mix_bias_{i})
    middle_sum_{i} = Add (mixed_{i}, hidden_{i})
    middle_{i} = LayerNormalization <axis = -1, epsilon = 1e-12>
        (middle_sum_{i}, middle_scale_{i}, middle_shift_{i})
    even_middle_{i} = Mul (middle_{i}, middle_factor_{i})
    whole_middle_{i} = QuantizeLinear (even_middle_{i}, even_step, even_zero)
    wide_{i} = com.microsoft.MatMulIntegerToFloat (whole_middle_{i},
        widen_matrix_{i}, even_step, widen_steps_{i}, even_zero)
    active_{i} = com.microsoft.BiasGelu (wide_{i}, widen_bias_{i})
    whole_active_{i} = QuantizeLinear (active_{i}, active_step, active_zero)
    narrowed_{i} = com.microsoft.MatMulIntegerToFloat (whole_active_{i},
        narrow_matrix_{i}, active_step, narrow_steps_{i}, active_zero, , narrow_bias_{i})
    end_sum_{i} = Add (narrowed_{i}, middle_{i})
    hidden_{next} = LayerNormalization <axis = -1, epsilon = 1e-12>
        (end_sum_{i}, end_scale_{i}, end_shift_{i})
"""
OUTLYING, OUTLYING_FACTOR = [63, 99, 127, 157, 223, 338], 5
"""Dimensions in which some tokens, above all the mark before a text, are several times larger than
their normalisation suggests, and how many times."""
RANGES = {"even": (-1.0, 1.0), "attended": (-3.5, 3.5), "active": (-0.17, 8.0)}
"""Least and largest activation of each kind; the few beyond are cut off."""
UNCHANGED = (
    "mix_bias",
    "middle_scale",
    "middle_shift",
    "widen_bias",
    "narrow_bias",
    "end_scale",
    "end_shift",
)
"""The arrays of a layer that both graphs have."""

MODEL = weights.MODEL
INT8_MODEL = weights.INT8_MODEL
log = structlog.get_logger()

Arrays = dict[str, npt.NDArray[Any]]


class SentenceEncoder:
    """Turns token ids into unit vectors, on one thread."""

    def __init__(self, tensors: Mapping[str, FloatMatrix], *, int8: bool = False) -> None:
        """`tensors`: the tensors in `model.safetensors`, by name. `int8`: multiply in 8 bits."""
        self._words = tensors["embeddings.word_embeddings.weight"]
        # Every token is of type 0, so its type's embedding is part of its position's.
        self._positions = (
            tensors["embeddings.position_embeddings.weight"][:MAX_TOKENS]
            + tensors["embeddings.token_type_embeddings.weight"][0]
        )
        arrays = _initializers(tensors)
        if int8:
            self._network = Network(_INT8_LAYER, LAYERS, _in_int8(arrays))
        else:
            self._network = Network(_LAYER, LAYERS, arrays)

    def __call__(self, ids: TokenMatrix, mask: TokenMatrix) -> FloatMatrix:
        embedded = self._words[ids]
        embedded += self._positions[: ids.shape[1]]
        return self._network.vectors(embedded, mask)


def _initializers(tensors: Mapping[str, FloatMatrix]) -> dict[str, FloatMatrix]:
    arrays = {
        "embedding_scale": tensors["embeddings.LayerNorm.weight"],
        "embedding_shift": tensors["embeddings.LayerNorm.bias"],
    }
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}."
        projections = [f"{layer}attention.self.{name}." for name in ("query", "key", "value")]
        mix, widen, narrow = (
            layer + name for name in ("attention.output.", "intermediate.", "output.")
        )
        of_layer = {
            "attention": np.concatenate([tensors[p + "weight"].T for p in projections], axis=1),
            "attention_bias": np.concatenate([tensors[p + "bias"] for p in projections]),
            "mix": tensors[mix + "dense.weight"].T,
            "mix_bias": tensors[mix + "dense.bias"],
            "middle_scale": tensors[mix + "LayerNorm.weight"],
            "middle_shift": tensors[mix + "LayerNorm.bias"],
            "widen": tensors[widen + "dense.weight"].T,
            "widen_bias": tensors[widen + "dense.bias"],
            "narrow": tensors[narrow + "dense.weight"].T,
            "narrow_bias": tensors[narrow + "dense.bias"],
            "end_scale": tensors[narrow + "LayerNorm.weight"],
            "end_shift": tensors[narrow + "LayerNorm.bias"],
        }
        arrays |= {f"{name}_{i}": array for name, array in of_layer.items()}
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _in_int8(arrays: Mapping[str, FloatMatrix]) -> Arrays:
    """The arrays of the graph in 8 bits, from those of the graph in floats.

    A normalised token is divided by its largest values by dimension, so that one step suits all of
    them; the matrix after it is multiplied by these values.
    """
    quantised: Arrays = {}
    for name, (least, largest) in RANGES.items():
        step = (largest - least) / 255
        quantised[f"{name}_step"] = np.array(step, np.float32)
        quantised[f"{name}_zero"] = np.array(round(-least / step), np.uint8)
    normalised = "embedding_scale", "embedding_shift"
    quantised |= {name: arrays[name] for name in normalised}
    for i in range(LAYERS):
        largest_hidden = _largest(*(arrays[name] for name in normalised))
        largest_middle = _largest(arrays[f"middle_scale_{i}"], arrays[f"middle_shift_{i}"])
        quantised[f"hidden_factor_{i}"] = 1 / largest_hidden
        quantised[f"middle_factor_{i}"] = 1 / largest_middle
        attention = arrays[f"attention_{i}"] * largest_hidden[:, np.newaxis]
        query, key, value = np.split(attention, 3, axis=1)
        matrices = {
            "query": query,
            "key": key,
            "value": value,
            "mix": arrays[f"mix_{i}"],
            "widen": arrays[f"widen_{i}"] * largest_middle[:, np.newaxis],
            "narrow": arrays[f"narrow_{i}"],
        }
        for name, matrix in matrices.items():
            steps = np.abs(matrix).max(axis=0) / 127
            quantised[f"{name}_matrix_{i}"] = np.round(matrix / steps).astype(np.int8)
            quantised[f"{name}_steps_{i}"] = steps
        biases = np.split(arrays[f"attention_bias_{i}"], 3)
        for name, bias in zip(("query", "key", "value"), biases, strict=True):
            quantised[f"{name}_bias_{i}"] = bias
        for name in UNCHANGED:
            quantised[f"{name}_{i}"] = arrays[f"{name}_{i}"]
        normalised = f"end_scale_{i}", f"end_shift_{i}"
    return {name: np.ascontiguousarray(array) for name, array in quantised.items()}


def _largest(scale: FloatMatrix, shift: FloatMatrix) -> FloatMatrix:
    """The largest values of tokens that were normalised to this scale and shift, by dimension."""
    largest: FloatMatrix = np.abs(shift) + 4 * np.abs(scale)
    largest[OUTLYING] *= OUTLYING_FACTOR
    return largest


class MiniLM:
    """An Embedder for English texts, which uses the first 256 tokens of a text."""

    is_served = False
    dimensions = 384
    min_score = known(MODEL).min_score
    """Cosine that separates unrelated short texts from paraphrased answers."""
    floor = known(MODEL).floor

    def __init__(self, encode: Encode, tokenizer: Tokenizer, name: str = MODEL) -> None:
        self.name = name
        tokenizer.no_padding()
        tokenizer.enable_truncation(MAX_TOKENS)
        self._encode = encode
        self._tokenizer = tokenizer

    @classmethod
    def load(cls, models_dir: Path) -> "MiniLM":
        """Use the weights of the installed package, or else download those that Chroma offers.

        Args:
            models_dir: Folder of downloaded models.

        Raises:
            VectorError: The installed weights are damaged, or the download failed.
        """
        folder = weights.installed_folder()
        if folder is not None:
            return cls(SentenceEncoder(_weights(folder / "model.safetensors")), _tokenizer(folder))
        folder = download(models_dir)
        return cls(DownloadedEncoder(folder), _tokenizer(folder))

    @classmethod
    def load_int8(cls) -> "MiniLM":
        """Use the weights of the installed package, in 8 bits.

        Raises:
            VectorError: They are not installed, or damaged.
        """
        folder = weights.installed_folder()
        if folder is None:
            raise VectorError(
                f"{INT8_MODEL} needs the weights of {weights.PACKAGE}, which is not installed: the "
                "download has them in another form.",
                remedy="`local2 doctor` shows how to install it.",
            )
        encode = SentenceEncoder(_weights(folder / "model.safetensors"), int8=True)
        return cls(encode, _tokenizer(folder), INT8_MODEL)

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        return in_order(self.embed_documents(texts), len(texts), self.dimensions)

    def embed_documents(self, texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        """Yield positions in `texts` with their vectors, the shortest texts first."""
        encodings = self._tokenizer.encode_batch_fast([text[:MAX_CHARACTERS] for text in texts])
        yield from encode_in_batches([encoding.ids for encoding in encodings], self._encode)

    def close(self) -> None:
        """Do nothing: the network is freed with its embedder."""


def _tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


class _Tensor(msgspec.Struct, frozen=True):
    """A tensor in the header of a file of safetensors; offsets are counted from its end."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def _weights(file: Path) -> dict[str, FloatMatrix]:
    """The tensors of floats in the package's file of safetensors, by name.

    Raises:
        VectorError: It is not the official file.
    """
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    if digest != weights.PACKAGE_SHA256:
        raise VectorError(
            f"The weights of {MODEL} in {file} are not the official ones.",
            remedy=f"Install {weights.PACKAGE} again.",
        )
    with file.open("rb") as content:
        length = int.from_bytes(content.read(8), "little")
        header = msgspec.json.decode(content.read(length), type=dict[str, msgspec.Raw])
    header.pop("__metadata__", None)
    tensors = {name: msgspec.json.decode(entry, type=_Tensor) for name, entry in header.items()}
    # Each is mapped by itself: one that is no longer used takes no memory.
    return {
        name: np.memmap(
            file, np.float32, "r", 8 + length + tensor.data_offsets[0], tuple(tensor.shape)
        )
        for name, tensor in tensors.items()
        if tensor.dtype == "F32"
    }


def download(models_dir: Path) -> Path:
    """Download the model unless it is downloaded already; return the folder of its files.

    Raises:
        VectorError: The download failed.
    """
    folder = weights.download_folder(models_dir)
    if not weights.is_downloaded(models_dir):
        size = weights.ARCHIVE_MEGABYTES
        log.info("model_downloading", url=weights.ARCHIVE_URL, megabytes=size, to=str(folder))
    chroma = ONNXMiniLM_L6_V2()
    chroma.DOWNLOAD_PATH = folder
    chroma.tqdm = partial(chroma.tqdm, disable=None)  # its progress bar would fill the log
    try:
        chroma(["Chroma fetches the model with the first text it embeds."])
    except (httpx.HTTPError, OSError, ValueError) as error:
        raise VectorError(
            f"The model {MODEL} could not be downloaded to {folder}: {str(error).rstrip('.')}.",
            remedy="The stack retries every minute. `local2 doctor` shows other ways to get it.",
        ) from error
    return folder / weights.UNPACKED


class DownloadedEncoder:
    """Turns token ids into unit vectors with the network of Chroma's download, on one thread."""

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
