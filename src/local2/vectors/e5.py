"""Runs multilingual-e5-small inside the process: 384 dimensions, about a hundred languages.

The weights come from an installed package, which has them in 4 bits in a file of its own format
(decision 0053). They stay in 4 bits: onnxruntime's `MatMulNBits` multiplies with them as they are,
and of the table of tokens, which is three quarters of the file and stays mapped from it, only the
rows of a text are unpacked.
"""

import hashlib
import math
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from local2.errors import VectorError
from local2.vectors import weights
from local2.vectors.batches import (
    MAX_CHARACTERS,
    MAX_TOKENS,
    Network,
    TokenMatrix,
    encode_in_batches,
    in_order,
)
from local2.vectors.embedder import FloatMatrix, known

MODEL = weights.E5_MODEL
LAYERS, WIDTH = 12, 384
MAGIC = b"E5S1"
BEGIN, END, UNKNOWN = 0, 2, 3
"""Ids of the tokens around each text, and of what is no token."""
WORD_START = "\N{LOWER ONE EIGHTH BLOCK}"
CACHED_WORDS, CACHED_LENGTH = 16_384, 32
"""Number of words whose tokens are cached, and their maximum length: scripts without spaces have
words as long as their sentences."""

# accuracy_level 4: activations are rounded to 8 bits, by blocks of 32 as the weights are.
_LAYER = """
    projected_{i} = com.microsoft.MatMulNBits
        <K = 384, N = 1152, bits = 4, block_size = 32, accuracy_level = 4>
        (hidden_{i}, attention_{i}, attention_steps_{i})
    shifted_{i} = Add (projected_{i}, attention_bias_{i})
    query_{i}, key_{i}, value_{i} = Split <axis = 2, num_outputs = 3> (shifted_{i})
    attended_{i} = com.microsoft.MultiHeadAttention <num_heads = 12>
        (query_{i}, key_{i}, value_{i}, , mask)
    mixed_{i} = com.microsoft.MatMulNBits
        <K = 384, N = 384, bits = 4, block_size = 32, accuracy_level = 4>
        (attended_{i}, mix_{i}, mix_steps_{i})
    mixed_on_{i} = Add (mixed_{i}, mix_bias_{i})
    middle_sum_{i} = Add (mixed_on_{i}, hidden_{i})
    middle_{i} = LayerNormalization <axis = -1, epsilon = 1e-12>
        (middle_sum_{i}, middle_scale_{i}, middle_shift_{i})
    wide_{i} = com.microsoft.MatMulNBits
        <K = 384, N = 1536, bits = 4, block_size = 32, accuracy_level = 4>
        (middle_{i}, widen_{i}, widen_steps_{i})
    active_{i} = com.microsoft.BiasGelu (wide_{i}, widen_bias_{i})
    narrowed_{i} = com.microsoft.MatMulNBits
        <K = 1536, N = 384, bits = 4, block_size = 32, accuracy_level = 4>
        (active_{i}, narrow_{i}, narrow_steps_{i})
    narrowed_on_{i} = Add (narrowed_{i}, narrow_bias_{i})
    end_sum_{i} = Add (narrowed_on_{i}, middle_{i})
    hidden_{next} = LayerNormalization <axis = -1, epsilon = 1e-12>
        (end_sum_{i}, end_scale_{i}, end_shift_{i})
"""

Bytes = npt.NDArray[np.uint8]
Arrays = dict[str, npt.NDArray[Any]]


