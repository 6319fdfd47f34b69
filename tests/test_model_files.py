"""Models are fetched whole and as the hub states them, or not at all."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from commands import answer, local2
from local2.errors import VectorError
from local2.model_files import (
    DIGESTS_FILE,
    HUB,
    MODEL_FILE,
    MODELS,
    TOKENIZER_FILE,
    UNFINISHED,
    FetchError,
    check_files,
    fetch_model,
)
from local2.vectors.cross_encoder import CrossEncoder
from stand_ins.model_hub import Download, ModelHub
from tiny_cross_encoder import model_bytes, tokenizer_bytes

NAME = "ms-marco-MiniLM-L-6-v2"
ONNX = "onnx/model.onnx"
FILES = {ONNX: model_bytes(), TOKENIZER_FILE: tokenizer_bytes(), "README.md": b"Hello."}


@pytest.fixture
def hub() -> Iterator[ModelHub]:
    with ModelHub(MODELS[NAME], FILES) as serving:
        yield serving


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / ".local2" / "models"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def error_of(hub: ModelHub, models: Path) -> FetchError:
    with pytest.raises(FetchError) as caught:
        fetch_model(NAME, models, hub=hub.url)
    assert caught.value.remedy
    assert not (models / NAME).exists(), "the folder is whole, or does not exist"
    return caught.value


def test_a_model_is_fetched_with_its_digests_and_can_be_loaded(hub: ModelHub, models: Path) -> None:
    folder, fetched = fetch_model(NAME, models, hub=hub.url)

    assert (folder, fetched) == (models / NAME, True)
    assert names_in(models) == [NAME]
    assert names_in(folder) == [DIGESTS_FILE, MODEL_FILE, TOKENIZER_FILE]
    assert (folder / MODEL_FILE).read_bytes() == FILES[ONNX]
    digests = check_files(folder)
    assert digests is not None
    assert (digests.repository, digests.revision) == (MODELS[NAME].repository, hub.sha)
    assert digests.sha256 == {
        MODEL_FILE: hashlib.sha256(FILES[ONNX]).hexdigest(),
        TOKENIZER_FILE: hashlib.sha256(FILES[TOKENIZER_FILE]).hexdigest(),
    }
    CrossEncoder.load(folder)


def test_a_model_that_is_there_is_not_fetched_again_unless_a_file_has_changed(
    hub: ModelHub, models: Path
) -> None:
    folder, _ = fetch_model(NAME, models, hub=hub.url)
    downloads = len(hub.downloads)

    assert fetch_model(NAME, models, hub=hub.url) == (folder, False)
    assert len(hub.downloads) == downloads

    (folder / MODEL_FILE).write_bytes(FILES[ONNX] + b"!")
    with pytest.raises(VectorError, match="SHA-256 differs") as caught:
        check_files(folder)
    assert f"local2 models get {NAME}" in str(caught.value.remedy)
    assert fetch_model(NAME, models, hub=hub.url) == (folder, True)
    check_files(folder)


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_an_interrupted_download_is_continued_if_the_hub_can_do_so(
    hub: ModelHub, models: Path, *, knows_ranges: bool
) -> None:
    hub.breaks_after, hub.knows_ranges = 100, knows_ranges

    error = error_of(hub, models)
    assert "what was fetched is kept" in str(error.remedy)
    fetch_model(NAME, models, hub=hub.url)

    assert hub.downloads == [
        Download(path=ONNX, range=None),
        Download(path=ONNX, range="bytes=100-"),
        Download(path=TOKENIZER_FILE, range=None),
    ]
    assert (models / NAME / MODEL_FILE).read_bytes() == FILES[ONNX]


def test_progress_is_reported_in_bytes_of_each_file(hub: ModelHub, models: Path) -> None:
    shown: dict[str, tuple[int, int]] = {}

    def show(path: str, there: int, size: int) -> None:
        shown[path] = there, size

    fetch_model(NAME, models, hub=hub.url, progress=show)

    assert shown == {path: (len(FILES[path]),) * 2 for path in (ONNX, TOKENIZER_FILE)}


def send(path: str, content: bytes) -> Callable[[ModelHub], None]:
    return lambda hub: hub.files.update({path: content})


def changed(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def without_model(hub: ModelHub) -> None:
    del hub.stated[ONNX]


def another_revision(hub: ModelHub) -> None:
    hub.sha = "0" * 40


def garbage(hub: ModelHub) -> None:
    hub.answer_about = b"<html>Please log in.</html>"


def failing(hub: ModelHub) -> None:
    hub.status = 503


@pytest.mark.parametrize(
    ("trouble", "says"),
    [
        pytest.param(send(ONNX, changed(FILES[ONNX])), "sent another onnx/model.onnx", id="LFS"),
        pytest.param(
            send(TOKENIZER_FILE, changed(FILES[TOKENIZER_FILE])),
            "sent another tokenizer.json",
            id="git",
        ),
        pytest.param(send(ONNX, FILES[ONNX] * 2), "sent another", id="too long"),
        pytest.param(send(ONNX, b""), "sent another", id="too short"),
        pytest.param(without_model, "does not have onnx/model.onnx", id="no such file"),
        pytest.param(another_revision, "does not have the revision", id="another revision"),
        pytest.param(garbage, "cannot be read", id="something else answers"),
        pytest.param(failing, "status 503", id="the hub fails"),
        pytest.param(ModelHub.stop, "ConnectError", id="no network"),
    ],
)
def test_what_is_not_as_the_hub_states_it_is_an_error_and_can_be_fetched_later(
    hub: ModelHub, models: Path, trouble: Callable[[ModelHub], None], says: str
) -> None:
    trouble(hub)

    assert says in error_of(hub, models).message
    assert not (models / f".{NAME}{UNFINISHED}" / MODEL_FILE).exists() or "tokenizer" in says
    with ModelHub(MODELS[NAME], FILES) as sound:
        fetch_model(NAME, models, hub=sound.url)


def test_a_folder_that_cannot_be_written_to_is_named(hub: ModelHub, models: Path) -> None:
    models.parent.mkdir(parents=True)
    models.write_text("in the way")

    with pytest.raises(FetchError, match="cannot be written to") as caught:
        fetch_model(NAME, models, hub=hub.url)
    assert str(models) in caught.value.message


def test_the_command_fetches_and_says_how_to_use_the_model(hub: ModelHub, tmp_path: Path) -> None:
    done = local2(tmp_path, "models", "get", NAME, "--hub", hub.url)
    again = answer(tmp_path, "models", "get", NAME, "--hub", hub.url)

    assert done.returncode == 0, done.stderr
    assert f"`reranker: onnx:{NAME}`" in done.stdout
    folder = tmp_path / ".local2" / "models" / NAME
    assert again == {"name": NAME, "folder": str(folder), "fetched": False}


def test_without_a_network_the_command_fails_and_says_what_to_do(
    hub: ModelHub, tmp_path: Path
) -> None:
    hub.stop()

    done = local2(tmp_path, "models", "get", NAME, "--hub", hub.url)
    as_json = local2(tmp_path, "models", "get", NAME, "--hub", hub.url, "--json")

    assert done.returncode == as_json.returncode == 1
    assert done.stdout == ""
    model = MODELS[NAME]
    for part in (
        hub.url,
        f"{HUB}/{model.repository}/tree/{model.revision}",
        str(tmp_path / ".local2" / "models" / NAME),
    ):
        assert part in done.stderr
    assert json.loads(as_json.stdout)["error"]["code"] == "unavailable"


def test_a_name_that_is_not_known_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    done = local2(tmp_path, "models", "get", "bge")

    assert done.returncode == 2
    assert all(name in done.stderr for name in MODELS)
