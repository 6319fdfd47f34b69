"""`web: on`: a stack starts the page beside itself, prints its link, and ends it.

`local2 web --link` makes other links, as long as the page is served.
"""

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from browsers import in_another_thread
from commands import ROOT, local2
from local2.settings import HOME_VARIABLE
from waiting import wait_until


@contextmanager
def run_local(home: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """Start the stack with its page on this port, as in the README but without a terminal."""
    variables = {
        HOME_VARIABLE: str(home),
        "LOCAL2_GENERATOR__CHAT": "rules",
        "LOCAL2_HTTP__WEB": "on",
        "LOCAL2_HTTP__PORT": str(port),
    }
    with subprocess.Popen(
        [sys.executable, ROOT / "run_local.py"],
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    ) as running:
        try:
            yield running
        finally:
            running.send_signal(signal.SIGTERM)
            running.communicate(timeout=30)


def is_listening(link: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", httpx.URL(link).port or 0)) == 0


def test_a_stack_serves_the_page_while_it_runs(tmp_path: Path) -> None:
    with run_local(tmp_path, port=0) as running:
        assert running.stdout is not None
        link = running.stdout.readline().removeprefix("Page: ").strip()
        with httpx.Client(trust_env=False, timeout=30) as client:
            wait_until(lambda: is_listening(link))
            assert client.get(link).status_code == 200
            assert client.get(httpx.URL(link).join("/memories")).status_code == 200
        assert httpx.get(link, trust_env=False, timeout=30).status_code == 403
        linked = in_another_thread(local2, tmp_path, "web", "--link")
        another = linked.stdout.removeprefix("Page: ").strip()
        with httpx.Client(trust_env=False, timeout=30) as second:
            assert second.get(f"{another}x").status_code == 403
            assert second.get(another).status_code == 200
            assert second.get(httpx.URL(another).join("/memories")).status_code == 200
        assert httpx.get(another, trust_env=False, timeout=30).status_code == 403
        secret = tmp_path / ".local2" / "page.json"
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600

    assert running.returncode == 0
    refused = in_another_thread(local2, tmp_path, "web", "--link")
    assert "Start it with `local2 web`" in refused.stderr
    assert not is_listening(link)


def test_a_port_in_use_is_said_and_the_stack_runs_all_the_same(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        with run_local(tmp_path, port=other.getsockname()[1]) as running:
            assert running.stderr is not None
            said = running.stderr.readline()
            while "cannot listen" not in said:
                said = running.stderr.readline()

        assert running.returncode == 0


def test_without_the_extra_the_command_names_it_and_not_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "local2.web.pages.links", raising=False)
    monkeypatch.setitem(sys.modules, "itsdangerous", None)

    refused = in_another_thread(local2, tmp_path, "web", "--link")

    assert "The page needs NiceGUI" in refused.stderr
    assert "local2-memory[web]" in refused.stderr
    assert "itsdangerous" not in refused.stderr
