"""The stack that suffers the faults: on a fixed port, with controllable models and clock."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec
import nats.errors

from abuse.target import Target, envelope, free_port, turn
from faults.hurried_stack import CLOCK
from harness.client import Asker
from harness.footprint import NATS_SERVER, VECTOR_WORKER, children
from harness.processes import chroma_dir, data_dir, environment_of, running_stack
from local2 import examination
from local2.config_files import load_settings
from local2.protocol import subjects
from stand_ins.ollama_server import OllamaStandIn

HURRIED = Path(__file__).parent / "hurried_stack.py"
LEDGER = "ledger.sqlite3"
POLL = 0.05
PATIENCE = 90.0
"""Seconds after which a stack that has not recovered will not recover."""
ANSWER_TIMEOUT = 2.0
"""Seconds to wait for an answer; an answer lost with a process never arrives."""

ProcessName = Literal["stack", "nats-server", "vector worker"]
CHILDREN: dict[ProcessName, bytes] = {"nats-server": NATS_SERVER, "vector worker": VECTOR_WORKER}
PROCESSES: tuple[ProcessName, ...] = ("stack", *CHILDREN)


class FaultTarget(Target):
    """A target made by `fault_target_in`."""

    def __init__(self, folder: Path, models: OllamaStandIn) -> None:
        self.port = free_port()
        super().__init__(folder, self.port, part=1.0)
        self.folder = folder
        self.models = models
        self.chroma = chroma_dir(folder)
        self.ledger = data_dir(folder) / LEDGER
        self._clock = folder / "clock"
        self.set_clock(0)
        self.environment = {
            **environment_of(folder),
            "LOCAL2_BUS__PORT": str(self.port),
            "LOCAL2_MEMORY__EMBEDDER": "ollama",
            "LOCAL2_MEMORY__OLLAMA_URL": models.url,
            "LOCAL2_GENERATOR__CHAT": "ollama",
            "LOCAL2_GENERATOR__OLLAMA_URL": models.url,
            # Facts are the rules', so that they can be counted.
            "LOCAL2_MEMORY__EXTRACTION_MODEL": "rules",
            "LOCAL2_MEMORY__QUERY_MODEL": "rules",
        }
        self.settings = load_settings(environment=self.environment)

    async def start(self) -> None:
        environment = {**self.environment, CLOCK: str(self._clock)}
        started = running_stack(
            self.folder, port=self.port, script=HURRIED, environment=environment
        )
        await self._stack.enter_async_context(started)

    async def kill(self) -> None:
        """Kill all its processes, as a power cut would."""
        os.kill(self.process(), signal.SIGKILL)
        await self.stop()

    def pids(self) -> dict[ProcessName, int]:
        """Return the running processes."""
        found: dict[ProcessName, int] = {"stack": self.process()}
        for name, command in CHILDREN.items():
            if (pid := next(children(self.process(), command), None)) is not None:
                found[name] = pid
        return found

    async def pid(self, name: ProcessName) -> int:
        """Return the id of a process, which may just be starting."""
        while name not in (found := self.pids()):  # noqa: ASYNC110 - another process starts it
            await asyncio.sleep(POLL)
        return found[name]

    def set_clock(self, seconds: float) -> None:
        """Set the stack's clock ahead by this many seconds."""
        written = self._clock.with_suffix(".new")
        written.write_text(str(seconds), encoding="ascii")
        written.replace(self._clock)

    async def recovered(self) -> float:
        """Return the seconds until it writes, stores turns and finds by meaning; < 0: never."""
        begun = time.perf_counter()
        while not await self._is_well():
            if time.perf_counter() - begun > PATIENCE:
                return -1.0
            await asyncio.sleep(POLL)
        return time.perf_counter() - begun

    async def broken(self) -> list[str]:
        """Return what `local2 doctor` finds broken, once it has had time to recover."""
        until = time.perf_counter() + PATIENCE
        while True:
            findings = await examination.run_checks(self.settings)
            broken = [f"{f.name}: {f.detail}" for f in findings if f.verdict == "broken"]
            if not broken or time.perf_counter() > until:
                return broken
            await asyncio.sleep(POLL)

    async def _is_well(self) -> bool:
        try:
            status = await Asker(self.client).status(within=ANSWER_TIMEOUT)
        except (nats.errors.Error, TimeoutError, msgspec.MsgspecError):
            return False
        if status.problem or status.turns_problem or not status.vectors_available:
            return False
        number = f"{time.monotonic_ns()}"
        save = envelope("probe", {"args": {"content": f"Probe {number}."}})
        saved = await self.request(
            subjects.tool_request("save_memory"), save, within=ANSWER_TIMEOUT
        )
        told = turn("probe", number, "Are you well?", f"I am, {number}.")
        stored = await self.stored(subjects.RESPONSE_GENERATION, told, within=ANSWER_TIMEOUT)
        return saved is not None and saved.ok and stored is not None


@asynccontextmanager
async def fault_target_in(folder: Path) -> AsyncIterator[FaultTarget]:
    """Run a stack, its models, and a client."""
    with OllamaStandIn() as models:
        target = FaultTarget(folder, models)
        await target.start()
        try:
            await target.connect()
            yield target
            await target.client.close()
        finally:
            await target.stop()
