"""A tenant that floods a stack: many clients in a separate process, until it is terminated.

Half of them recall, the others ingest, without a pause. It prints a line once each has an answer,
and at the end what was answered and refused.
"""

import asyncio
import itertools
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import nats
import uvloop
from nats.aio.client import Client

from harness.accounts import AGENT
from harness.chat import messages, questions
from harness.client import request_of
from harness.processes import IMPORTS, child
from local2.bus.identity import bearer
from local2.protocol import subjects
from local2.protocol.payloads import ERROR_CODE, RETRY_AFTER
from local2.tenants.credentials import Credentials, inbox_of

CLIENTS = 200
INGESTED = 20
TIMEOUT = 60.0
POLL = 0.05
TEXTS = 1_000


class Flood(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of answers by outcome ("ok", an error code, "timeout")."""

    answers: dict[str, int]


@asynccontextmanager
async def flooding(
    url: str, agents: Sequence[Credentials], folder: Path
) -> AsyncIterator[list[Flood]]:
    """Flood for these users while the context lasts; afterwards the list has the outcome."""
    log, asking = folder / "flood.log", folder / "flood.json"
    log.unlink(missing_ok=True)
    asking.write_bytes(msgspec.json.encode(agents))
    ended: list[Flood] = []
    async with child(Path(__file__), url, str(asking), log=log, environment=IMPORTS) as process:
        while not log.read_bytes():
            assert process.returncode is None, "The flood has ended."
            await asyncio.sleep(POLL)
        yield ended
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
    ended.append(msgspec.json.decode(log.read_bytes().splitlines()[-1], type=Flood))


class Clients:
    """Clients that share one connection."""

    def __init__(self, client: Client, people: Sequence[Credentials]) -> None:
        self._client = client
        self._headers = [bearer(person.token) for person in people]
        self._said, self._asked = messages(TEXTS, seed=7), questions(TEXTS, seed=8)
        self._numbers = itertools.count()
        self.answers = Counter[str]()
        self.ending = False

    async def ask(self, client: int, first: asyncio.Event) -> None:
        """Send one client's requests."""
        while not self.ending:
            number = next(self._numbers)
            if client % 2:
                tool, data = "recall", request_of(query=self._asked[number % TEXTS])
            else:
                tool, data = "ingest", request_of(messages=self._conversation(number))
            await self._request(tool, data, client)
            first.set()

    def _conversation(self, number: int) -> list[dict[str, str]]:
        texts = (self._said[(number + n) % TEXTS] for n in range(INGESTED))
        return [
            {"role": "user", "content": f"{number}-{n}: {text}"} for n, text in enumerate(texts)
        ]

    async def _request(self, tool: str, data: bytes, client: int) -> None:
        subject = subjects.tool_request(tool)
        headers = self._headers[client % len(self._headers)]
        try:
            answer = await self._client.request(subject, data, timeout=TIMEOUT, headers=headers)
        except nats.errors.TimeoutError:
            self.answers["timeout"] += 1
            return
        told = answer.headers or {}
        self.answers[f"{tool} {told.get(ERROR_CODE, 'ok')}"] += 1
        if RETRY_AFTER in told:
            await asyncio.sleep(float(told[RETRY_AFTER]))


async def flood(url: str, people: Sequence[Credentials]) -> None:
    client = await nats.connect(url, nkeys_seed_str=people[0].seed, inbox_prefix=inbox_of(AGENT))
    clients = Clients(client, people)
    firsts = [asyncio.Event() for _ in range(CLIENTS)]
    tasks = [asyncio.create_task(clients.ask(n, first)) for n, first in enumerate(firsts)]
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await asyncio.gather(*(first.wait() for first in firsts))
    print("flooding", flush=True)
    await stop.wait()
    clients.ending = True
    await asyncio.gather(*tasks)
    print(msgspec.json.encode(Flood(answers=clients.answers)).decode(), flush=True)
    await client.close()


if __name__ == "__main__":
    bus, asking = sys.argv[1:]
    everybody = msgspec.json.decode(Path(asking).read_bytes(), type=list[Credentials])
    uvloop.run(flood(bus, everybody))
