"""Tenants as accounts of NATS: their agents, what the server knows of them, who may do what."""
