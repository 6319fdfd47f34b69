"""Vectors as the ledger stores them: of length 1, in numbers of 16 bits.

They take half the space of float32, and cosines differ in the fourth digit. Everywhere else,
vectors are float32.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

BYTES_A_NUMBER = 4
"""Of a float32 vector."""
DECIMALS = 6
"""Number of digits behind the point with which a number of 16 bits is written."""


def has_direction(vector: bytes) -> bool:
    """Whether a float32 vector can be compared: it is finite, and not zero."""
    length = np.linalg.norm(_as_doubles(vector))
    return bool(np.isfinite(length) and length > 0)


def packed(vector: bytes) -> bytes:
    """A float32 vector in the form in which it is stored."""
    numbers = _as_doubles(vector)
    length = np.linalg.norm(numbers)
    return (numbers / length if length else numbers).astype(np.float16).tobytes()


def unpacked(data: bytes) -> Floats:
    """The numbers of a stored vector."""
    return np.frombuffer(data, np.float16).astype(np.float32)


def matrix_of(stored: Sequence[bytes]) -> Floats:
    """The numbers of stored vectors, one vector per row."""
    return unpacked(b"".join(stored)).reshape(len(stored), -1)


def as_halves(numbers: Floats) -> str:
    """Numbers as PostgreSQL reads a vector of 16 bits."""
    return str(numbers.astype(np.float64).round(DECIMALS).tolist())


def _as_doubles(vector: bytes) -> npt.NDArray[np.float64]:
    return np.frombuffer(vector, np.float32).astype(np.float64)
