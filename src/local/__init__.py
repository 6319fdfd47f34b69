"""local2: memory for agents that talk over NATS."""

__version__ = "0.1.0"
