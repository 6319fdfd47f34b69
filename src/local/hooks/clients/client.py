"""A client as its hooks see it: its events, where hooks are registered, what they answer."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """`session` is the client's id of it, `project` the folder that it works in."""

    session: str
    project: str | None = None


class SessionStarted(Event, frozen=True, kw_only=True):
    """The session began. `compacted`: it goes on, with a summary in place of its messages."""

    compacted: bool = False


class Prompted(Event, frozen=True, kw_only=True):
    """The user sent a prompt. `turn` is the client's id of what begins with it, if it has one."""

    text: str
    turn: str | None = None


class Interjected(Event, frozen=True, kw_only=True):
    """The client itself sent a prompt, such as that a task in the background is done."""


class Answered(Event, frozen=True, kw_only=True):
    """The assistant wrote something; its turn may go on."""

    text: str
    turn: str | None = None


class TurnEnded(Event, frozen=True, kw_only=True):
    """The turn ended. `text` is the answer, of a client that did not report it before."""

    text: str | None = None
    turn: str | None = None


class Compacting(Event, frozen=True, kw_only=True):
    """The messages so far are about to be replaced by a summary."""


class SessionEnded(Event, frozen=True, kw_only=True):
    pass


Scope = Literal["user", "project"]
Json = dict[str, Any]
PATIENCE = 5
"""Seconds that a client waits for a hook at most."""


class Client(NamedTuple):
    """A client. `events`: those with a hook."""

    name: str
    settings_file: Callable[[Scope], Path]
    events: tuple[str, ...]
    entry: Callable[[str], Json]
    """The element of an event's list in the settings that runs a command."""
    read: Callable[[bytes], Event | None]
    """Reads an event; returns None if there is nothing to store. Raises msgspec.MsgspecError."""
    answer: Callable[[str, str], msgspec.Struct]
    """What a hook writes to give the model a context, by the name of the event."""
    prompts_take_contexts: bool = True
    """Whether a hook of a prompt may add a context to it."""
    afterwards: str = "It reads them when it starts the next time."
    """What a user has to know once they are registered."""
    new_file: Mapping[str, Any] = {}
    """What a file of settings needs besides `hooks`."""
