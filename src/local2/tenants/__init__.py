"""Tenants as NATS accounts: their agents, credentials, tokens, roles, and server configuration."""
