"""A network of the built-in embedders holds its weights once."""

import gc
import weakref

import numpy as np

from local2.vectors.batches import Network

LAYER = "hidden_{next} = Identity (hidden_{i})"


def test_a_loaded_network_does_not_keep_the_arrays_it_was_made_of() -> None:
    scale, shift = np.arange(384, dtype=np.float32), np.zeros(384, np.float32)
    expected, made_of = scale.copy(), weakref.ref(scale)
    network = Network(LAYER, 1, {"embedding_scale": scale, "embedding_shift": shift})

    del scale
    gc.collect()

    assert made_of() is None
    alternating = np.tile(np.array([1, -1], np.float32), 192).reshape(1, 1, 384)
    (vector,) = network.vectors(alternating, np.ones((1, 1), np.int32))
    assert np.allclose(vector, expected * alternating[0, 0] / np.linalg.norm(expected))
