"""The supported clients, by name."""

from local2.hooks.clients.claude_code import CLAUDE_CODE, CODEX
from local2.hooks.clients.client import Client
from local2.hooks.clients.cursor import CURSOR

CLIENTS: dict[str, Client] = {client.name: client for client in (CLAUDE_CODE, CODEX, CURSOR)}
