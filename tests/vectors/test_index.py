"""The index stores each tenant's vectors, and survives kills and damage to its folder."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings
from chromadb.errors import InternalError

from local2.errors import (
    EmbedderMismatchError,
    FolderLockedError,
    IndexDamagedError,
    StorageError,
    VectorError,
)
from local2.vectors import folder as index_folder
from local2.vectors.embedder import FloatMatrix, unit_rows
from local2.vectors.folder import translated
from local2.vectors.index import VectorIndex

DIMENSIONS = 8
EMBEDDER = "some-model"
KILLED_WHILE_OPEN = """
import os, pathlib, signal, sys
from local2.vectors.index import VectorIndex
VectorIndex.open(pathlib.Path(sys.argv[1]), "local2.memory")
os.kill(os.getpid(), signal.SIGKILL)
"""


def vectors(count: int, seed: int = 0) -> FloatMatrix:
    generator = np.random.default_rng(seed)
    return unit_rows(generator.standard_normal((count, DIMENSIONS)).astype(np.float32))


def names(count: int) -> list[str]:
    return [f"id-{number:04}" for number in range(count)]


def opened(path: Path) -> VectorIndex:
    return VectorIndex.open(path, "local2.memory")


def filled(index: VectorIndex, tenant: str = "default", count: int = 20) -> None:
    index.ensure(tenant, EMBEDDER, DIMENSIONS)
    index.upsert(tenant, names(count), vectors(count))


def fill_and_close(path: Path, count: int = 20) -> None:
    with opened(path) as index:
        filled(index, count=count)


def test_the_nearest_records_are_first(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        filled(index)
        queries = vectors(3)
        answers = index.search("default", queries, 5)
    cosines = queries @ vectors(20).T
    for answer, expected in zip(answers, cosines, strict=True):
        best = np.argsort(-expected)[:5]
        assert [hit.id for hit in answer] == [names(20)[position] for position in best]
        np.testing.assert_allclose([hit.cosine for hit in answer], expected[best], atol=1e-5)


def test_more_records_than_one_upsert_takes_are_all_found(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        filled(index, count=300)
        answers = index.search("default", vectors(300), 1)
        assert index.count("default") == 300
    assert [answer[0].id for answer in answers] == names(300)


def test_an_upsert_of_a_known_id_replaces_its_vector(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        filled(index)
        moved = vectors(1, seed=1)
        index.upsert("default", ["id-0003"], moved)
        assert index.count("default") == 20
        assert index.search("default", moved, 1)[0][0].id == "id-0003"


def test_deleted_ids_are_no_longer_found(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        filled(index)
        index.delete("default", ["id-0003", "never-stored"])
        index.delete("default", [])
        found = {hit.id for hit in index.search("default", vectors(20)[3:4], 20)[0]}
    assert found == set(names(20)) - {"id-0003"}


def test_records_without_their_vectors_are_detected(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        filled(index)
        index.upsert("default", ["twin"], vectors(1))
        assert index.lost("default", [*names(20), "twin"], vectors(21)[[*range(20), 0]]) == []
        index.delete("default", ["id-0003"])
        index.upsert("default", ["id-0005"], vectors(1, seed=1))
        assert index.lost("default", names(20), vectors(20)) == ["id-0003", "id-0005"]
        assert index.lost("acme", names(2), vectors(2)) == names(2)


def test_pages_of_ids_cover_all_records(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        filled(index)
        pages = [index.ids("default", offset, 8) for offset in (0, 8, 16, 24)]
    assert [len(page) for page in pages] == [8, 8, 4, 0]
    assert sorted(name for page in pages for name in page) == names(20)


def test_an_unknown_tenant_has_no_vectors(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        assert index.tenants() == []
        assert index.recorded_embedder("acme") is None
        assert index.count("acme") == 0
        assert index.ids("acme", 0, 10) == []
        assert index.search("acme", vectors(2), 5) == [[], []]
        index.delete("acme", ["id-0001"])
        with pytest.raises(VectorError, match="Tenant acme has no collection"):
            index.upsert("acme", names(1), vectors(1))


def test_tenants_do_not_see_each_other(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        filled(index, "default", count=3)
        filled(index, "acme", count=5)
        index.delete("acme", ["id-0001"])
        index.reset("acme.eu", EMBEDDER, DIMENSIONS)
        assert index.tenants() == ["acme", "acme.eu", "default"]
        assert [index.count(tenant) for tenant in index.tenants()] == [4, 0, 3]


def test_foreign_collections_in_the_folder_stay_and_are_not_tenants(tmp_path: Path) -> None:
    with chromadb.PersistentClient(tmp_path, Settings(anonymized_telemetry=False)) as client:
        client.create_collection("somebody.else", embedding_function=None)
    with opened(tmp_path) as index:
        assert index.opened_clean
        assert index.tenants() == []


def test_vectors_survive_closing_and_reopening(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        assert index.opened_clean
        filled(index)
    with opened(tmp_path) as index:
        assert index.opened_clean
        assert index.recorded_embedder("default") == EMBEDDER
        (hit,) = index.search("default", vectors(20), 1)[7]
    assert hit.id == "id-0007"
    assert hit.cosine == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("embedder", "dimensions"), [("another-model", DIMENSIONS), (EMBEDDER, 16)]
)
def test_vectors_of_another_embedder_are_refused(
    embedder: str, dimensions: int, tmp_path: Path
) -> None:
    with opened(tmp_path) as index:
        filled(index)
        index.ensure("default", EMBEDDER, DIMENSIONS)
        with pytest.raises(EmbedderMismatchError) as caught:
            index.ensure("default", embedder, dimensions)
        assert index.count("default") == 20
    assert caught.value.remedy is not None
    assert "local2 reindex" in caught.value.remedy


def test_a_reset_empties_the_collection_for_another_embedder(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        filled(index)
        index.reset("default", "another-model", 16)
        assert index.recorded_embedder("default") == "another-model"
        assert index.count("default") == 0
        index.ensure("default", "another-model", 16)


def segments(path: Path) -> list[Path]:
    """Return the folders with vector files, which Chroma writes at every thousandth record."""
    return [entry for entry in path.iterdir() if entry.is_dir()]


def test_emptying_the_only_collection_leaves_no_segment_folders(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        filled(index, count=1100)
        assert segments(tmp_path)
        index.reset("default", EMBEDDER, DIMENSIONS)
        assert segments(tmp_path) == []
        filled(index, count=1100)
        assert len(segments(tmp_path)) == 1
    with opened(tmp_path) as index:
        assert index.opened_clean
        answers = index.search("default", vectors(1100), 1)
    assert [answer[0].id for answer in answers] == names(1100)


@pytest.mark.parametrize("other", ["local2.memory.acme", "somebody.else"])
def test_emptying_a_collection_leaves_the_vectors_of_the_others(other: str, tmp_path: Path) -> None:
    with chromadb.PersistentClient(tmp_path, Settings(anonymized_telemetry=False)) as client:
        theirs = client.create_collection(
            other,
            embedding_function=None,
            metadata={"embedder": EMBEDDER, "dimensions": DIMENSIONS, "generation": "1"},
        )
        theirs.upsert(ids=names(1100), embeddings=vectors(1100))
    with opened(tmp_path) as index:
        filled(index)
        index.reset("default", EMBEDDER, DIMENSIONS)
    with chromadb.PersistentClient(tmp_path, Settings(anonymized_telemetry=False)) as client:
        remaining = client.get_collection(other, embedding_function=None)
        found = remaining.query(query_embeddings=vectors(20), n_results=1)
    assert [ids[0] for ids in found["ids"]] == names(20)


def test_a_refusal_by_chroma_is_a_vector_error(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        filled(index)
        with pytest.raises(VectorError, match="could not search"):
            index.search("default", np.ones((1, 3), np.float32), 1)
        with pytest.raises(VectorError, match="could not create a collection"):
            index.ensure("no/tenant", EMBEDDER, DIMENSIONS)


def test_an_open_folder_cannot_be_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_folder, "LOCK_WAIT", 0.0)
    with opened(tmp_path), pytest.raises(FolderLockedError, match="Another process"):
        opened(tmp_path)
    opened(tmp_path).close()


def test_failing_to_create_the_folder_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StorageError, match="cannot be written to"):
        opened(tmp_path / "file" / "index")


def test_a_dying_predecessor_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predecessor = os.open(tmp_path / ".lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(predecessor, fcntl.LOCK_EX)
    monkeypatch.setattr("local2.vectors.folder.time.sleep", lambda _: os.close(predecessor))
    opened(tmp_path).close()


def test_a_killed_owner_leaves_its_vectors_and_an_unclean_folder(tmp_path: Path) -> None:
    fill_and_close(tmp_path)
    killed = subprocess.run([sys.executable, "-c", KILLED_WHILE_OPEN, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    with opened(tmp_path) as index:
        assert not index.opened_clean
        assert index.count("default") == 20
    with opened(tmp_path) as index:
        assert index.opened_clean


def test_a_folder_is_emptied_if_the_process_died_while_opening_it(tmp_path: Path) -> None:
    fill_and_close(tmp_path)
    (tmp_path / ".opening").touch()
    (tmp_path / "notes.txt").write_text("not Chroma's")
    with opened(tmp_path) as index:
        assert not index.opened_clean
        assert index.tenants() == []
        filled(index)
    assert (tmp_path / "notes.txt").exists()
    with opened(tmp_path) as index:
        assert index.opened_clean
        assert index.count("default") == 20


@pytest.mark.parametrize("file", ["chroma.sqlite3", "*/header.bin", "*/index_metadata.pickle"])
def test_a_folder_that_chroma_cannot_read_is_emptied(file: str, tmp_path: Path) -> None:
    fill_and_close(
        tmp_path, count=1100
    )  # Chroma writes its vector files at every thousandth record
    (damaged,) = tmp_path.glob(file)
    damaged.write_bytes(os.urandom(4096))
    with opened(tmp_path) as index:
        assert not index.opened_clean
        assert index.tenants() == []
        filled(index)
        assert len(index.search("default", vectors(1), 3)[0]) == 3


def cut_in_half(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(shutil.rmtree, id="the folder is deleted"),
        pytest.param(lambda path: (path / "chroma.sqlite3").unlink(), id="the database is deleted"),
        pytest.param(lambda path: os.truncate(path / "chroma.sqlite3", 0), id="it is emptied"),
        pytest.param(lambda path: cut_in_half(path / "chroma.sqlite3"), id="it is cut"),
        pytest.param(lambda path: shutil.rmtree(segments(path)[0]), id="vector files are deleted"),
    ],
)
def test_damage_to_an_open_index_is_one_error_that_a_reset_repairs(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    folder = tmp_path / "index"
    with opened(folder) as index:
        filled(index, count=1100)
        damage(folder)
        with pytest.raises(IndexDamagedError):
            index.upsert("default", names(2100), vectors(2100))

        index.reset("default", EMBEDDER, DIMENSIONS, whole=True)

        assert not index.opened_clean
        filled(index, count=1100)
        answers = index.search("default", vectors(1100), 1)
        assert [answer[0].id for answer in answers] == names(1100)
    with opened(folder) as index:
        assert (index.opened_clean, index.count("default")) == (True, 1100)


def test_an_index_that_cannot_be_emptied_fails_until_it_can(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    with opened(folder) as index:
        filled(index)
        shutil.rmtree(folder)
        folder.touch()
        for _ in range(2):
            with pytest.raises(IndexDamagedError, match="An empty index cannot be created"):
                index.reset("default", EMBEDDER, DIMENSIONS, whole=True)
            with pytest.raises(IndexDamagedError, match="There is no index"):
                index.count("default")

        folder.unlink()
        index.reset("default", EMBEDDER, DIMENSIONS, whole=True)
        filled(index)
        assert index.count("default") == 20
    with opened(folder) as index:
        assert index.opened_clean


def test_a_restored_folder_is_locked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_folder, "LOCK_WAIT", 0.0)
    folder = tmp_path / "index"
    with opened(folder) as index:
        shutil.rmtree(folder)
        index.reset("default", EMBEDDER, DIMENSIONS, whole=True)
        with pytest.raises(FolderLockedError):
            opened(folder)


def test_a_full_disk_is_not_treated_as_damage() -> None:
    """Emptying the folder would only lose its vectors."""
    full = InternalError("Database error: (code: 13) database or disk is full")
    with pytest.raises(VectorError) as caught, translated("store vectors"):
        raise full
    assert not isinstance(caught.value, IndexDamagedError)
    assert "the disk's space" in str(caught.value)


def test_a_swap_replaces_the_current_collection_with_the_next(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        filled(index)
        filled(index, tenant="acme")
        index.ensure("default", "other-model", 4, "next")
        index.upsert("default", ["a"], np.eye(1, 4, dtype=np.float32), "next")
        assert (index.count("default"), index.ids("default", 0, 9, "next")) == (20, ["a"])
        index.delete("default", ["id-0003"])

        index.swap("default")

        assert index.recorded_embedder("default") == "other-model"
        assert index.recorded_embedder("default", "next") is None
        assert index.ids("default", 0, 9) == ["a"]
        assert index.count("acme") == 20, "another tenant's is as it was"
    folders = [entry for entry in tmp_path.iterdir() if entry.is_dir()]
    assert len(folders) <= 2, "the former one's files are gone"


def test_a_swap_interrupted_by_a_kill_is_finished_on_opening(
    tmp_path: Path,
) -> None:
    for tenant in ("default", "acme"):
        with opened(tmp_path) as index:
            filled(index, tenant=tenant)
            index.ensure(tenant, "other-model", 4, "next")
            index.upsert(tenant, ["a"], np.eye(1, 4, dtype=np.float32), "next")
            index._drop(tenant)

        with opened(tmp_path) as index:
            assert index.recorded_embedder(tenant) == "other-model"
            assert index.ids(tenant, 0, 9) == ["a"]


def test_without_a_next_collection_nothing_is_swapped(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        filled(index)
        with pytest.raises(VectorError, match="no other collection"):
            index.swap("default")
        index.drop_next("default")
        assert index.count("default") == 20


def test_a_folder_that_could_not_be_marked_is_not_left_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_folder, "LOCK_WAIT", 0.1)
    (tmp_path / ".dirty").mkdir()
    with pytest.raises(StorageError):
        opened(tmp_path)
    (tmp_path / ".dirty").rmdir()

    with opened(tmp_path) as index:
        assert index.tenants() == []
