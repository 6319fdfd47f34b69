"""Memories on the wire: kinds, scopes and sources, triplets, and the answers of search tools.

The answers are the `data` of tool results, for programs. `nothing_found` is the text for models
when a search found nothing.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple, Self

import msgspec

from local2.errors import TooLargeError
from local2.keys import entity_key

Kind = Literal[
    "chat_message",
    "tool_output",
    "output_part",
    "transcript",
    "document_chunk",
    "fact",
    "episode",
    "note",
]
"""The kinds of records. A `transcript` is a message that belongs to its conversation but is not
searched, such as instructions. An `output_part` is searched but belongs to no conversation: it is
what the preview of a long tool output leaves out."""
SourceKind = Literal["chat_message", "tool_output", "document_chunk", "fact", "note"]
"""The kinds that `recall` finds: not episodes, which repeat the messages of their turns."""
EPISODIC: tuple[Kind, ...] = ("episode", "note")
"""The kinds that `search_memory` finds, and that ratings refer to by query id."""
OwnerScope = Literal["session", "user", "agent", "tenant"]
"""What a record belongs to: one of the user's sessions, the user, an agent, or the whole tenant."""
PERSONAL: tuple[OwnerScope, ...] = ("session", "user")
"""The scopes whose records belong to one user each."""
Scope = Literal["session", "history", "user", "agent", "tenant", "any"]
"""What a search covers: this session, the user's earlier ones, or records by what they belong
to."""
StatedBy = Literal["self", "other"]
"""Who stated a record: the calling user, or somebody else."""
ChangedBy = Literal["self", "other", "unnamed"]
"""Who changed a record: the calling user, somebody else, or somebody who was not named."""
SourceClass = Literal["stated", "answered", "observed", "document", "asserted"]
"""The origin of a record: a user's words, an assistant's answer, a tool's output, a document, or an
agent that stored it deliberately."""
MemoryType = Literal[
    "fact",
    "event",
    "instruction",
    "task",
    "preference",
    "interaction",
    "summary",
    "user_request",
    "entity",
    "interest",
]
Durability = Literal["core", "standard", "ephemeral"]
"""How fast importance fades: `core` never, `standard` slowly, `ephemeral` soon."""
RetirementReason = Literal[
    "superseded",
    "edited",
    "contradicted",
    "merged",
    "archived",
    "withdrawn",
    "hidden",
    "anonymised",
    "erased",
]
"""Why a record no longer stands.

`edited`: its user wrote it anew. `withdrawn`: its user had it retired, and nothing replaces it.
`hidden`: it holds, but its user wants it never recalled again.
"""
RelationType = Literal[
    "contradicts", "supports", "supersedes", "caused_by", "depends_on", "part_of", "implements"
]
"""How one memory relates to another. The one that contradicts or supersedes is the newer one."""

MAX_DOCUMENT = 900_000
"""Maximum bytes of a document as JSON; a message has at most 1 MB, including the envelope."""
MAX_TITLE = 100
"""Maximum characters of a document's title, so that lists can show it in one line."""

ACCUMULATING = frozenset[MemoryType]({"event", "interaction", "user_request", "summary"})
"""Types of facts that do not contradict each other: the same words on another day are another
fact."""

NOTHING_FOUND = "No memories found."
_INCOMPLETE = "Not everything could be searched, so it may be known all the same: "
_WORD_BOUNDARY = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])")


def check_document_size(content: str) -> None:
    """Raise TooLargeError if the text is longer than MAX_DOCUMENT."""
    if len(content) > MAX_DOCUMENT or len(msgspec.json.encode(content)) > MAX_DOCUMENT:
        raise TooLargeError(
            f"The document has more than the maximum of {MAX_DOCUMENT:,} bytes as JSON.",
            remedy="Split it.",
        )


class StandingFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that still stands beside what was just stored, about the same thing."""

    id: str
    content: str
    event_time: datetime
    topic: str | None = None


class WithRelated(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a write's answer that shows up to three standing facts about the same thing.

    They share words or a key, and the caller may replace them; whether what is new does so, the
    caller decides. `related_in_time` is False if there was no time to look for them.
    """

    related: list[StandingFact] = []
    related_in_time: bool = True


class Triplet(msgspec.Struct, frozen=True, kw_only=True):
    """A fact in three parts, such as Ada · works for · Northwind.

    `predicate` is a verb phrase, or an identifier such as `worksFor`.
    """

    subject: str
    predicate: str
    object: str

    def normalised(self) -> Self:
        """The same triplet with single spaces, and a predicate such as `worksFor` as words."""
        predicate = " ".join(self.predicate.split())
        if " " not in predicate:
            predicate = " ".join(_WORD_BOUNDARY.sub(" ", predicate).lower().split())
        return type(self)(
            subject=" ".join(self.subject.split()),
            predicate=predicate,
            object=" ".join(self.object.split()),
        )

    def sentence(self) -> str:
        """The three parts as one sentence."""
        text = f"{self.subject} {self.predicate} {self.object}"
        return text if text.endswith((".", "!", "?")) else f"{text}."

    def key(self) -> tuple[str, str, str]:
        """A key that is equal for the same fact with different spellings of its names."""
        return entity_key(self.subject), entity_key(self.predicate), entity_key(self.object)


class Others(NamedTuple):
    """Other users with memories here, and other folders with a memory, which may be meant."""

    users: Sequence[str] = ()
    homes: Sequence[str] = ()


NO_OTHERS: Final = Others()


def nothing_found(reason: str | None = None, others: Others = NO_OTHERS) -> str:
    """Say that nothing was found, and who else may know; `reason`: why the search was incomplete.

    The rules model and the MemoryAgent recognise this text with `is_nothing`.
    """
    lines = [NOTHING_FOUND]
    if others.users:
        lines.append(f"(Other users have memories here: {', '.join(others.users)}.)")
    lines += [
        f"(There is another memory in {home}: `local2 --home {home}` uses it.)"
        for home in others.homes
    ]
    if reason:
        lines.append(f"({_INCOMPLETE}{reason})")
    return "\n".join(lines)


def is_nothing(result: str) -> bool:
    return not result.strip() or result.startswith(NOTHING_FOUND)


def incomplete_reason(result: str) -> str | None:
    """Why the search was incomplete, as an empty search result states it, or None."""
    _, found, reason = result.partition(_INCOMPLETE)
    return reason.strip().removesuffix(")") if found and is_nothing(result) else None
