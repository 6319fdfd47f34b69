"""Accounts of benchmarked tenants: one agent each, and users with tokens."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import msgspec

from local2.tenants.credentials import (
    MEMORY_SEED_FILE,
    SIGNING_KEY,
    Credentials,
    inbox_of,
    new_key_pair,
)
from local2.tenants.directory import Agent, Entries, TenantEntry, write_secret
from local2.tenants.tokens import new_signing_key, sign

AGENT = "agent"
KEY = "benchmark"
VALID = timedelta(days=1)


def make_accounts(folder: Path, tenants: Sequence[str]) -> dict[str, Credentials]:
    """Create them as `local2 tenants` does, without generators; return each tenant's agent."""
    memory = new_key_pair()
    write_secret(folder / MEMORY_SEED_FILE, memory.seed)
    entries, agents = {}, {}
    for tenant in tenants:
        pair, (private, public) = new_key_pair(), new_signing_key(KEY)
        write_secret(folder / tenant / SIGNING_KEY, private)
        entries[tenant] = TenantEntry(agents={AGENT: Agent(key=pair.public)}, tokens=[public])
        agents[tenant] = Credentials(seed=pair.seed, inbox=inbox_of(AGENT))
    Entries(memory=memory.public, tenants=entries).write(folder)
    return agents


def as_user(folder: Path, tenant: str, agent: Credentials, user: str) -> Credentials:
    """Return the agent's credentials with a token for this user."""
    private = (folder / tenant / SIGNING_KEY).read_text(encoding="utf-8")
    token = sign(private, KEY, tenant=tenant, user=user, valid_for=VALID)
    return msgspec.structs.replace(agent, token=token)
