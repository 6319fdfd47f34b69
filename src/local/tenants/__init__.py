"""Tenants as accounts of NATS: who they are, what the server knows of them, who may do what."""
