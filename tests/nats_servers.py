"""A nats-server with a configuration of its own, which the stack does not start."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local2.bus.server import find_server
from waiting import wait_until


@contextmanager
def nats_server(folder: Path, *configuration: str, log: Path | None = None) -> Iterator[str]:
    """Run a server on a free port, with these lines of configuration; return its address."""
    file = folder / "server.conf"
    file.write_text(
        "\n".join(
            (
                'listen: "127.0.0.1:-1"',
                f'ports_file_dir: "{folder}"',
                f'log_file: "{log or folder / "server.log"}"',
                *configuration,
            )
        )
    )
    server = subprocess.Popen([find_server(), "-c", file])
    ports = folder / f"nats-server_{server.pid}.ports"
    try:
        wait_until(lambda: ports.exists() and ports.read_text().rstrip().endswith("}"))
        yield str(json.loads(ports.read_text())["nats"][0])
    finally:
        server.terminate()
        server.wait(10)