class MultilingualE5:
    """Embeds texts in any language; it reads the first 256 tokens of each."""

    dimensions = WIDTH

    def __init__(self, file: "WeightsFile") -> None:
        self._tokenizer = Unigrams(file.tokens, file.replacements)
        self._words = file.packed("emb.word")
        # Every token is of type 0, so its type's embedding is part of its position's.
        self._positions = (
            file.floats("emb.pos").reshape(-1, WIDTH) + file.floats("emb.type")[:WIDTH]
        )
        self._network = Network(_LAYER, LAYERS, _initializers(file))

    @classmethod
    def load(cls) -> "MultilingualE5":
        """Use the weights of the installed package.

        Raises:
            VectorError: It is not installed, or its weights are damaged.
        """
        file = weights.installed_e5()
        if file is None:
            raise VectorError(
                f"The weights of {MODEL} are not installed.", remedy=weights.E5_REMEDY
            )
        return cls(WeightsFile.read(file))

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        prefix = known(MODEL).query_prefix
        batches = self._embed([prefix + text for text in texts])
        return in_order(batches, len(texts), self.dimensions)

    def embed_documents(self, texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        """Yield positions in `texts` with their vectors, the shortest texts first."""
        prefix = known(MODEL).document_prefix
        yield from self._embed([prefix + text for text in texts])

    def _embed(self, texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        yield from encode_in_batches([self._tokenizer.ids(text) for text in texts], self._encode)

    def _encode(self, ids: TokenMatrix, mask: TokenMatrix) -> FloatMatrix:
        blocks = self._words[ids]
        halves = blocks[..., 2:]
        weights = np.concatenate([halves & 15, halves >> 4], axis=-1).astype(np.float32)
        embedded: FloatMatrix = (weights - 8) * _steps(blocks)[..., np.newaxis]
        embedded = embedded.reshape(*ids.shape, WIDTH)
        embedded += self._positions[: ids.shape[1]]
        return self._network.vectors(embedded, mask)


class Unigrams:
    """Splits words into their most probable tokens, as the model's own tokenizer does.

    The library for it keeps 200 MB for these 250,000 tokens; this takes a fifth of that. Words are
    cached, since a text of new words takes a few milliseconds.
    """

    def __init__(self, tokens: Sequence[tuple[str, float]], replacements: dict[int, str]) -> None:
        self._ids = {token: number for number, (token, _) in enumerate(tokens)}
        self._scores = np.array([score for _, score in tokens], np.float32).tolist()
        self._replacements = replacements
        self._longest = max(map(len, self._ids))
        self._unknown_score = min(self._scores) - 10
        self._split = lru_cache(CACHED_WORDS)(self._split_word)

    def ids(self, text: str) -> list[int]:
        """The ids of the text's first tokens, between those of its begin and end."""
        ids = [BEGIN]
        for word in text[:MAX_CHARACTERS].translate(self._replacements).split():
            split = self._split if len(word) <= CACHED_LENGTH else self._split_word
            ids += split(word)
            if len(ids) >= MAX_TOKENS:
                break
        return [*ids[: MAX_TOKENS - 1], END]

    def _split_word(self, word: str) -> list[int]:
        word = WORD_START + word
        # The best way to each position: its score, the position before, and the token between.
        best = [(0.0, 0, UNKNOWN)] + [(-math.inf, 0, UNKNOWN)] * len(word)
        for start in range(len(word)):
            score = best[start][0]
            for end in range(start + 1, min(start + self._longest, len(word)) + 1):
                token = self._ids.get(word[start:end])
                if token is not None and score + self._scores[token] > best[end][0]:
                    best[end] = score + self._scores[token], start, token
            if score + self._unknown_score > best[start + 1][0]:
                best[start + 1] = score + self._unknown_score, start, UNKNOWN
        ids: list[int] = []
        position = len(word)
        while position:
            _, position, token = best[position]
            if not (token == UNKNOWN and ids and ids[-1] == UNKNOWN):
                ids.append(token)
        return ids[::-1]


class WeightsFile(msgspec.Struct, frozen=True):
    """The package's file: a header, the tokens, replacements of characters, and tensors by name.

    A tensor is of floats, or of blocks of 32 weights: a step in 16 bits, then 16 bytes with the
    weights divided by the step, plus 8: the first 16 in the low halves of the bytes.
    """

    content: Bytes
    tokens: list[tuple[str, float]]
    """Each token with its logarithmic probability."""
    replacements: dict[int, str]
    places: dict[str, tuple[int, int]]
    """Offset and length of each tensor, in bytes."""

    @classmethod
    def read(cls, file: Path) -> "WeightsFile":
        """Read all but the tensors.

        Raises:
            VectorError: It is not the file of the package's known version.
        """
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        if digest != weights.E5_SHA256:
            raise VectorError(
                f"The weights of {MODEL} in {file} are not those of {weights.E5_PACKAGE}.",
                remedy=f"Install {weights.E5_PACKAGE} again.",
            )
        content = np.memmap(file, np.uint8, "r")
        reader = _Reader(content.data, len(MAGIC) + 4)
        reader.take("<7ifi")  # its shape, which the graph above has
        count, *_special, characters = reader.take("<5iQ")
        ends = np.frombuffer(reader.take_bytes(4 * (count + 1)), np.uint32)
        scores = np.frombuffer(reader.take_bytes(4 * count), np.float32)
        texts = bytes(reader.take_bytes(characters))
        tokens = [
            (texts[start:end].decode(), score)
            for start, end, score in zip(ends, ends[1:], scores.tolist(), strict=False)
        ]
        replaced, _size = reader.take("<iI")
        replacements = {}
        for _ in range(replaced):
            character, length = reader.take("<IB")
            replacements[character] = "".join(map(chr, reader.take(f"<{length}I")))
        places = {}
        for _ in range(*reader.take("<i")):
            name = bytes(reader.take_bytes(*reader.take("<H"))).decode()
            _kind, _values, offset, size = reader.take("<BIQQ")
            places[name] = offset, size
        return cls(content, tokens, replacements, places)

    def floats(self, name: str) -> FloatMatrix:
        return np.frombuffer(self._bytes(name), np.float32)

    def packed(self, name: str) -> Bytes:
        """A matrix of 384 or 1,536 columns, as blocks of 18 bytes by row."""
        columns = 4 * WIDTH if name.endswith(".fo.w") else WIDTH
        return self._bytes(name).reshape(-1, columns // 32, 18)

    def _bytes(self, name: str) -> Bytes:
        offset, size = self.places[name]
        return self.content[offset : offset + size]


class _Reader:
    """Takes values from bytes, one after the other."""

    def __init__(self, content: memoryview, position: int) -> None:
        self._content = content
        self._position = position

    def take(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self.take_bytes(struct.calcsize(form)))

    def take_bytes(self, count: int) -> memoryview:
        self._position += count
        return self._content[self._position - count : self._position]


def _initializers(file: WeightsFile) -> Arrays:
    arrays: Arrays = {
        "embedding_scale": file.floats("emb.ln.w"),
        "embedding_shift": file.floats("emb.ln.b"),
    }
    for i in range(LAYERS):
        matrices = {
            "attention": ("q", "k", "v"),
            "mix": ("ao",),
            "widen": ("fi",),
            "narrow": ("fo",),
        }
        for name, parts in matrices.items():
            blocks = np.concatenate([file.packed(f"l{i}.{part}.w") for part in parts])
            arrays[f"{name}_{i}"], arrays[f"{name}_steps_{i}"] = _for_multiplication(blocks)
            biases = [file.floats(f"l{i}.{part}.b") for part in parts]
            arrays[f"{name}_bias_{i}"] = np.concatenate(biases)
        for name, part in (("middle", "aln"), ("end", "oln")):
            arrays[f"{name}_scale_{i}"] = file.floats(f"l{i}.{part}.w")
            arrays[f"{name}_shift_{i}"] = file.floats(f"l{i}.{part}.b")
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _for_multiplication(blocks: Bytes) -> tuple[Bytes, FloatMatrix]:
    """Weights as MatMulNBits reads them, neighbours in one byte, and their steps."""
    halves = blocks[:, :, 2:]
    weights = np.concatenate([halves & 15, halves >> 4], axis=2)
    return weights[:, :, 0::2] | weights[:, :, 1::2] << 4, _steps(blocks).reshape(-1)


def _steps(blocks: Bytes) -> FloatMatrix:
    steps = np.ascontiguousarray(blocks[..., :2]).view(np.float16)[..., 0]
    return steps.astype(np.float32)
