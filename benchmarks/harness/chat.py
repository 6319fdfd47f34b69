"""Chat messages in English words with Zipf frequencies: the same seed gives the same texts."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from tokenizers import Tokenizer

from local2.vectors.weights import installed_folder

MEDIAN_WORDS = 18
SPREAD = 0.6
"""Standard deviation of the logarithm of the length: two thirds have 10 to 33 words."""
MIN_WORDS, MAX_WORDS = 3, 80


def messages(count: int, *, seed: int) -> list[str]:
    """Make messages with the lengths of people's messages."""
    chance = np.random.default_rng(seed)
    lengths = chance.lognormal(np.log(MEDIAN_WORDS), SPREAD, count)
    return [
        f"{text}." for text in _texts(chance, np.clip(lengths, MIN_WORDS, MAX_WORDS).astype(int))
    ]


def questions(count: int, *, seed: int, words: tuple[int, int] = (5, 12)) -> list[str]:
    """Make questions with a number of words between the two bounds."""
    chance = np.random.default_rng(seed)
    return [f"{text}?" for text in _texts(chance, chance.integers(*words, count, endpoint=True))]


def _texts(chance: np.random.Generator, lengths: Sequence[int] | np.ndarray) -> list[str]:
    words = vocabulary()
    frequency = np.cumsum(1 / np.arange(1, len(words) + 1))
    ranks = np.searchsorted(frequency, chance.random(np.sum(lengths)) * frequency[-1])
    drawn = np.split(ranks, np.cumsum(lengths)[:-1])
    return [" ".join([words[rank] for rank in text]).capitalize() for text in drawn]


@cache
def vocabulary() -> list[str]:
    """Return the English words for which MiniLM has a token, frequent ones first."""
    folder = installed_folder()
    assert folder is not None, "The words come with the package of MiniLM's weights."
    tokens = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab()
    by_frequency = sorted(tokens, key=tokens.__getitem__)
    return [word for word in by_frequency if word.isascii() and word.isalpha() and len(word) > 1]
