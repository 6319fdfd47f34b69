"""LangGraph on local2: a store and a checkpoint saver.

from local2.integrations.langgraph import LocalSaver, LocalStore
"""

try:
    from local2.integrations.langgraph_checkpoint import LocalSaver
    from local2.integrations.langgraph_store import LocalStore
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"{error}. Install what LangGraph needs: pip install 'local2[langgraph]'.", name=error.name
    ) from error

__all__ = ["LocalSaver", "LocalStore"]
