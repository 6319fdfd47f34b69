"""Broken inputs, each given to its reader: it is accepted, refused, or causes a crash."""

import traceback
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from fuzz.broken import Breaker, random_of
from fuzz.readers import Reader, readers
from local2.errors import Local2Error

SHOWN = 500
"""Bytes of an input that a message repeats."""


class Crash(NamedTuple):
    """An exception of a reader that is not one of our errors; number and seed reproduce it."""

    number: int
    reader: str
    data: bytes
    error: Exception

    def __str__(self) -> str:
        where = traceback.extract_tb(self.error.__traceback__)[-1]
        about = f"{type(self.error).__name__}: {self.error} ({where.filename}:{where.lineno})"
        return f"{self.number}: {self.reader}: {about}: {self.data[:SHOWN]!r}"


class Fuzz:
    """Broken inputs for readers. The same seed and number always make the same input."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.readers = readers(folder)
        self.refused = 0
        self._weights = list(accumulate(reader.weight for reader in self.readers))
        self._seed = seed

    def input(self, number: int) -> tuple[Reader, bytes]:
        """Return the input of this number, and its reader."""
        random = random_of(self._seed, number)
        (reader,) = random.choices(self.readers, cum_weights=self._weights)
        return reader, reader.broken(Breaker(random))

    def crash(self, number: int) -> Crash | None:
        """Have an input read; return its crash, if any."""
        reader, data = self.input(number)
        try:
            self.refused += is_refused(reader, data)
        except Exception as error:  # noqa: BLE001 - it is what is looked for
            return Crash(number, reader.name, data, error)
        return None


def is_refused(reader: Reader, data: bytes) -> bool:
    """Whether a reader refuses the data; any other exception is a crash."""
    try:
        reader.read(data)
    except Local2Error:
        return True
    return False
