"""Memories on the wire: their kinds, facts in three parts, and the answers of the memory's tools.

The Structs here are the `data` of tool results, for programs; `nothing_found` is the text for a
model of a search that found nothing.
"""

import re
from datetime import datetime
from typing import Literal, Self

import msgspec

from local.errors import TooLargeError
from local.text.names import entity_key

Kind = Literal[
    "chat_message", "tool_output", "transcript", "document_chunk", "fact", "episode", "note"
]
"""A `transcript` is a message that is stored in its conversation but not searched: instructions."""
SourceKind = Literal["chat_message", "tool_output", "document_chunk", "fact", "note"]
"""The kinds that `recall` finds: not episodes, which repeat the messages of their turns."""
EPISODIC: tuple[Kind, ...] = ("episode", "note")
"""The kinds that `search_memory` finds, and that are rated by their query ids."""
Owning = Literal["session", "user", "agent", "tenant"]
"""The owner of a record: one session of its owner, the owner, an agent, or everybody in the
tenant."""
Scope = Literal["session", "history", "user", "agent", "tenant", "any"]
"""What a search may find: this session, the user's earlier ones, or records by their owner."""
By = Literal["self", "other"]
"""Who stated it: the user who asks, or somebody else."""
SourceClass = Literal["stated", "answered", "observed", "document", "asserted"]
"""Where it comes from: a user's own words, an assistant's, a tool's output, a document, or an
agent that stored it on purpose."""
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
"""core never fades, standard slowly, ephemeral soon."""
RetiredWhy = Literal["superseded", "contradicted", "merged", "archived", "anonymised", "erased"]
RelationType = Literal[
    "contradicts", "supports", "supersedes", "caused_by", "depends_on", "part_of", "implements"
]
"""How one memory bears on another. What contradicts or supersedes is the newer of the two."""

MAX_DOCUMENT = 900_000
"""Bytes of a document as JSON; a message may have 1 MB, of which the envelope takes some."""
MAX_TITLE = 100
"""Characters of a document's title, which lists show in one line."""

NOTHING_FOUND = "No memories found."
_IN_PART = "Not everything could be searched, so it may be known all the same: "
_WORD_BOUNDARY = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])")


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is empty if nothing answers the question; without a model it is the best item's."""

    text: str = ""
    ids: tuple[str, ...] = ()
    by_model: bool = False


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a score: the sum of the shares, divided by 2.5, times the scope's weight."""

    shares: dict[str, float]
    weight: float


class ItemRelation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A relation to the memory of this id; `incoming`: that memory relates to this one."""

    type: RelationType
    id: str
    incoming: bool = False


class RecalledItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One memory that a search returns.

    `source_ref` is the id that its sender gave it, `role` that of a message, `agent` the one that
    wrote it to the memory. `by` is whether the user who asks stated it, or somebody else. `sources`
    are the messages that it was extracted from, `relations` a few of its relations. `outdated_by`
    is the id of a later statement by the same user with another value, `contradicts` the id of a
    stronger one that contradicts it.
    """

    id: str
    source_kind: str
    source_ref: str | None
    content: str
    event_time: datetime
    score: float
    topic: str | None
    memory_type: str | None
    label: str | None
    session_id: str | None
    role: str | None = None
    agent: str | None = None
    by: By | None = None
    scope: Owning | None = None
    source_class: SourceClass | None = None
    sources: list[str] = []
    relations: tuple[ItemRelation, ...] = ()
    outdated_by: str | None = None
    contradicts: str | None = None
    explanation: Explanation | None = None


class RecalledItems(msgspec.Struct, frozen=True, kw_only=True):
    """`degraded`: some memories could be found by their words only; `reason` is why."""

    items: list[RecalledItem]
    total: int
    degraded: bool
    rerank_used: bool
    reason: str | None
    answer: Answer | None


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """`superseded_by` is the id of the version that replaced it, if one did.

    `retired_at` and `retired_why` are when and why it ceased to hold, None if it is the current
    one. `sources` are the messages that it was extracted from.
    """

    id: str
    content: str
    topic: str | None
    scope: str
    event_time: datetime
    agent: str | None
    superseded_by: str | None
    source_class: SourceClass | None = None
    retired_at: datetime | None = None
    retired_why: RetiredWhy | None = None
    sources: list[str] = []

    @property
    def ended(self) -> str | None:
        """Why it no longer holds, in a word for people; None if it is the current one."""
        return "replaced" if self.retired_why == "superseded" else self.retired_why


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """The newest of `total` versions; if there are many, long ones are shortened."""

    versions: list[Version]
    total: int


class RelatedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory at the other end of a relation, with its first words.

    `incoming`: it relates to the requested one. `active`: nothing replaced it.
    """

    type: RelationType
    id: str
    incoming: bool
    content: str
    event_time: datetime
    active: bool
    source_class: SourceClass


class RelatedMemories(msgspec.Struct, frozen=True, kw_only=True):
    """The memories related to one, in both directions, as far as the caller may see them."""

    id: str
    relations: list[RelatedMemory]


class AddedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of chunks; `removed` are older ones that the document no longer has."""

    source: str
    chunks: int
    added: int
    replaced: int
    unchanged: int
    removed: int


def check_size(content: str) -> None:
    """Raise TooLargeError if the text is more than a document may have."""
    if len(content) > MAX_DOCUMENT or len(msgspec.json.encode(content)) > MAX_DOCUMENT:
        raise TooLargeError(
            f"The document has more than {MAX_DOCUMENT:,} bytes as JSON, the most it may have.",
            remedy="Split it.",
        )


class Triplet(msgspec.Struct, frozen=True, kw_only=True):
    """A fact in three parts, such as Ada · works for · Northwind.

    `predicate` is a verb phrase, or an identifier made of one.
    """

    subject: str
    predicate: str
    object: str

    def tidied(self) -> Self:
        """Return it with single spaces, and with an identifier such as `worksFor` as words."""
        predicate = " ".join(self.predicate.split())
        if " " not in predicate:
            predicate = " ".join(_WORD_BOUNDARY.sub(" ", predicate).lower().split())
        return type(self)(
            subject=" ".join(self.subject.split()),
            predicate=predicate,
            object=" ".join(self.object.split()),
        )

    def sentence(self) -> str:
        """Return the three parts as one sentence."""
        text = f"{self.subject} {self.predicate} {self.object}"
        return text if text.endswith((".", "!", "?")) else f"{text}."

    def key(self) -> tuple[str, str, str]:
        """Return the key, equal for the same fact, however its names are spelled."""
        return entity_key(self.subject), entity_key(self.predicate), entity_key(self.object)


def nothing_found(reason: str | None = None) -> str:
    """Return the text of a result without memories; `reason` is why the search was incomplete.

    Tools write it; the rules model and the MemoryAgent recognise it with `is_nothing`.
    """
    return f"{NOTHING_FOUND}\n({_IN_PART}{reason})" if reason else NOTHING_FOUND


def is_nothing(result: str) -> bool:
    return not result.strip() or result.startswith(NOTHING_FOUND)


def why_in_part(result: str) -> str | None:
    """Return why the search was incomplete, read from a result without memories; else None."""
    _, in_part, reason = result.partition(_IN_PART)
    return reason.strip().removesuffix(")") if in_part and is_nothing(result) else None
