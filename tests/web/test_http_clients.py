"""A generated client and a tester of every operation know nothing but the OpenAPI document."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from openapi_python_client import generate
from openapi_python_client.config import Config, ConfigFile, MetaType

from commands import served
from http_servers import HttpServer, http_server
from local2.protocol.memory_tools import TOOLS
from local2.protocol.services import SERVICES
from stacks import settings_in

CLIENT = "generated_client"
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
]
LEFT_OUT = ["/v1/events", "/v1/services/memory.backup"]
"""A stream that does not end, and an operation that writes into any folder."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """One for these tests only: the tester stores anything, also for everybody."""
    home = tmp_path_factory.mktemp("anything")
    with served(settings_in(home)), http_server(home, LOCAL2_HTTP__TIMEOUT="2") as running:
        yield running


def imported(name: str) -> ModuleType:
    return importlib.import_module(f"{CLIENT}.{name}")


def test_a_generated_client_passes_the_tutorial(
    server: HttpServer, ada: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = tmp_path / "openapi.json"
    document.write_bytes(ada.get("/v1/openapi.json").content)
    problems = generate(
        config=Config.from_sources(
            ConfigFile(post_hooks=[]), MetaType.NONE, document, "utf-8", False, tmp_path / CLIENT
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    models: Any = imported("models")
    token = Path(server.token_is_in).read_text().strip()
    connection = imported("client").AuthenticatedClient(base_url=server.url, token=token)
    with connection as client:
        imported("api.tools.save_topic").sync(
            client=client,
            idempotency_key="first-city",
            body=models.SaveTopicArguments(topic="user.city", content="Oslo"),
        )
        recall = imported("api.tools.recall").sync
        question = models.RecallArguments(query="Which city do I live in?", top_k=1)
        recalled = recall(client=client, body=question)
        refused = recall(client=client, body=models.RecallArguments(query=""))
        topic = imported("api.tools.recall_topic").sync(
            client=client, body=models.RecallTopicArguments(topic="user.city")
        )

    assert list(problems) == []
    assert topic.data.content == "Oslo"
    assert [item.topic for item in recalled.data.items] == ["user.city"]
    assert (refused.code, refused.status) == ("invalid_arguments", 422)


@pytest.mark.timeout(180)
def test_no_operation_fails_or_answers_otherwise_than_the_document_states(
    server: HttpServer, tmp_path: Path
) -> None:
    token = Path(server.token_is_in).read_text().strip()
    tested = subprocess.run(
        [
            Path(sys.executable).parent / "schemathesis",
            *("run", f"{server.url}/v1/openapi.json"),
            *("--header", f"Authorization: Bearer {token}"),
            *("--checks", ",".join(CHECKS)),
            *(option for path in LEFT_OUT for option in ("--exclude-path", path)),
            *("--phases", "fuzzing", "--max-examples", "3", "--generation-database", "none"),
            *("--suppress-health-check", "all", "--no-color"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert tested.returncode == 0, tested.stdout
    assert (
        f"Tested: {len(TOOLS) + len(SERVICES) - 1 + 2}" in tested.stdout
    )  # two for memories by id
