"""The NATS server's configuration for tenants: accounts, users, exports and imports.

Each tenant is an account, and so is the memory. When a tenant's agents send messages to the memory,
the server puts the tenant's name before the subject (`subjects.from_tenant`). Nothing else passes
between accounts, except requests to tools that a tenant explicitly shares.
"""

import json
from collections.abc import Iterable, Sequence

from local2.protocol import subjects
from local2.protocol.services import REQUESTS
from local2.tenants.credentials import inbox_of
from local2.tenants.directory import Agent, Entries

MEMORY = "MEMORY"
"""The memory's account; tenant names contain no capitals, so none can equal it."""
RESPONSE_THRESHOLD = "30m"
"""How long the server accepts the answer to a request; models are slow."""

Line = str
"""One entry of the server's configuration."""


def accounts(entries: Entries, own_tools: Iterable[str]) -> str:
    """The block `accounts` of the server's configuration.

    `own_tools`: the names of the memory's own tools; no agent may receive requests to them, because
    they carry tokens.
    """
    own = tuple(own_tools)
    sent_to_one = [
        subjects.to_tenant(subjects.ANY_TENANT, subject) for subject in subjects.SENT_TO_ONE
    ]
    exports = [
        *(_service_export(subject, "threshold") for subject in REQUESTS),
        *(_service_export(subject, "stream") for subject in subjects.MULTI_ANSWER_REQUESTS),
        *(_service_export(subject) for subject in (*subjects.STORED, *subjects.OBSERVED)),
        *(f'{{ stream: "{subject}", account_token_position: 2 }}' for subject in sent_to_one),
        *(f'{{ stream: "{subject}" }}' for subject in subjects.SENT_TO_ALL),
    ]
    users = [f"{{ nkey: {entries.memory} }}"]
    blocks = [
        _account(MEMORY, users, exports, [], more=["    jetstream: enabled"]),
        *(_tenant_account(name, entries, own) for name in entries.tenants),
    ]
    return "accounts {\n" + "\n".join(blocks) + "\n}\n"


def _service_export(subject: str, answers: str = "") -> Line:
    how = {
        "": "",
        "threshold": f', threshold: "{RESPONSE_THRESHOLD}"',
        "stream": f', response_type: stream, threshold: "{RESPONSE_THRESHOLD}"',
    }[answers]
    where = subjects.from_tenant(subjects.ANY_TENANT, subject)
    return f'{{ service: "{where}", account_token_position: 2{how} }}'


def _tenant_account(name: str, entries: Entries, own_tools: Sequence[str]) -> str:
    entry = entries.tenants[name]
    asked = (
        *REQUESTS,
        *subjects.MULTI_ANSWER_REQUESTS,
        *subjects.STORED,
        *subjects.OBSERVED,
    )
    imports = [
        *(_service_import(subjects.from_tenant(name, subject), subject) for subject in asked),
        *(
            _stream_import(subjects.to_tenant(name, subject), subject)
            for subject in subjects.SENT_TO_ONE
        ),
        *(_stream_import(subject, subject) for subject in subjects.SENT_TO_ALL),
    ]
    for owner, other in entries.tenants.items():
        imports += [
            f'{{ service: {{ account: {owner}, subject: "{subjects.tool_request(tool)}" }} }}'
            for tool, receivers in other.shares.items()
            if name in receivers
        ]
    exports = []
    for tool, receivers in entry.shares.items():
        exports.append(
            f'{{ service: "{subjects.tool_request(tool)}", accounts: [{", ".join(receivers)}], '
            f'threshold: "{RESPONSE_THRESHOLD}" }}'
        )
    users = [_user(agent, details, own_tools) for agent, details in entry.agents.items()]
    # An answer goes where its request says, without regard to the permissions of either side: it is
    # led away from the subjects to which nobody publishes.
    away = {subject: subjects.refused(subject) for subject in _sent_by_nobody(own_tools)}
    mappings = f"    mappings: {json.dumps(away)}"
    return _account(name, users, exports, imports, more=[mappings])


def names_sender(subject: str) -> bool:
    """Whether the server names the sender; on other subjects, a client could forge it."""
    tool_subjects = ("tool.request.", "tool.result.", "tool.cancel.", "tool.running.")
    named = {*REQUESTS, *subjects.OBSERVED, subjects.MEMORY_RUNNING}
    return subject.startswith(tool_subjects) or subject in named


def _service_import(there: str, here: str) -> Line:
    """An import of requests; with `share`, the server names the sender."""
    return f'{{ service: {{ account: {MEMORY}, subject: "{there}" }}, to: "{here}", share: true }}'


def _stream_import(there: str, here: str) -> Line:
    return f'{{ stream: {{ account: {MEMORY}, subject: "{there}" }}, to: "{here}" }}'


def _user(name: str, agent: Agent, own_tools: Sequence[str]) -> Line:
    """A user who cannot receive other agents' answers or publish as the memory.

    A reader cannot publish anything that is stored.
    """
    queries = (subjects.QUERY_RECEIVED, subjects.QUERY_CANCEL, subjects.QUERY_RUNNING)
    received = [f"{inbox_of(name)}.>", *subjects.RECEIVABLE, *queries]
    withheld = [
        *(subject for subject in REQUESTS if subject != subjects.TOOL_REQUESTS),
        *subjects.MEMORY_ONLY,
        *map(subjects.tool_request, own_tools),
        *map(subjects.tool_cancel, own_tools),
        *map(subjects.tool_running, own_tools),
    ]
    if not agent.answers:
        withheld += subjects.ANSWERING_ONLY
    unsent = [*_sent_by_nobody(own_tools), f"{subjects.REFUSED}.>"]
    if agent.role == "reader":
        unsent += [*subjects.STORED, subjects.QUERY_RECEIVED, subjects.TOOL_RESULTS]
    permissions = {
        "publish": {"deny": unsent},
        "subscribe": {"allow": received, "deny": withheld},
    }
    return f"{{ nkey: {agent.key}, permissions: {json.dumps(permissions)} }}"


def _sent_by_nobody(own_tools: Sequence[str]) -> list[str]:
    """The subjects to which nobody publishes inside a tenant's account."""
    results, progress = map(subjects.tool_result, own_tools), map(subjects.tool_progress, own_tools)
    return [*subjects.EVENTS, *results, *progress]


def _account(
    name: str,
    users: Iterable[Line],
    exports: Iterable[Line],
    imports: Iterable[Line],
    *,
    more: Iterable[Line],
) -> str:
    lines = list(more)
    for what, entries in (("users", users), ("exports", exports), ("imports", imports)):
        listed = "\n".join(f"      {entry}" for entry in entries)
        lines.append(f"    {what}: [\n{listed}\n    ]")
    return f"  {name} {{\n" + "\n".join(lines) + "\n  }"
