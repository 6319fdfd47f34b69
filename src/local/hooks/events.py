"""What happens in a client, whichever one it is."""

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """`session` is the client's id of it, `project` the folder that it works in."""

    session: str
    project: str | None = None


class SessionStarted(Event, frozen=True, kw_only=True):
    """`compacted`: it goes on, with a summary in place of what was said."""

    compacted: bool = False


class Prompted(Event, frozen=True, kw_only=True):
    """The user sent a prompt. `turn` is the client's id of what begins with it, if it has one."""

    text: str
    turn: str | None = None


class Interjected(Event, frozen=True, kw_only=True):
    """The client itself sent a prompt, such as that a task in the background is done."""


class Answered(Event, frozen=True, kw_only=True):
    """The assistant said something; its turn may go on."""

    text: str
    turn: str | None = None


class TurnEnded(Event, frozen=True, kw_only=True):
    """`text` is the answer, of a client that did not say it before."""

    text: str | None = None
    turn: str | None = None


class Compacting(Event, frozen=True, kw_only=True):
    """What was said so far is about to be replaced by a summary."""


class SessionEnded(Event, frozen=True, kw_only=True):
    pass
