"""The type of vectors between embedders and the index."""

import numpy as np
import numpy.typing as npt

FloatMatrix = npt.NDArray[np.float32]
"""One vector a row, each of unit length."""


def unit_rows(matrix: FloatMatrix) -> FloatMatrix:
    """Scale each row to length 1; a row of zeros stays as it is."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    scaled: FloatMatrix = matrix / np.maximum(lengths, np.finfo(np.float32).tiny)
    return scaled
