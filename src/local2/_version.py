"""local2: memory for agents, on a NATS bus."""

__version__ = "0.1.0"
