"""Runs a network in this process on batches of texts of about the same length, on one thread."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from local2.vectors.embedder import FloatMatrix

TokenMatrix = npt.NDArray[np.int32]
"""One text per row: either token ids, or a mask with 1 for tokens and 0 for padding."""
Encode = Callable[[TokenMatrix, TokenMatrix], FloatMatrix]
"""Turns token ids and their mask into unit vectors."""

MAX_TOKENS = 256
"""Number of tokens of a text that are read."""
MAX_CHARACTERS = 16 * MAX_TOKENS
"""Number of leading characters that are tokenised: the rest would only cost time, being far beyond
the last token used."""
BATCH_TOKENS = 96
"""Maximum number of tokens, including padding, in one run of the network; a longer text has its own
run. A question waits for the run that has begun: with 256 tokens, questions beside constant
indexing waited three times as long, and a tenth more texts were indexed a second."""

# The pooled vector is the sum over the tokens: scaling it to length 1 makes it equal to the mean.
_GRAPH = """
<ir_version: 8, opset_import: ["": 18, "com.microsoft": 1]>
encoder (float[n, tokens, 384] embedded, int32[n, tokens] mask)
    => (float[n, 384] vectors) {{
    hidden_0 = LayerNormalization <axis = -1, epsilon = 1e-12>
        (embedded, embedding_scale, embedding_shift)
{layers}
    one = Constant <value_ints = [1]> ()
    weights = Cast <to = 1> (mask)
    weight_rows = Unsqueeze (weights, one)
    sum_rows = MatMul (weight_rows, hidden_{last})
    sums = Squeeze (sum_rows, one)
    vectors = LpNormalization <axis = 1, p = 2> (sums)
}}
"""


def session_options() -> onnxruntime.SessionOptions:
    """Options for one thread without spinning, which leaves the processor to the stack."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    # The arena keeps what the longest text needed: some 10 MB. Without it, nothing is slower here.
    options.enable_cpu_mem_arena = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


class Network:
    """An encoder of embedded tokens whose layers are equal, on one thread."""

    def __init__(self, layer: str, layers: int, weights: Mapping[str, npt.NDArray[Any]]) -> None:
        """`layer`: of the graph, with places for its number `i` and that of the `next` one."""
        # The session copies them: whoever holds these arrays longer has the weights twice.
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in weights.values()]
        options = session_options()
        options.add_external_initializers(list(weights), values)
        # The graphs are fused by hand. The extended optimisations would also join additions with a
        # LayerNormalization into SkipLayerNormalization, which takes four times as long as both.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        body = "".join(layer.format(i=i, next=i + 1) for i in range(layers))
        model = onnx.parser.parse_model(_GRAPH.format(layers=body, last=layers))
        for name, array in weights.items():
            # Declared without its values, which the session reads from memory.
            external = {"location": "in memory", "offset": "0", "length": str(array.nbytes)}
            placeholder = onnx.TensorProto(
                name=name,
                data_type=onnx.helper.np_dtype_to_tensor_dtype(array.dtype),
                dims=array.shape,
                data_location=onnx.TensorProto.EXTERNAL,
                external_data=[{"key": key, "value": value} for key, value in external.items()],
            )
            model.graph.initializer.append(placeholder)
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def vectors(self, embedded: npt.NDArray[Any], mask: TokenMatrix) -> FloatMatrix:
        """A unit vector for each text, of the embedded tokens of each."""
        inputs = {"embedded": embedded, "mask": mask}
        vectors: FloatMatrix = self._session.run(["vectors"], inputs)[0]
        return vectors


def encode_in_batches(
    texts: Sequence[Sequence[int]], encode: Encode
) -> Iterator[tuple[list[int], FloatMatrix]]:
    """Yield positions in `texts` with their vectors, the shortest texts first.

    `texts`: the token ids of each.
    """
    for batch in batches_by_length(texts):
        yield batch, encode(*padded([texts[i] for i in batch]))


def batches_by_length(texts: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield positions in `texts`, the shortest texts first, of BATCH_TOKENS with the padding."""
    lengths = [len(text) for text in texts]
    batch: list[int] = []
    for position in sorted(range(len(texts)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[position] > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


def in_order(
    batches: Iterator[tuple[list[int], FloatMatrix]], count: int, dimensions: int
) -> FloatMatrix:
    """The vectors of `count` texts in the order of the texts."""
    vectors = np.empty((count, dimensions), np.float32)
    for positions, batch in batches:
        vectors[positions] = batch
    return vectors


def padded(texts: Sequence[Sequence[int]]) -> tuple[TokenMatrix, TokenMatrix]:
    """The token ids as a matrix with zeros behind the shorter texts, and its mask."""
    shape = len(texts), max(map(len, texts))
    ids, mask = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    for row, tokens in enumerate(texts):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return ids, mask
