"""The NATS server's configuration for the tenants: accounts, users, what crosses their borders.

Each tenant is an account, and so is the memory. What a tenant's agents send to the memory arrives
there with the tenant's name before the subject, written by the server (`subjects.from_tenant`).
Nothing else crosses, except the tools that a tenant shares on purpose.
"""

import json
from collections.abc import Iterable, Iterator, Sequence

from local.protocol import subjects
from local.tenants.credentials import inbox_of
from local.tenants.directory import Agent, Entries, TenantEntry

MEMORY = "MEMORY"
"""The account of the memory; no tenant's name has capitals."""
PATIENCE = "30m"
"""How long the server remembers the way back of an answer; models are slow."""

Line = str


def accounts(entries: Entries, own_tools: Iterable[str]) -> str:
    """Return the block `accounts` of the server's configuration.

    `own_tools`: names of the memory's own, whose requests carry tokens that no agent may receive.
    """
    own = tuple(own_tools)
    blocks = [_memory(entries), *(_tenant(name, entries, own) for name in entries.tenants)]
    return "accounts {\n" + "\n".join(blocks) + "\n}\n"


def _memory(entries: Entries) -> str:
    exports = [
        *(_export("service", subject, "threshold") for subject in subjects.ASKED),
        *(_export("service", subject, "stream") for subject in subjects.ASKED_OF_MANY),
        *(_export("service", subject) for subject in (*subjects.STORED, *subjects.LISTENED_TO)),
        *(_sent(subject) for subject in subjects.SENT),
        *(f'{{ stream: "{subject}" }}' for subject in subjects.SENT_TO_ALL),
    ]
    users = [f"{{ nkey: {entries.memory} }}"]
    return _account(MEMORY, users, exports, [], jetstream=True)


def _export(kind: str, subject: str, answers: str = "") -> Line:
    how = {
        "": "",
        "threshold": f', threshold: "{PATIENCE}"',
        "stream": f', response_type: stream, threshold: "{PATIENCE}"',
    }[answers]
    where = subjects.from_tenant(subjects.ANY, subject)
    return f'{{ {kind}: "{where}", account_token_position: 2{how} }}'


def _sent(subject: str) -> Line:
    return f'{{ stream: "{subjects.to_tenant(subjects.ANY, subject)}", account_token_position: 2 }}'


def _tenant(name: str, entries: Entries, own_tools: Sequence[str]) -> str:
    entry = entries.tenants[name]
    asked = (*subjects.ASKED, *subjects.ASKED_OF_MANY, *subjects.STORED, *subjects.LISTENED_TO)
    imports = [
        *(_asked(subjects.from_tenant(name, subject), subject) for subject in asked),
        *(_received(subjects.to_tenant(name, subject), subject) for subject in subjects.SENT),
        *(_received(subject, subject) for subject in subjects.SENT_TO_ALL),
        *_shared_with(name, entries),
    ]
    users = [_user(agent, one, own_tools) for agent, one in entry.agents.items()]
    return _account(name, users, _shared_by(entry), imports)


def _asked(there: str, here: str) -> Line:
    """Return an import that lets the server add who asks: `share`."""
    return f'{{ service: {{ account: {MEMORY}, subject: "{there}" }}, to: "{here}", share: true }}'


def _received(there: str, here: str) -> Line:
    return f'{{ stream: {{ account: {MEMORY}, subject: "{there}" }}, to: "{here}" }}'


def _user(name: str, agent: Agent, own_tools: Sequence[str]) -> Line:
    """Return a user who receives no other's inbox or requests, and cannot speak as the memory.

    A user who only reads cannot publish anything that is stored.
    """
    received = [f"{inbox_of(name)}.>", *subjects.OPEN, subjects.QUERY_RECEIVED]
    withheld = [
        *subjects.WITHHELD,
        *map(subjects.tool_request, own_tools),
        *map(subjects.tool_cancel, own_tools),
    ]
    if not agent.answers:
        withheld += subjects.TO_ANSWER
    unsent = [
        *subjects.EVENTS,
        *map(subjects.tool_result, own_tools),
        *map(subjects.tool_progress, own_tools),
    ]
    if agent.role == "reader":
        unsent += [*subjects.STORED, subjects.QUERY_RECEIVED, subjects.TOOL_RESULTS]
    permissions = {
        "publish": {"deny": unsent},
        "subscribe": {"allow": received, "deny": withheld},
    }
    return f"{{ nkey: {agent.key}, permissions: {json.dumps(permissions)} }}"


def _shared_by(entry: TenantEntry) -> Iterator[Line]:
    """Yield the exports of the tools that a tenant lets others use."""
    for tool, others in entry.shares.items():
        to = ", ".join(others)
        yield (
            f'{{ service: "{subjects.tool_request(tool)}", accounts: [{to}], '
            f'threshold: "{PATIENCE}" }}'
        )


def _shared_with(name: str, entries: Entries) -> Iterator[Line]:
    """Yield the imports of the tools that others let a tenant use."""
    for owner, entry in entries.tenants.items():
        for tool in (tool for tool, others in entry.shares.items() if name in others):
            yield f'{{ service: {{ account: {owner}, subject: "{subjects.tool_request(tool)}" }} }}'


def _account(
    name: str,
    users: Iterable[Line],
    exports: Iterable[Line],
    imports: Iterable[Line],
    *,
    jetstream: bool = False,
) -> str:
    lines = ["    jetstream: enabled"] if jetstream else []
    for what, entries in (("users", users), ("exports", exports), ("imports", imports)):
        listed = "\n".join(f"      {entry}" for entry in entries)
        lines.append(f"    {what}: [\n{listed}\n    ]")
    return f"  {name} {{\n" + "\n".join(lines) + "\n  }"
