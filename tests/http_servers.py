"""`local2 serve` as users start it, and clients of it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec

from commands import Served
from local2.bus.connection import connect
from local2.bus.tool_host import ToolHost
from local2.settings import HOME_VARIABLE
from note_tool import Notes


class HttpServer(NamedTuple):
    """A running `local2 serve`, or `local2 web` with the link that opens its page."""

    url: str
    token_is_in: str
    page: str | None = None

    def client(self, token: str | None = None, **headers: str) -> httpx.Client:
        """A client that sends a token, by default the server's own."""
        token = Path(self.token_is_in).read_text().strip() if token is None else token
        return httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}", **headers},
            timeout=30,
            trust_env=False,
        )


@contextmanager
def http_server(home: Path, command: str = "serve", /, **environment: str) -> Iterator[HttpServer]:
    """Run the command, or `web`, in a process of its own."""
    variables = {**os.environ, HOME_VARIABLE: str(home), **environment}
    variables.pop("PYTEST_CURRENT_TEST", None)  # NiceGUI behaves differently in tests of its own
    with subprocess.Popen(
        [sys.executable, "-m", "local2", command, "--port", "0", "--user", "ada"],
        cwd=home,
        stdout=subprocess.PIPE,
        text=True,
        env=variables,
    ) as server:
        assert server.stdout is not None
        try:
            page = server.stdout.readline().split()[-1] if command == "web" else None
            document, where = server.stdout.readline(), server.stdout.readline()
            yield HttpServer(document.split()[-1].partition("/v1/")[0], where.split()[-1], page)
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(30) == 0


def call(client: httpx.Client, tool: str, **arguments: Any) -> Any:
    """The answer of a tool, which has to succeed."""
    answer = client.post(f"/v1/tools/{tool}", json=arguments)
    assert answer.status_code == 200, answer.text
    return answer.json()


def problem(answer: httpx.Response) -> tuple[int, str, str]:
    """The status, the code and the detail of a problem."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    found = answer.json()
    assert found["status"] == answer.status_code
    assert found["type"] == f"urn:local2:{found['code']}"
    return answer.status_code, found["code"], found["detail"]


@asynccontextmanager
async def team_tool(stack: Served) -> AsyncIterator[Notes]:
    """Another team's tool on the bus of the stack."""
    notes = Notes()
    tool = msgspec.structs.replace(notes.tool(), name="jot")
    async with connect(stack.url, name="team") as bus, ToolHost(bus, tool):
        yield notes


async def post(
    client: httpx.Client, path: str, *, key: str | None = None, **body: object
) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return await asyncio.to_thread(client.post, path, json=body, headers=headers)
