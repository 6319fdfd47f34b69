"""Tenants' agents as other people write them: nats-py, JSON by hand, nothing from local2."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import nats
import nats.errors
from msgspec.structs import replace
from nats.aio.client import Client
from nats.aio.msg import Msg

from commands import local2
from local2.settings import BusSettings, Settings
from stacks import settings_in
from waiting import eventually

ACCOUNTS = Path("config") / "nats"
QUIET = 0.3
"""Seconds within which a message would have arrived; answers to later requests do."""


class Answer(NamedTuple):
    ok: bool
    content: str
    code: str | None
    data: Any

    @classmethod
    def of(cls, message: Msg) -> "Answer":
        payload = json.loads(message.data)["payload"]
        error = payload.get("error") or {}
        return cls(payload["ok"], payload["content"], error.get("code"), payload.get("data"))


class Agent:
    """A connected agent; `errors` are the errors that the server reported to it."""

    def __init__(self, client: Client, errors: list[str]) -> None:
        self.client = client
        self.errors = errors

    async def call(
        self,
        tool: str,
        args: dict[str, Any],
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
        **claims: Any,
    ) -> Answer:
        """Call a tool; `claims` are fields of the envelope."""
        sent = dict(headers or {})
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        message = await self.client.request(
            f"tool.request.{tool}",
            json.dumps({"payload": {"args": args}, **claims}).encode(),
            timeout=15,
            headers=sent or None,
        )
        return Answer.of(message)

    async def receive_from(self, subject: str) -> list[Msg]:
        """Return the list of messages that arrive on a subject from now on."""
        messages: list[Msg] = []

        async def receive(message: Msg) -> None:
            messages.append(message)

        await self.client.subscribe(subject, cb=receive)
        await self.client.flush()
        return messages


@asynccontextmanager
async def agent(folder: Path, url: str, tenant: str, name: str = "agent") -> AsyncIterator[Agent]:
    """Connect with what `local2 tenants add` printed.

    The server refuses everybody for a moment while it reads its accounts again.
    """
    clients: list[Agent] = []

    async def connected() -> bool:
        try:
            clients.append(await _connect(folder, url, tenant, name))
        except nats.errors.Error:
            return False
        return True

    await eventually(connected)
    try:
        yield clients[0]
    finally:
        await clients[0].client.close()


async def _connect(folder: Path, url: str, tenant: str, name: str = "agent") -> Agent:
    """Connect, or fail if the server refuses the agent."""
    errors: list[str] = []

    async def noted(error: Exception) -> None:
        errors.append(str(error))

    client = await nats.connect(
        url,
        nkeys_seed_str=(folder / ACCOUNTS / tenant / f"{name}.nk").read_text().strip(),
        inbox_prefix=f"_INBOX_{name}",
        error_cb=noted,
        allow_reconnect=False,
    )
    return Agent(client, errors)


def with_tenants(folder: Path, *tenants: str, **memory: Any) -> Settings:
    """Create accounts as an operator does; return the settings of a stack on the folder."""
    assert local2(folder, "tenants", "init").returncode == 0
    for tenant in tenants:
        done = local2(folder, "tenants", "add", tenant)
        assert done.returncode == 0, done.stderr
    return replace(settings_in(folder, **memory), bus=BusSettings(accounts=folder / ACCOUNTS))


def token_for(folder: Path, tenant: str, user: str, *options: str) -> str:
    return local2(folder, "tenants", "token", tenant, "--user", user, *options).stdout.strip()


async def settled() -> None:
    await asyncio.sleep(QUIET)
