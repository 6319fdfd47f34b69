"""One stack and one `local2 serve` beside it, for all tests over HTTP."""

from collections.abc import Iterator

import httpx
import pytest

from commands import Served, served
from http_servers import HttpServer, http_server
from stacks import settings_in


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(settings_in(tmp_path_factory.mktemp("web"))) as running:
        yield running


@pytest.fixture(scope="package")
def server(stack: Served) -> Iterator[HttpServer]:
    with http_server(stack.folder, LOCAL2_HTTP__TIMEOUT="2") as running:
        yield running


@pytest.fixture
def ada(server: HttpServer) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture
def bob(server: HttpServer) -> Iterator[httpx.Client]:
    with server.client(**{"Local2-User": "bob"}) as client:
        yield client
