"""The supported clients, by name."""

from local.hooks.clients.claude_code import CLAUDE_CODE, CODEX
from local.hooks.clients.client import Client
from local.hooks.clients.cursor import CURSOR

CLIENTS: dict[str, Client] = {each.name: each for each in (CLAUDE_CODE, CODEX, CURSOR)}
