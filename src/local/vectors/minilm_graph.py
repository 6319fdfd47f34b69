"""The network of all-MiniLM-L6-v2 for onnxruntime, from the weights of the original model.

The graph is a page of text and takes a tenth of a second to build, so it is built at every start
and not cached (decision 0009). Its operators are onnxruntime's fused ones for BERT, which are
several times faster than the plain ones on short texts.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from local.vectors.matrix import FloatMatrix

TokenMatrix = npt.NDArray[np.int32]
"""One text a row: token ids, or 1 for a token and 0 for the padding to its right."""

MAX_TOKENS = 256
"""What the published model is configured for; it ignores the rest of a text."""
LAYERS = 6

# The pooled vector is the sum over the tokens: scaling it to length 1 makes it equal to the mean.
_GRAPH = """
<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
all_minilm_l6_v2 (int32[n, tokens] ids, int32[n, tokens] mask) => (float[n, 384] vectors) {{
    hidden_0, lengths = com.microsoft.EmbedLayerNormalization <epsilon = 1e-12>
        (ids, , words, positions, , embedding_scale, embedding_shift, mask)
{layers}
    one = Constant <value_ints = [1]> ()
    weights = Cast <to = 1> (mask)
    weight_rows = Unsqueeze (weights, one)
    sum_rows = MatMul (weight_rows, hidden_{last})
    sums = Squeeze (sum_rows, one)
    vectors = LpNormalization <axis = 1, p = 2> (sums)
}}
"""

_LAYER = """
    attended_{i} = com.microsoft.Attention <num_heads = 12>
        (hidden_{i}, attention_{i}, attention_bias_{i}, lengths)
    mixed_{i} = MatMul (attended_{i}, mix_{i})
    middle_{i} = com.microsoft.SkipLayerNormalization <epsilon = 1e-12>
        (mixed_{i}, hidden_{i}, middle_scale_{i}, middle_shift_{i}, mix_bias_{i})
    wide_{i} = MatMul (middle_{i}, widen_{i})
    active_{i} = com.microsoft.BiasGelu (wide_{i}, widen_bias_{i})
    narrowed_{i} = MatMul (active_{i}, narrow_{i})
    hidden_{next} = com.microsoft.SkipLayerNormalization <epsilon = 1e-12>
        (narrowed_{i}, middle_{i}, end_scale_{i}, end_shift_{i}, narrow_bias_{i})
"""


class SentenceEncoder:
    """From token ids to unit vectors, on one thread."""

    def __init__(self, weights: Mapping[str, FloatMatrix]) -> None:
        """`weights` are the tensors of `model.safetensors` by their names."""
        arrays = _initializers(weights)
        # The session reads these arrays in place, so they must live as long as the session.
        self._initializers = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()
        }
        options = session_options()
        options.add_external_initializers(
            list(self._initializers), list(self._initializers.values())
        )
        self._session = onnxruntime.InferenceSession(
            _model(arrays).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def __call__(self, ids: TokenMatrix, mask: TokenMatrix) -> FloatMatrix:
        vectors: FloatMatrix = self._session.run(["vectors"], {"ids": ids, "mask": mask})[0]
        return vectors


def session_options() -> onnxruntime.SessionOptions:
    """Options for one thread that does not spin; more would take the processor from the stack."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _model(arrays: Mapping[str, FloatMatrix]) -> onnx.ModelProto:
    layers = "".join(_LAYER.format(i=i, next=i + 1) for i in range(LAYERS))
    model = onnx.parser.parse_model(_GRAPH.format(layers=layers, last=LAYERS))
    model.graph.initializer.extend(_placeholder(name, array) for name, array in arrays.items())
    return model


def _placeholder(name: str, array: FloatMatrix) -> onnx.TensorProto:
    """Declare an initializer whose values the session gets from memory."""
    external = {"location": "in memory", "offset": "0", "length": str(array.nbytes)}
    return onnx.TensorProto(
        name=name,
        data_type=onnx.TensorProto.FLOAT,
        dims=array.shape,
        data_location=onnx.TensorProto.EXTERNAL,
        external_data=[{"key": key, "value": value} for key, value in external.items()],
    )


def _initializers(weights: Mapping[str, FloatMatrix]) -> dict[str, FloatMatrix]:
    embeddings = "embeddings."
    arrays = {
        "words": weights[embeddings + "word_embeddings.weight"],
        # Every token is of type 0, so its type's embedding is part of its position's.
        "positions": weights[embeddings + "position_embeddings.weight"][:MAX_TOKENS]
        + weights[embeddings + "token_type_embeddings.weight"][0],
        "embedding_scale": weights[embeddings + "LayerNorm.weight"],
        "embedding_shift": weights[embeddings + "LayerNorm.bias"],
    }
    for i in range(LAYERS):
        arrays |= {f"{name}_{i}": array for name, array in _layer(weights, i).items()}
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _layer(weights: Mapping[str, FloatMatrix], i: int) -> dict[str, FloatMatrix]:
    layer = f"encoder.layer.{i}."
    projections = [f"{layer}attention.self.{name}." for name in ("query", "key", "value")]
    mix, widen, narrow = (
        layer + name for name in ("attention.output.", "intermediate.", "output.")
    )
    return {
        "attention": np.concatenate([weights[p + "weight"].T for p in projections], axis=1),
        "attention_bias": np.concatenate([weights[p + "bias"] for p in projections]),
        "mix": weights[mix + "dense.weight"].T,
        "mix_bias": weights[mix + "dense.bias"],
        "middle_scale": weights[mix + "LayerNorm.weight"],
        "middle_shift": weights[mix + "LayerNorm.bias"],
        "widen": weights[widen + "dense.weight"].T,
        "widen_bias": weights[widen + "dense.bias"],
        "narrow": weights[narrow + "dense.weight"].T,
        "narrow_bias": weights[narrow + "dense.bias"],
        "end_scale": weights[narrow + "LayerNorm.weight"],
        "end_shift": weights[narrow + "LayerNorm.bias"],
    }
