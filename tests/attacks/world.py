"""A stack with two tenants, users who trust it, and attackers who have credentials or none.

`desk` and `boss` are agents of acme that act for ada. `eve` is another agent of acme, with a token
of bob's. `rita` may only read. `mallory` is an agent of beta, with a token for beta's own ada.
`web` serves the pages and HTTP of acme, where ada has signed in.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import nats.errors

from http_servers import HttpServer
from local2.protocol.envelope import utc_now
from local2.tenants.credentials import SIGNING_KEY
from local2.tenants.directory import TENANTS_FILE, Entries
from local2.tenants.tokens import sign
from tenant_agents import ACCOUNTS, Agent, Answer
from waiting import eventually

ADAS, SHARED, BETAS = "ZANZIBAR", "KILIMANJARO", "MADAGASCAR"
"""Secrets that only acme's ada, everybody in acme, and only beta's ada may read."""
SECRETS = {"acme": (ADAS, BETAS), "beta": (ADAS, SHARED)}
"""Secrets that an attacker of each tenant must not read."""
SESSION, QUERY, OUTPUT = "s1", "q1", "tout_" + "a1" * 12
ITEM = {"namespace": ["vault"], "key": "code"}
ITEMS = {"collection": "vaults"}
VAULT = "What is the code of the vault?"
PATIENCE = 1.0
"""Seconds to wait for an answer that should not arrive."""


ReadRows = Callable[[str], list[tuple[Any, ...]]]
"""Reads rows of all tenants from the ledger."""


class World:
    """The connected agents, and tokens signed with the tenants' own keys."""

    def __init__(self, folder: Path, url: str, agents: dict[str, Agent], ledger: ReadRows) -> None:
        self.folder = folder
        self.url = url
        self.agents = agents
        self.ids: dict[str, str] = {}
        self.known: dict[str, Any] = {}
        self.ledger = ledger
        self.web: HttpServer | None = None
        self.cookie = ""
        self.last_row = 0
        self.rows: dict[str, list[tuple[Any, ...]]] = {}
        self.tomorrow = (utc_now() + timedelta(days=1)).isoformat()

    def __getattr__(self, name: str) -> Agent:
        return self.agents[name]

    def entries(self) -> Entries:
        folder = self.folder / ACCOUNTS
        return _read_entries(folder, (folder / TENANTS_FILE).stat().st_mtime_ns)

    def private(self, tenant: str) -> str:
        return (self.folder / ACCOUNTS / tenant / SIGNING_KEY).read_text()

    def token(self, user: str, tenant: str = "acme", **claims: Any) -> str:
        key = self.entries().tenants[tenant].tokens[-1].id
        hour = timedelta(hours=1)
        return sign(self.private(tenant), key, tenant=tenant, user=user, valid_for=hour, **claims)

    def stored(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return every row that was there before the attacks, and all that belongs to an ada."""
        tables = {
            table: f"SELECT * FROM {table} WHERE owner = 'ada'"  # noqa: S608
            for table in ("note", "item", "tool_output", "feedback")
        } | {"record": f"SELECT * FROM record WHERE row <= {self.last_row}"}  # noqa: S608
        return {table: sorted(self.ledger(sql), key=repr) for table, sql in tables.items()}

    def begin_attacks(self) -> None:
        """Keep what is stored now, which attacks may not change."""
        ((self.last_row,),) = self.ledger("SELECT max(row) FROM record")
        self.rows = self.stored()

    async def known_to_users(self) -> dict[str, Any]:
        """Return everything that the two adas may know, taken from their answers."""
        acme, beta = await asyncio.gather(
            self._known_to(self.desk, self.token("ada")),
            self._known_to(self.office, self.token("ada", "beta")),
        )
        return {"acme": acme, "beta": beta}

    async def _known_to(self, agent: Agent, token: str) -> list[Any]:
        calls: list[tuple[str, dict[str, Any]]] = [
            ("recall", {"query": VAULT, "explain": True, **self._all}),
            ("recall", {"query": "Which database do we use?", **self._all}),
            ("recall", {"query": VAULT, "scope": "session", **self._all}),
            ("recall_topic", {"topic": "user.code"}),
            ("recall_topic", {"topic": "project.database"}),
            ("memory_history", {"topic_or_id": "user.code"}),
            ("memory_history", {"topic_or_id": "project.database"}),
            ("load_session", {"session_id": SESSION}),
            ("top_memories", {}),
            ("read_tool_output", {"tool_output_key": OUTPUT}),
        ]
        answers = await asyncio.gather(
            *(agent.call(tool, args, token=token, session_id=SESSION) for tool, args in calls)
        )
        items = await ask(agent, "memory.items.get", {"keys": [ITEM], **ITEMS}, token=token)
        item = json.loads(items[items.index('{"payload') :])["payload"]["items"][0]
        return [*((one.code, one.content, one.data) for one in answers), item]

    @property
    def _all(self) -> dict[str, Any]:
        """Ask at one fixed time, since scores decrease as time passes."""
        return {"top_k": 20, "as_of": self.tomorrow}

    async def at_rest(self) -> None:
        """Wait until everything sent is stored, read for facts and indexed."""

        async def done() -> bool:
            answers = await asyncio.gather(
                *(
                    one.client.request("memory.status", b"", timeout=15)
                    for one in (self.boss, self.chief)
                )
            )
            statuses = [json.loads(one.data)["payload"] for one in answers]
            return not any(one.get("waiting") or one.get("unread") for one in statuses)

        await eventually(done, within=60)


@cache
def _read_entries(folder: Path, changed_ns: int) -> Entries:  # noqa: ARG001 - read again when changed
    """Read the tenants once for each change, which parses much YAML, and not for each token."""
    read = Entries.read(folder)
    assert read is not None
    return read


class Case(NamedTuple):
    """One attack by an agent of a tenant; it returns everything that the attacker received."""

    name: str
    attack: Callable[[World], Awaitable[object]]
    tenant: str = "acme"


async def ask(
    agent: Agent,
    subject: str,
    payload: object,
    *,
    token: str | None = None,
    headers: dict[str, str] | None = None,
    **claims: Any,
) -> str:
    """Return the answer to any message, or the server's error."""
    sent = {**(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
    data = json.dumps({"payload": payload, **claims}).encode()
    try:
        answer = await agent.client.request(subject, data, timeout=PATIENCE, headers=sent or None)
    except (nats.errors.Error, TimeoutError) as error:
        return f"{type(error).__name__} {agent.errors[-1:]}"
    return f"{answer.headers} {answer.data.decode()}"


async def send_raw(agent: Agent, subject: str, headers: bytes, payload: object) -> Answer:
    """Send a header block byte by byte, as no well-behaved client would write it."""
    client = agent.client
    data = json.dumps(payload).encode()
    inbox = client.new_inbox()
    answers = await client.subscribe(inbox)
    sizes = f"{len(headers)} {len(headers) + len(data)}"
    await client._send_command(  # no public method sends broken headers
        f"HPUB {subject} {inbox} {sizes}\r\n".encode() + headers + data + b"\r\n"
    )
    await client.flush()
    answer = await answers.next_msg(timeout=5)
    await answers.unsubscribe()
    return Answer.of(answer)


def refused(answer: Answer, *codes: str) -> Answer:
    """Return the answer, which must be a refusal."""
    assert not answer.ok, answer
    assert answer.code in (codes or ("forbidden",)), answer
    return answer


def secrets_in(loot: object, tenant: str) -> Sequence[str]:
    text = str(loot)
    return [secret for secret in SECRETS[tenant] if secret in text]
