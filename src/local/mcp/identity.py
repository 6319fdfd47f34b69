"""Who asks: by configuration, and by what the client calls itself; never by arguments."""

import re

from local.home import person_of
from local.settings import McpSettings

UNKNOWN = "mcp"
LONGEST = 64
_OTHERS = re.compile(r"[^\w.-]+")


def user_of(settings: McpSettings) -> str:
    """The user that is configured, else who is logged in."""
    return person_of(settings.user)


def agent_of(settings: McpSettings, client: str | None) -> str:
    """The agent that is configured, else the client's name in the form of one."""
    if settings.agent:
        return settings.agent
    cleaned = _OTHERS.sub("-", (client or "").casefold())[:LONGEST].strip("-._")
    return cleaned or UNKNOWN
