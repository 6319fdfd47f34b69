"""Vectors as the ledger stores them: of length 1, in numbers of 16 bits.

They take half the space of float32, and cosines differ in the fourth digit. Everywhere else,
vectors are float32.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

DECIMALS = 6
"""Number of digits behind the point with which a number of 16 bits is written."""


def packed(vector: bytes) -> bytes:
    """A float32 vector in the form in which it is stored; all zeros unless it has a direction."""
    numbers = np.frombuffer(vector, np.float32).astype(np.float64)
    length = np.linalg.norm(numbers)
    has_direction = np.isfinite(length) and length > 0
    directed = numbers / length if has_direction else np.zeros_like(numbers)
    return directed.astype(np.float16).tobytes()


def unpacked(data: bytes) -> Floats:
    """The numbers of a stored vector."""
    return np.frombuffer(data, np.float16).astype(np.float32)


def matrix_of(stored: Sequence[bytes]) -> Floats:
    """The numbers of stored vectors, one vector per row."""
    return unpacked(b"".join(stored)).reshape(len(stored), -1)


def as_halves(numbers: Floats) -> str:
    """Numbers as PostgreSQL reads a vector of 16 bits."""
    return str(numbers.astype(np.float64).round(DECIMALS).tolist())
