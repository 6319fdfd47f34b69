"""What hooks need to know of a client: its events, its settings, and the form of their output."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a client. `session` is the client's session id, `project` its working folder."""

    session: str
    project: str | None = None


class SessionStarted(Event, frozen=True, kw_only=True):
    """The session began. `compacted`: it continues with a summary in place of its messages."""

    compacted: bool = False


class Prompted(Event, frozen=True, kw_only=True):
    """The user sent a prompt. `turn` is the client's id of the turn that begins, if it has one."""

    text: str
    turn: str | None = None


class Interjected(Event, frozen=True, kw_only=True):
    """The client itself sent a prompt, for example to report that a background task is done."""


class Answered(Event, frozen=True, kw_only=True):
    """The assistant wrote something; its turn may continue."""

    text: str
    turn: str | None = None


class TurnEnded(Event, frozen=True, kw_only=True):
    """The turn ended. `text` is the answer, if the client has not reported it with `Answered`."""

    text: str | None = None
    turn: str | None = None


class Compacting(Event, frozen=True, kw_only=True):
    """The messages so far are about to be replaced by a summary."""


class SessionEnded(Event, frozen=True, kw_only=True):
    pass


Scope = Literal["user", "project"]
Json = dict[str, Any]
PATIENCE = 5
"""Maximum seconds that a client waits for a hook."""


class Client(NamedTuple):
    """A client. `events` are the names of those that have hooks."""

    name: str
    settings_file: Callable[[Scope], Path]
    events: tuple[str, ...]
    entry: Callable[[str], Json]
    """Returns the element for an event's list in the settings that runs a command."""
    read: Callable[[bytes], Event | None]
    """Reads an event; returns None if there is nothing to do. Raises msgspec.MsgspecError."""
    answer: Callable[[str, str], msgspec.Struct]
    """Returns a hook's output that gives the model a context. Takes the event's name and the
    context."""
    prompts_take_contexts: bool = True
    """Whether a prompt's hook may add a context to the prompt."""
    afterwards: str = "It reads them the next time it starts."
    """What to tell the user once the hooks are installed."""
    new_file: Mapping[str, Any] = {}
    """The content that a new settings file needs besides `hooks`."""
