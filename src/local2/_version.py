"""local2: memory for agents, on a NATS bus."""

__version__ = "0.1.0"
DISTRIBUTION = "local2-memory"
"""The name of the package in an index, where `local2` is another program."""
