"""`local2 reindex --embedder` waits for the new index if asked, and continues after a kill."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from commands import Running, answer, in_a_fork, lines, local2, recalled
from stand_ins.ollama_server import OllamaStandIn
from waiting import wait_until

MINILM, NOMIC = "all-MiniLM-L6-v2", "nomic-embed-text"
MESSAGES = [{"role": "user", "content": f"Osmium {number} is dense."} for number in range(60)]


class LimitedOllama(OllamaStandIn):
    """An Ollama that serves `left` embedding requests for documents, then lacks the model."""

    left = 10**9

    def has_model(self, name: str) -> bool:
        last = self.requests[-1].body.get("input", ())
        if any(text.startswith("search_document") for text in last):
            self.left -= 1
        return self.left >= 0 and super().has_model(name)


@pytest.fixture
def ollama() -> Iterator[LimitedOllama]:
    with LimitedOllama() as server:
        server.models.clear()
        yield server


@pytest.fixture
def environment(ollama: LimitedOllama) -> dict[str, str]:
    return {"LOCAL2_MEMORY__OLLAMA_URL": ollama.url}


def finding(folder: Path, name: str) -> Any:
    """What `doctor` says of one thing."""
    (found,) = [one for one in answer(folder, "doctor") if one["name"] == name]
    return found


def test_a_reindex_continues_after_a_kill_and_a_second_command_waits_for_it(
    tmp_path: Path, ollama: LimitedOllama, environment: dict[str, str]
) -> None:
    stack = Running(tmp_path, **environment)
    local2(tmp_path, "ingest", lines(tmp_path / "talk.jsonl", MESSAGES))
    wait_until(lambda: "60 indexed, 0 waiting" in finding(tmp_path, "index")["detail"])
    ollama.models.append(f"{NOMIC}:latest")
    ollama.left = 2

    begun = answer(tmp_path, "reindex", "--embedder", NOMIC, "--no-wait")
    wait_until(lambda: finding(tmp_path, "next index")["verdict"] == "broken")
    following = finding(tmp_path, "next index")
    stack.stop(signal.SIGKILL)

    assert (begun["embedder"], begun["next"]["embedder"]) == (MINILM, NOMIC)
    assert "ollama pull" in following["remedy"]
    done, total = (int(word) for word in following["detail"].split() if word.isdigit())
    assert 0 < done < total == 60
    ollama.left = 10**9
    stack.runtime.unlink()  # otherwise the new stack would seem to run already
    stack = Running(tmp_path, **environment)
    try:
        finished = in_a_fork(tmp_path, "reindex", "--embedder", NOMIC)
        output = " ".join(finished.stdout.split())
        assert finished.returncode == 0, finished.stderr
        assert output.startswith(f"60 records are indexed by {NOMIC}; 0 replaced records")
        again = answer(tmp_path, "reindex", "--embedder", NOMIC)
        assert (again["embedder"], again["next"]) == (NOMIC, None)
        assert len(recalled(tmp_path, "dense osmium")) == 20
    finally:
        stack.stop(signal.SIGTERM)


def test_a_missing_embedder_is_an_error_and_changes_nothing(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    stack = Running(tmp_path, **environment)
    try:
        failed = local2(tmp_path, "reindex", "--embedder", "no-such-model")
        as_json = local2(tmp_path, "reindex", "--embedder", "no-such-model", "--json")

        assert failed.returncode == as_json.returncode == 1
        assert "Nothing was changed" in failed.stderr
        assert "ollama pull no-such-model" in " ".join(failed.stderr.split())
        assert json.loads(as_json.stdout)["ok"] is False
        assert MINILM in finding(tmp_path, "index")["detail"]
    finally:
        stack.stop(signal.SIGTERM)
