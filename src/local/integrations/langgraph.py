"""LangGraph on local2: a store of items, and a saver of checkpoints.

from local.integrations.langgraph import LocalSaver, LocalStore
"""

from local.integrations.langgraph_checkpoint import LocalSaver
from local.integrations.langgraph_store import LocalStore

__all__ = ["LocalSaver", "LocalStore"]
