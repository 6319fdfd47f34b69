"""Servers of this machine: the token of their clients."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from local2.loopback import load_or_create_token

SERVERS = 8


def test_servers_that_start_together_have_the_same_token(tmp_path: Path) -> None:
    together = Barrier(SERVERS)

    def start(file: Path) -> str:
        together.wait()
        return load_or_create_token(file)

    with ThreadPoolExecutor(SERVERS) as servers:
        for number in range(20):
            file = tmp_path / str(number) / "token"
            tokens = set(servers.map(start, [file] * SERVERS))

            assert tokens == {file.read_text().strip()}
            assert [file] == list(file.parent.iterdir())
