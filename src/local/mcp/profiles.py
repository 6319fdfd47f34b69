"""Profiles: which of the tools on the bus a client is offered.

Models choose worse among many, so by default they are offered few of the memory's own.
"""

from collections.abc import Callable, Collection, Sequence

from local.errors import ConfigError
from local.protocol.payloads import ToolSchema

DEFAULT = frozenset(
    {
        "add_document",
        "load_session",
        "memory_history",
        "note",
        "read_tool_output",
        "recall",
        "recall_topic",
        "remember_fact",
        "save_memory",
        "save_topic",
        "search_memory",
        "top_memories",
    }
)
"""Of the memory's own. What erases is not among them: a text that a model reads could ask for it,
and nothing brings it back."""

Profile = Callable[[ToolSchema], bool]


def _default(tool: ToolSchema) -> bool:
    return tool.name in DEFAULT if tool.reads_memory else tool.for_models


def _full(_: ToolSchema) -> bool:
    return True


def _read_only(tool: ToolSchema) -> bool:
    """Another team's tool is offered if it says that it only reads."""
    return tool.annotations.read_only_hint is True


PROFILES: dict[str, Profile] = {"default": _default, "full": _full, "read-only": _read_only}


def profile_of(chosen: Sequence[str]) -> Profile:
    """The profile of a name, or the tools of these names.

    Raises:
        ConfigError: Nothing is chosen, or a profile's name is among those of tools.
    """
    if len(chosen) == 1 and chosen[0] in PROFILES:
        return PROFILES[chosen[0]]
    if not chosen or PROFILES.keys() & chosen:
        raise ConfigError(
            "A profile is one name, or a list of tools.",
            remedy=f"One of {', '.join(PROFILES)}, or names as `local2 tools` lists them.",
        )
    return _named(frozenset(chosen))


def _named(names: Collection[str]) -> Profile:
    return lambda tool: tool.name in names
