"""LangGraph on local2: a store and a checkpoint saver.

from local2.integrations.langgraph import LocalSaver, LocalStore
"""

from local2.errors import extra_to_install

try:
    from local2.integrations.langgraph_checkpoint import LocalSaver
    from local2.integrations.langgraph_store import LocalStore
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"{error}. {extra_to_install('langgraph')}", name=error.name
    ) from error

__all__ = ["LocalSaver", "LocalStore"]
