"""A network of the built-in embedders holds its weights once."""

import gc
import weakref

import numpy as np

from local2.vectors.batches import Network

GRAPH = """
<ir_version: 8, opset_import: ["": 17]>
scaled (float[n, 64] texts) => (float[n, 64] vectors) {{
    {layers}
    vectors = MatMul (texts_{last}, weights)
}}
"""
LAYER = "texts_{next} = Identity (texts)"


def test_a_loaded_network_does_not_keep_the_arrays_it_was_made_of() -> None:
    weights = np.diag(np.arange(64, dtype=np.float32))
    expected, made_of = weights.copy(), weakref.ref(weights)
    network = Network(GRAPH, LAYER, 1, {"weights": weights})

    del weights
    gc.collect()

    assert made_of() is None
    assert np.array_equal(network.vectors(texts=np.eye(64, dtype=np.float32)), expected)
