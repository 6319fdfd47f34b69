"""The tools of the memory: each with its arguments, its answer, and whom it is for.

The host announces and serves them from here (`tools/` has the functions), roles and MCP take their
defaults from here, clients call with the arguments and get the answers, and commands have the
arguments as their options. An answer is the `data` of a result, for programs. Maintenance tools
(consolidation, audit, undo, erasure) never reveal the content of memories, except for the
beginnings of the caller's own ones in a report.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec

from local2._version import __version__
from local2.protocol.conversation import IngestReport
from local2.protocol.envelope import Id, Role
from local2.protocol.lenient.messages import MessageJson
from local2.protocol.memories import (
    MAX_TITLE,
    ChangedBy,
    Durability,
    Kind,
    MemoryType,
    OwnerScope,
    RelationType,
    RetirementReason,
    Scope,
    SourceClass,
    SourceKind,
    StatedBy,
    WithRelated,
)
from local2.protocol.msgspec_errors import WITHOUT_NUL
from local2.protocol.payloads import Json, ToolHints
from local2.protocol.tool import ToolDeclaration

MemoryOperation = Literal[
    "create_memory", "search_memory", "update_memory", "upsert_memory", "delete_memory"
]
"""Names from OpenTelemetry's conventions for generative AI (semantic-conventions-genai), which no
package provides yet."""


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base class of all tools' arguments. Unknown arguments are refused."""

    def given(self) -> Json:
        """What is sent: the arguments that are neither None nor the tool's defaults."""
        defaults = dict(
            zip(reversed(self.__struct_fields__), reversed(self.__struct_defaults__), strict=False)
        )
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return {
            name: value
            for name, value in values.items()
            if value is not None and value != defaults.get(name, msgspec.NODEFAULT)
        }


A = TypeVar("A", bound=Arguments)
D = TypeVar("D", bound=msgspec.Struct)


class MemoryTool(ToolDeclaration, Generic[A, D], frozen=True, kw_only=True):
    """The declaration of one of the memory's tools.

    `shows`: returns the ids of the records that an answer shows. `role`: the least role that may
    call it by default. `action`: returns the action that a role must permit, if it is not the
    tool's name. `offered_over_mcp`: whether MCP offers it by default; nothing that erases should
    be, because a text that a model reads could request it. `for_models`: whether models may be
    offered it at all; a tool for programs would only take up their context. `operation`: the name
    of the operation in traces.
    """

    args: type[A]
    answer: type[D]
    shows: Callable[[D], Iterable[str]] = lambda _: ()
    role: Role
    action: Callable[[A], str] | None = None
    offered_over_mcp: bool = False
    operation: MemoryOperation | None = None
    version: str = __version__
    reads_memory: bool = True
    recorded: bool = False
    whole: bool = True


READS = ToolHints(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
WRITES = ToolHints(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
"""Not destructive: a replaced version stays in the history. Idempotent: equal content is stored
once."""
ERASES = ToolHints(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)


MAX_CONTENT = 65_536
"""Maximum characters of a memory; longer texts are documents."""


TopicKey = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=200,
        description="Dotted key that starts with user., project. or constraint., in any script; "
        "capitals make no difference. E.g. 'user.name', 'user.language_preference', "
        "'project.deadline'.",
    ),
]
QueryText = Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=4_096, description="What to look for, in any words."),
]
FactScope = Annotated[
    Literal["user", "agent", "tenant"],
    msgspec.Meta(
        description="Whom it belongs to. Default: the user, or everybody if there is no user; with "
        "a key, as in save_topic."
    ),
]
Offset = Annotated[int, msgspec.Meta(ge=0, lt=2**53, description="The first character to read.")]


# Facts: with a key (topics), as a sentence, as triplets


MAX_RELATED = 3
"""Maximum number of standing facts that the answer to a write shows."""
MAX_SETTLED = 100
"""Maximum number of memories that one call replaces, retires or hides."""
Ids = Annotated[list[Id], msgspec.Meta(min_length=1, max_length=MAX_SETTLED)]
Content = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_CONTENT)]
MAX_REASON = 500
Reason = Annotated[
    str, msgspec.Meta(min_length=1, max_length=MAX_REASON, description="Why, in a sentence.")
]


def related_ids(answer: WithRelated) -> list[str]:
    """The ids of the standing facts that a write's answer shows."""
    return [fact.id for fact in answer.related]


class SaveTopic(Arguments, frozen=True):
    topic: TopicKey
    content: Annotated[Content, msgspec.Meta(description="The value, e.g. 'Elixir'.")]


class SavedTopic(WithRelated, frozen=True, kw_only=True):
    """A saved topic: its key as first written; `superseded` is the id of the replaced version."""

    id: str
    topic: str
    was_new: bool
    superseded: str | None


SAVE_TOPIC = MemoryTool(
    name="save_topic",
    title="Save a fact under a key",
    description=(
        "Save a preference, rule or fact permanently, under a key, so that every later session "
        "can look it up. Call this whenever the user asks you to remember something about "
        "themselves, the project or a rule. Keys: user.* for preferences and personal facts, "
        "project.* for decisions, deadlines and the stack, constraint.* for what to avoid or "
        "enforce; only user.* is the user's own, everybody is shown the others. Example: "
        "save_topic(topic='user.name', content='Richard'). A new value replaces the old one. If "
        "the answer names other facts that no longer hold, call retire_fact."
    ),
    annotations=WRITES,
    args=SaveTopic,
    answer=SavedTopic,
    shows=related_ids,
    role="writer",
    offered_over_mcp=True,
    operation="upsert_memory",
)


class RecallTopic(Arguments, frozen=True):
    topic: TopicKey


class RecalledTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic's value; `by`: whether the calling user or somebody else stated it."""

    topic: str
    found: bool
    content: str | None
    id: str | None = None
    by: StatedBy | None = None
    source_class: SourceClass | None = None


RECALL_TOPIC = MemoryTool(
    name="recall_topic",
    title="Look up a fact by its key",
    description=(
        "Look up one standing fact by its exact key, when you know the key or can infer it, e.g. "
        "recall_topic(topic='user.language_preference') for 'What language do I prefer?' or "
        "recall_topic(topic='user.name') for 'What is my name?'. Without a key use search_memory."
    ),
    annotations=READS,
    args=RecallTopic,
    answer=RecalledTopic,
    shows=lambda found: [found.id] if found.id else [],
    role="reader",
    offered_over_mcp=True,
    operation="search_memory",
)


class RememberFact(Arguments, frozen=True):
    content: Annotated[Content, msgspec.Meta(description="The fact, in a sentence.")]
    scope: FactScope | None = None
    topic: Annotated[
        TopicKey | None,
        msgspec.Meta(description="A key, if it has one: a newer fact of the key replaces it."),
    ] = None
    memory_type: Annotated[MemoryType, msgspec.Meta(description="What kind of fact it is.")] = (
        "fact"
    )
    durability: Annotated[
        Durability,
        msgspec.Meta(description="core never fades, standard slowly, ephemeral soon."),
    ] = "standard"
    importance: Annotated[
        float, msgspec.Meta(ge=0, le=1, description="How much it matters, 0 to 1.")
    ] = 0.5
    replaces: Annotated[
        Ids | None,
        msgspec.Meta(description="The ids of facts that no longer hold because of this one."),
    ] = None


class RememberedFact(WithRelated, frozen=True, kw_only=True):
    """A stored or known fact; `replaced`: the ids of the facts that it replaced."""

    id: str
    was_new: bool
    replaced: list[str] = msgspec.field(default_factory=list)


REMEMBER_FACT = MemoryTool(
    name="remember_fact",
    title="Remember a fact",
    description=(
        "Remember a fact across sessions, in a sentence that makes sense by itself, e.g. "
        "remember_fact(content='Prefers metric units and dark mode.', scope='user'). Scope user: "
        "about the user, in every session with any agent; agent: for this agent, with every user; "
        "tenant: for everybody. A newer fact of the same topic replaces the older one. The answer "
        "names facts about the same thing that still stand: settle at once which of them no longer "
        "hold, by the same call with replaces=['their ids'], or with retire_fact."
    ),
    annotations=WRITES,
    args=RememberFact,
    answer=RememberedFact,
    shows=related_ids,
    role="writer",
    offered_over_mcp=True,
    operation="upsert_memory",
)


class RetireFact(Arguments, frozen=True):
    ids: Annotated[Ids, msgspec.Meta(description="The ids, as an answer named them.")]
    reason: Annotated[
        Reason,
        msgspec.Meta(
            description="Why they no longer hold, in a sentence. It stays in their history."
        ),
    ]


class RetiredFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of the facts that the call retired; those that were retired before are left out.

    `undo` takes the `run`, which is None if nothing was retired.
    """

    retired: list[str]
    run: str | None = None


RETIRE_FACT = MemoryTool(
    name="retire_fact",
    title="Retire facts that no longer hold",
    description=(
        "Retire facts that no longer hold and that nothing replaces, by their ids, e.g. "
        "retire_fact(ids=['…'], reason='The project has ended.'). They are not found any more, but "
        "stay in the history with the reason. If a new fact replaces them, use remember_fact with "
        "replaces instead. Only what the user stated can be retired, facts and saved notes."
    ),
    annotations=WRITES,
    args=RetireFact,
    answer=RetiredFacts,
    role="writer",
    offered_over_mcp=True,
    operation="update_memory",
)


class EditMemory(Arguments, frozen=True):
    id: Id
    content: Annotated[Content, msgspec.Meta(description="The new text, whole.")]
    reason: Reason


class EditedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The id of the new version; `undo` takes the `run`.

    `was_new` is False, and there is no run, if it already has this text.
    """

    id: str
    was_new: bool
    run: str | None = None


EDIT_MEMORY = MemoryTool(
    name="edit_memory",
    title="Edit a memory",
    description=(
        "Write a fact or a saved note anew, by its id: edit_memory(id='…', content='…', "
        "reason='A wrong name.'). The new version keeps its key, scope and importance; the former "
        "one stays in the history, and `undo` brings it back. Only what the user stated can be "
        "edited. Messages and documents are stored again instead, under their own ids."
    ),
    annotations=WRITES,
    args=EditMemory,
    answer=EditedMemory,
    role="writer",
    for_models=False,
    operation="update_memory",
)


class PinMemories(Arguments, frozen=True):
    ids: Annotated[Ids, msgspec.Meta(description="Facts.")]
    reason: Reason
    unpin: Annotated[bool, msgspec.Meta(description="Take it back instead.")] = False


class PinnedMemories(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of the facts that the call pinned, or unpinned.

    `undo` takes the `run`, which is None if nothing was changed.
    """

    changed: list[str]
    run: str | None = None


PIN_MEMORIES = MemoryTool(
    name="pin_memories",
    title="Pin facts",
    description=(
        "Pin facts by their ids, so that they are always among the first of their scope where "
        "memories are shown without a question (top_memories, load_session, hooks): "
        "pin_memories(ids=['…'], reason='It matters in every session.'). A newer version of a "
        "pinned fact is pinned, too, and consolidation leaves pinned facts alone. Only what the "
        "user stated can be pinned."
    ),
    annotations=WRITES,
    args=PinMemories,
    answer=PinnedMemories,
    role="writer",
    for_models=False,
    operation="update_memory",
)


class HideMemories(Arguments, frozen=True):
    ids: Annotated[Ids, msgspec.Meta(description="Memories of any kind.")]
    reason: Reason


class HiddenMemories(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of the memories that the call hid; those that no longer stood are left out.

    `undo` takes the `run`, which is None if nothing was hidden.
    """

    hidden: list[str]
    run: str | None = None


HIDE_MEMORIES = MemoryTool(
    name="hide_memories",
    title="Never recall memories again",
    description=(
        "Never recall memories again, of any kind, by their ids: hide_memories(ids=['…'], "
        "reason='Not to be brought up.'). They are not found, and models are not shown them, but "
        "they stay in the history; `undo` brings them back. Only what the user said or stated can "
        "be hidden. To erase something for good use forget."
    ),
    annotations=WRITES,
    args=HideMemories,
    answer=HiddenMemories,
    role="writer",
    for_models=False,
    operation="update_memory",
)


MAX_FACTS = 100
MAX_PART = 300
Part = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_PART)]


class KnowledgeFact(Arguments, frozen=True):
    subject: Part
    predicate: Annotated[Part, msgspec.Meta(description="A verb phrase, e.g. 'is the boss of'.")]
    object: Part


class AddKnowledge(Arguments, frozen=True):
    facts: Annotated[
        list[KnowledgeFact],
        msgspec.Meta(min_length=1, max_length=MAX_FACTS, description="The facts, one each."),
    ]
    scope: FactScope | None = None


class KnownFact(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    was_new: bool


class AddedKnowledge(WithRelated, frozen=True, kw_only=True):
    """The facts in the order of the request; `related` is looked for by the first ten of them."""

    facts: list[KnownFact]
    added: int


ADD_KNOWLEDGE = MemoryTool(
    name="add_knowledge",
    title="Add connected facts",
    description=(
        "Remember how people and things are connected, in triplets that read as sentences, e.g. "
        "add_knowledge(facts=[{'subject': 'Ada', 'predicate': 'works for', 'object': "
        "'Northwind'}], scope='user'). Facts that name the same person or thing are linked, and "
        "recall follows the links. Use one name for each of them, or state another name once: "
        "'Bob', 'is also known as', 'Robert Smith'. The scopes are those of remember_fact. If the "
        "answer names other facts that no longer hold, call retire_fact."
    ),
    annotations=WRITES,
    args=AddKnowledge,
    answer=AddedKnowledge,
    shows=related_ids,
    role="writer",
    for_models=False,
    operation="upsert_memory",
)


# Searches and notes


class Recall(Arguments, frozen=True):
    query: QueryText
    top_k: Annotated[
        int, msgspec.Meta(ge=1, le=20, description="Maximum number of items to return.")
    ] = 5
    source_kinds: Annotated[
        Annotated[list[SourceKind], msgspec.Meta(min_length=1)] | None,
        msgspec.Meta(description="Which kinds of memories to search; all if left out."),
    ] = None
    scope: Annotated[
        Scope,
        msgspec.Meta(
            description="session: this conversation; history: the user's earlier ones; user: facts "
            "about the user, and notes; agent: facts of this agent; tenant: documents and facts "
            "for everybody; any: all of them."
        ),
    ] = "any"
    enable_rerank: Annotated[
        bool,
        msgspec.Meta(description="Let a reranker put the best items into order, if there is one."),
    ] = True
    since: Annotated[
        str | None,
        msgspec.Meta(description="Nothing from before this date or time, e.g. 2026-05-01."),
    ] = None
    until: Annotated[
        str | None,
        msgspec.Meta(
            description="Nothing from after this date or time, e.g. 2026-05-01T14:30:00Z."
        ),
    ] = None
    as_of: Annotated[
        str | None,
        msgspec.Meta(
            description="Answer as of this date or time: 'last week' counts from there, and what "
            "happened later is left out."
        ),
    ] = None
    min_relevance: Annotated[
        float,
        msgspec.Meta(
            ge=0,
            le=1,
            description="Leave out items that score less than this share of the best one's score; "
            "0 leaves out none.",
        ),
    ] = 0.0
    continues: Annotated[
        bool,
        msgspec.Meta(
            description="The query is the user's latest message, which continues a conversation: "
            "if it states something, the newest conversations come first. Not for a search."
        ),
    ] = False
    synthesize: Annotated[
        bool, msgspec.Meta(description="Also answer the query from what was found.")
    ] = False
    explain: Annotated[
        bool, msgspec.Meta(description="Also return the components of each item's score.")
    ] = False


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a question: a model's text, or without a model the best item's content.

    `text` is empty if nothing answers the question. `ids`: the items that it is based on.
    """

    text: str = ""
    ids: tuple[str, ...] = ()
    by_model: bool = False


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The components of a score: their sum (`shares`) times the weight of the scope.

    With s for that product, the score is s² / (s² + 1.2²).
    """

    shares: dict[str, float]
    weight: float


class ItemRelation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A relation to another memory; `incoming`: the other memory is the source."""

    type: RelationType
    id: str
    incoming: bool = False

    @property
    def tells_newer(self) -> bool:
        """Whether the other memory supersedes the one that has this relation."""
        return self.type == "supersedes" and self.incoming


class LaterStatement(msgspec.Struct, frozen=True, kw_only=True):
    """What stands beside an item: the reply to its question, or a later statement of its speaker.

    `source_class`: whose words they are, such as an assistant's. `label`: the speaker's name.
    """

    id: str
    content: str
    event_time: datetime
    source_class: SourceClass | None = None
    label: str | None = None


class RecalledItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One memory that a search returns.

    `source_ref`: the id that its sender gave it. `role`: the role of a message. `agent`: the agent
    that wrote it. `call`: of a tool's output, the call with its arguments, shortened; of one whose
    content is only a part, `tool_output_key` and `offset` say where `read_tool_output` reads it.
    `by`: whether the calling user or somebody else stated it. `sources`: the
    messages that it was extracted from. `relations`: a few of its relations. `outdated_by`: the id
    of a later statement of the same user with another value, or of the present value of its key.
    `contradicts`: the id of a stronger memory that contradicts it. `later`: the reply that it got,
    if it asks, and what its speaker stated later about the same thing, which may replace, end or
    confirm it; they take no place among the items.
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
    by: StatedBy | None = None
    scope: OwnerScope | None = None
    source_class: SourceClass | None = None
    sources: list[str] = []
    relations: tuple[ItemRelation, ...] = ()
    outdated_by: str | None = None
    contradicts: str | None = None
    later: tuple[LaterStatement, ...] = ()
    explanation: Explanation | None = None
    call: str | None = None
    tool_output_key: str | None = None
    offset: int | None = None


class RecalledItems(msgspec.Struct, frozen=True, kw_only=True):
    """The found items; `degraded`: some could be found only by their words, or were not reranked.

    `other_users`, `other_homes`: if nothing was found, others who have memories, and other folders
    with a memory; only the user who runs a stack without accounts learns of them.
    """

    items: list[RecalledItem]
    total: int
    degraded: bool
    rerank_used: bool
    reason: str | None
    answer: Answer | None
    other_users: list[str] = []
    other_homes: list[str] = []


RECALL = MemoryTool(
    name="recall",
    title="Search the memory",
    description=(
        "Search what was said, what tools answered, documents, facts and notes, in any session. "
        "Call this whenever the user refers to something that is not in the conversation any "
        "more, for example because it was trimmed for length, or was said in an earlier session: "
        "recall(query='the database query about order count', source_kinds=['tool_output'])."
    ),
    annotations=READS,
    args=Recall,
    answer=RecalledItems,
    shows=lambda found: [item.id for item in found.items],
    role="reader",
    offered_over_mcp=True,
    operation="search_memory",
)


class SaveMemory(Arguments, frozen=True):
    content: Annotated[
        Content,
        msgspec.Meta(description="The note, in words that make sense without the conversation."),
    ]
    metadata: Annotated[
        Json | None,
        msgspec.Meta(
            description="What else to store with it and return when it is found, e.g. "
            "{'source': 'code review'}. timestamp_utc: when it happened."
        ),
    ] = None


class SavedMemory(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    was_new: bool


SAVE_MEMORY = MemoryTool(
    name="save_memory",
    title="Save a note for good",
    description=(
        "Note something important that came up in the conversation and has no key of its own: a "
        "finding, a decision with its reasons, an event. It is found again by its meaning with "
        "recall or search_memory. For a preference, rule or fact that the user wants remembered "
        "use save_topic."
    ),
    annotations=WRITES,
    args=SaveMemory,
    answer=SavedMemory,
    role="writer",
    offered_over_mcp=True,
    operation="upsert_memory",
)


class SearchMemory(Arguments, frozen=True):
    query: QueryText
    top_k: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=20)] | None,
        msgspec.Meta(description="Maximum number of memories to return."),
    ] = None


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A found episode or note, with a score from 0 to 1.

    `outdated_by`: the id of a later statement of another value. `contradicts`: the id of a user's
    statement of another value, which is stronger. `later`: what its speaker stated later about the
    same thing, as in `RecalledItem`.
    """

    id: str
    content: str
    score: float
    metadata: Json
    source_class: SourceClass
    outdated_by: str | None = None
    contradicts: str | None = None
    later: tuple[LaterStatement, ...] = ()


class FoundMemories(msgspec.Struct, frozen=True, kw_only=True):
    """The hits; `degraded`: some memories could be found only by their words, for this `reason`."""

    hits: list[Hit]
    degraded: bool
    reason: str | None


SEARCH_MEMORY = MemoryTool(
    name="search_memory",
    title="Search questions, answers and notes",
    description=(
        "Search earlier questions with their answers, and notes, of any session, by meaning, when "
        "no exact key is known. Call this for 'What do you remember about …?', 'What did we say "
        "about …?' and whenever earlier conversations may help, e.g. search_memory(query='which "
        "databases has this user worked with')."
    ),
    annotations=READS,
    args=SearchMemory,
    answer=FoundMemories,
    shows=lambda found: [hit.id for hit in found.hits],
    role="reader",
    offered_over_mcp=True,
    operation="search_memory",
)


class MemoryHistory(Arguments, frozen=True):
    topic_or_id: Id


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a memory; `superseded_by` is the id of the version that replaced it.

    `retired_at` and `retired_why`: when and why it was retired; None for the current version.
    `reason`: what was said to `edit_memory`, `retire_fact` or `hide_memories`, or in which message
    the user ended or denied it.
    `sources`: the messages that it was extracted from.
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
    retired_why: RetirementReason | None = None
    sources: list[str] = []
    reason: str | None = None

    @property
    def ended(self) -> str | None:
        """Why it was retired, in a readable word; None for the current version."""
        return "replaced" if self.retired_why == "superseded" else self.retired_why


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """The newest of `total` versions; if there are many, long contents are shortened."""

    versions: list[Version]
    total: int


MEMORY_HISTORY = MemoryTool(
    name="memory_history",
    title="Show earlier versions",
    description=(
        "List every version of a fact, an answer or a message, newest first, for questions such "
        "as 'What did I prefer before?'. Give the fact's topic key or the id of any version."
    ),
    annotations=READS,
    args=MemoryHistory,
    answer=Versions,
    shows=lambda found: [version.id for version in found.versions],
    role="reader",
    offered_over_mcp=True,
    operation="search_memory",
)


PIECE = 8_000
"""Default number of characters in a piece."""
MAX_PIECE = 64_000
"""Maximum number of characters in a piece. A result has it twice, in content and data, and fits
into a message even if JSON escapes every character."""
Limit = Annotated[
    int, msgspec.Meta(ge=1, le=MAX_PIECE, description="Maximum number of characters to read.")
]


class ReadToolOutput(Arguments, frozen=True):
    tool_output_key: Annotated[
        str,
        msgspec.Meta(
            min_length=1, max_length=100, description="The key, exactly as the preview names it."
        ),
    ]
    offset: Offset = 0
    limit: Limit = PIECE


class OutputPiece(msgspec.Struct, frozen=True, kw_only=True):
    """`next_offset` is None at the end."""

    tool_output_key: str
    offset: int
    total_chars: int
    next_offset: int | None
    content: str


READ_TOOL_OUTPUT = MemoryTool(
    name="read_tool_output",
    title="Read on in a long output",
    description=(
        "Read the full output of a tool of which you have only seen a preview. Call this with the "
        "key that the preview names, e.g. read_tool_output(tool_output_key='tout_5f0c…'), and "
        "again with offset=next_offset for the next piece."
    ),
    annotations=READS,
    args=ReadToolOutput,
    answer=OutputPiece,
    role="reader",
    offered_over_mcp=True,
)


# Sessions


MAX_NOTE = 2_000
MAX_ROLE = 64


class MakeNote(Arguments, frozen=True):
    content: Annotated[
        str,
        msgspec.Meta(min_length=1, max_length=MAX_NOTE, description="The note, in a sentence."),
    ]
    role: Annotated[
        Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ROLE, pattern=WITHOUT_NUL)] | None,
        msgspec.Meta(
            description="The role that makes the note, e.g. 'planner'; by default the caller."
        ),
    ] = None


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A session's note; `merges` is the number of notes that it replaces, 0 for an original one."""

    position: int
    role: str
    content: str
    event_time: datetime
    merges: int = 0


class SessionNotes(msgspec.Struct, frozen=True, kw_only=True):
    """The session's notes in order; `merged` is how many were just merged into one."""

    notes: list[Note]
    was_new: bool
    merged: int


NOTE = MemoryTool(
    name="note",
    title="Note for this session",
    description=(
        "Note something for the rest of this session: a decision, a result, what is still to do, "
        "e.g. note(content='Invoices are checked; shipping is still open.'). All notes of the "
        "session are returned, whoever made them. When they are many, the oldest are shortened "
        "into one. For what matters beyond the session use remember_fact."
    ),
    annotations=WRITES,
    args=MakeNote,
    answer=SessionNotes,
    role="writer",
    offered_over_mcp=True,
    operation="create_memory",
)


DEFAULT_LIMIT = 100
MAX_LIMIT = 1_000


class LoadSession(Arguments, frozen=True):
    session_id: Annotated[
        Id | None,
        msgspec.Meta(description="One of the user's sessions; by default the envelope's."),
    ] = None
    limit: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=MAX_LIMIT,
            description="Maximum number of messages to return; 0: notes and memories only.",
        ),
    ] = DEFAULT_LIMIT


class SessionCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call; `args` is empty if the arguments are unknown or too long."""

    id: str
    name: str
    args: Json


class SessionMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message in the form of chat models.

    `name`: the person or tool that wrote it. `source_ref`: the id that its sender gave it.
    """

    role: str
    content: str
    id: str
    event_time: datetime
    name: str | None = None
    source_ref: str | None = None
    query_id: str | None = None
    tool_calls: list[SessionCall] = []
    tool_call_id: str | None = None


class TopMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of the memories that matter most; `by`: who stated it, relative to the calling user."""

    id: str
    content: str
    importance: float
    event_time: datetime
    scope: OwnerScope
    by: StatedBy
    source_class: SourceClass
    topic: str | None = None
    pinned: bool | None = None


class SessionContent(msgspec.Struct, frozen=True, kw_only=True):
    """A session's newest messages, in order; `earlier`: there are more messages before these.

    `degraded`: turns may be missing, for this `reason`.
    """

    session_id: str
    messages: list[SessionMessage]
    earlier: bool
    notes: list[Note]
    memories: list[TopMemory]
    degraded: bool = False
    reason: str | None = None


LOAD_SESSION = MemoryTool(
    name="load_session",
    title="Load a session",
    description=(
        "Load a session to continue it: its newest messages in their order, with the tools called "
        "and what they answered; its notes; and the memories that matter most. To look for "
        "something in particular use recall."
    ),
    annotations=READS,
    args=LoadSession,
    answer=SessionContent,
    shows=lambda session: [*(m.id for m in session.memories), *(m.id for m in session.messages)],
    role="reader",
    offered_over_mcp=True,
    for_models=False,
    operation="search_memory",
)


class NoArguments(Arguments, frozen=True):
    pass


class TopMemories(msgspec.Struct, frozen=True, kw_only=True):
    """The top memories of a caller, the user's own first."""

    memories: list[TopMemory]


TOP_MEMORIES = MemoryTool(
    name="top_memories",
    title="List what matters most",
    description=(
        "List the memories that matter most: important or lasting facts, instructions and "
        "preferences of the user, of the agent and for everybody, then other facts with a key. "
        "For agents to begin each turn with; to look for something in particular use recall."
    ),
    annotations=READS,
    args=NoArguments,
    answer=TopMemories,
    shows=lambda top: [memory.id for memory in top.memories],
    role="reader",
    offered_over_mcp=True,
    for_models=False,
    operation="search_memory",
)


MAX_MESSAGES = 10_000


class Ingest(Arguments, frozen=True):
    messages: Annotated[
        list[MessageJson],
        msgspec.Meta(
            min_length=1,
            max_length=MAX_MESSAGES,
            description="In their order. id: your own, needed if you send a conversation in "
            "pieces; name: who speaks.",
        ),
    ]
    session_id: Annotated[
        Id | None,
        msgspec.Meta(
            description="The conversation's id; by default the envelope's session, else an id "
            "derived from the first messages."
        ),
    ] = None
    allow_again: Annotated[
        bool, msgspec.Meta(description="Also store messages that were erased on request.")
    ] = False


INGEST = MemoryTool(
    name="ingest",
    title="Remember a conversation",
    description=(
        "Remember a whole conversation word for word, so that recall finds what was said and what "
        "tools answered. Sending it again changes nothing; a longer version adds what is new; "
        "another text under a message's id is its newer version. Facts are extracted later. If the "
        "answer to a few new messages names facts that no longer hold, call retire_fact. For a "
        "single fact use remember_fact or save_topic."
    ),
    annotations=WRITES,
    args=Ingest,
    answer=IngestReport,
    role="writer",
    for_models=False,
    operation="upsert_memory",
)


# Documents


class AddDocument(Arguments, frozen=True):
    content: Annotated[str, msgspec.Meta(min_length=1, description="The document, whole.")]
    title: Annotated[
        str,
        msgspec.Meta(
            min_length=1, max_length=MAX_TITLE, description="What it is called, e.g. 'User guide'."
        ),
    ]
    source: Annotated[
        Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)] | None,
        msgspec.Meta(description="Where it comes from, e.g. a path or URL; else its title."),
    ] = None


class AddedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of chunks; `removed`: chunks that the document no longer contains."""

    source: str
    chunks: int
    added: int
    replaced: int
    unchanged: int
    removed: int


ADD_DOCUMENT = MemoryTool(
    name="add_document",
    title="Add a document",
    description=(
        "Store a document, text or Markdown, so that recall finds what it says; everybody in the "
        "tenant can find it. Adding it again under the same source replaces it, and changes only "
        "what is different. For a single fact use remember_fact or save_topic."
    ),
    annotations=WRITES,
    args=AddDocument,
    answer=AddedDocument,
    role="curator",
    offered_over_mcp=True,
    for_models=False,
    operation="upsert_memory",
)


class ReadDocument(Arguments, frozen=True):
    source: Annotated[
        str, msgspec.Meta(min_length=1, max_length=1_000, description="Where it comes from.")
    ]
    offset: Offset = 0
    limit: Limit = PIECE


class DocumentPiece(msgspec.Struct, frozen=True, kw_only=True):
    """`next_offset` is None at the end."""

    source: str
    title: str
    offset: int
    total_chars: int
    next_offset: int | None
    content: str


READ_DOCUMENT = MemoryTool(
    name="read_document",
    title="Read a document",
    description=(
        "Read a document that was stored with add_document, by its source, as recall names it. "
        "Call it again with offset=next_offset for the next piece. To find something in it use "
        "recall."
    ),
    annotations=READS,
    args=ReadDocument,
    answer=DocumentPiece,
    role="reader",
    for_models=False,
)


# Relations between memories


class Relate(Arguments, frozen=True):
    source: Id
    type: RelationType
    target: Id
    remove: Annotated[
        bool, msgspec.Meta(description="Remove the relation instead of storing it.")
    ] = False


class ChangedRelation(msgspec.Struct, frozen=True, kw_only=True):
    """`changed`: whether the relation was added, or removed."""

    changed: bool


RELATE = MemoryTool(
    name="relate",
    title="Relate memories",
    description=(
        "Store how one memory relates to another, by their ids: relate(source='…', "
        "type='depends_on', target='…'). The source of 'contradicts' and 'supersedes' is the "
        "newer memory. Recall follows relations."
    ),
    annotations=WRITES,
    args=Relate,
    answer=ChangedRelation,
    role="writer",
    for_models=False,
    operation="update_memory",
)


class ListRelations(Arguments, frozen=True):
    id: Id


class RelatedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory at the other end of a relation, with the beginning of its content.

    `incoming`: it is the source of the relation. `active`: it is not retired.
    """

    type: RelationType
    id: str
    incoming: bool
    content: str
    event_time: datetime
    active: bool
    source_class: SourceClass
    kind: Kind | None = None


class RelatedMemories(msgspec.Struct, frozen=True, kw_only=True):
    """The memories related to one, in either direction, that the caller may see."""

    id: str
    relations: list[RelatedMemory]


RELATIONS = MemoryTool(
    name="relations",
    title="List relations",
    description=(
        "List how a memory relates to others, in both directions: which one contradicts, "
        "supports, supersedes, caused, depends on, is part of or implements the other."
    ),
    annotations=READS,
    args=ListRelations,
    answer=RelatedMemories,
    shows=lambda found: [found.id, *(related.id for related in found.relations)],
    role="reader",
    for_models=False,
)


# Upkeep


class Consolidate(Arguments, frozen=True):
    dry_run: Annotated[
        bool, msgspec.Meta(description="Only list what would be changed, and change nothing.")
    ] = False


ChangeAction = Literal["archived", "merged", "contradicted", "importance"]
"""What consolidation did to a fact: retired it (and why), or changed its importance."""


class ConsolidationChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of a consolidation; `before` and `after` are importances."""

    action: ChangeAction
    id: str
    reason: str
    scope: str
    content: str
    topic: str | None = None
    memory_type: str | None = None
    superseded_by: str | None = None
    before: float | None = None
    after: float | None = None


class LeftAlone(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that contradicts another one, and why both stay."""

    id: str
    contradicts: str
    reason: str


class NotDone(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was not made, or not undone, and why."""

    id: str
    reason: str


class ConsolidationReport(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of a consolidation, made or planned; `undo` takes the `run`, if anything changed.

    `facts`: the number of facts examined. `left`: contradictions that stay. `not_done`: changes
    that failed, or whose facts have changed in the meantime.
    """

    run: str | None
    facts: int
    changes: list[ConsolidationChange]
    left: list[LeftAlone] = []
    not_done: list[NotDone] = []


CONSOLIDATE = MemoryTool(
    name="consolidate",
    title="Keep memories in order",
    description=(
        "Keep the caller's facts and those for everybody in order: archive what is stale, merge "
        "duplicates, resolve contradictions, raise the importance of what is recalled. Every "
        "change is in the audit, and `undo` reverses the whole run."
    ),
    annotations=WRITES,
    args=Consolidate,
    answer=ConsolidationReport,
    role="curator",
    for_models=False,
    operation="update_memory",
)


class Undo(Arguments, frozen=True):
    run: Annotated[Id, msgspec.Meta(description="The run's id, from the report or the audit.")]


class UndoReport(msgspec.Struct, frozen=True, kw_only=True):
    """`undone` contains record ids; `others` counts changes that only others may undo."""

    run: str
    undone: list[str]
    not_done: list[NotDone] = []
    others: int = 0


UNDO = MemoryTool(
    name="undo",
    title="Undo changes",
    description=(
        "Undo the changes that a run made to what the caller may see and write, a run of "
        "consolidate, edit_memory, retire_fact, pin_memories or hide_memories: memories are as "
        "they were, importances return to their earlier values. What has changed since stays, and "
        "is listed."
    ),
    annotations=WRITES,
    args=Undo,
    answer=UndoReport,
    role="writer",
    for_models=False,
    operation="update_memory",
)


class Audit(Arguments, frozen=True):
    id: Annotated[
        Id | None,
        msgspec.Meta(description="Only entries about this record."),
    ] = None
    run: Annotated[
        Id | None,
        msgspec.Meta(description="Only entries of this run."),
    ] = None
    limit: Annotated[
        int, msgspec.Meta(ge=1, le=1_000, description="Maximum number of entries to return.")
    ] = 100
    before: Annotated[
        Annotated[int, msgspec.Meta(ge=1, lt=2**53)] | None,
        msgspec.Meta(description="`next` of the previous page, to continue after it."),
    ] = None


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of a record's state. `by`: who made it; None if the memory itself did.

    `number` orders the entries. `action`: why a record was retired, or `importance`, `enriched` (it
    received the sources of a merged record), `awaits` (an import named a replacement that it did
    not bring yet) or `undone`. `superseded_by`: the record that replaced it, or is to. `before` and
    `after`: importances, or what was undone.
    """

    number: int
    at: datetime
    action: str
    id: str
    kind: str | None = None
    topic: str | None = None
    memory_type: str | None = None
    scope: str | None = None
    agent: str | None = None
    by: ChangedBy | None = None
    reason: str | None = None
    run: str | None = None
    superseded_by: str | None = None
    before: float | str | None = None
    after: float | str | None = None


class AuditTrail(msgspec.Struct, frozen=True, kw_only=True):
    """Entries, newest first; pass `next` as `before` to read the following ones."""

    entries: list[AuditEntry]
    next: int | None = None


AUDIT = MemoryTool(
    name="audit",
    title="Show what was changed",
    description=(
        "List changes of state, newest first: facts that were replaced, merged, contradicted or "
        "archived, importances that changed, and what was undone. Ids and reasons, never content."
    ),
    annotations=READS,
    args=Audit,
    answer=AuditTrail,
    role="curator",
    for_models=False,
)


class Forget(Arguments, frozen=True):
    everything: Annotated[
        bool, msgspec.Meta(description="Everything that the envelope's user said or stated.")
    ] = False
    session_id: Id | None = None
    topic: Id | None = None
    id: Annotated[
        Id | None,
        msgspec.Meta(description="The id of a record; its turn or document is erased, too."),
    ] = None
    dry_run: bool = False
    allow_again: Annotated[
        bool,
        msgspec.Meta(
            description="Let a later import store it again, even if it is already erased."
        ),
    ] = False


class ErasureCheck(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place that was searched for the erased content, and how much was found.

    `note`: what remains to be done, and by whom.
    """

    name: str
    found: int
    note: str | None = None


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of erased records by a readable name; in a dry run, those to be erased.

    `complete`: no trace was found afterwards. `may_come_back`: an import may store the same content
    again.
    """

    erased: dict[str, int]
    at: datetime
    dry_run: bool
    complete: bool
    may_come_back: bool
    checks: list[ErasureCheck] = []

    @property
    def total(self) -> int:
        return sum(self.erased.values())


FORGET = MemoryTool(
    name="forget",
    title="Forget for good",
    description=(
        "Erase for good what the caller said or stated: everything of the envelope's user, a "
        "session, a topic or the record of an id, with all its versions and what was derived from "
        "it alone. Returns a receipt; with dry_run, only counts what would be erased."
    ),
    annotations=ERASES,
    args=Forget,
    answer=Receipt,
    role="admin",
    action=lambda args: "forget" if args.everything else "forget_own",
    for_models=False,
    operation="delete_memory",
)


TOOLS: tuple[MemoryTool[Any, Any], ...] = tuple(
    declared for declared in globals().values() if isinstance(declared, MemoryTool)
)
"""All that are declared above, in the order in which models see them."""
TOOL_NAMES = frozenset(tool.name for tool in TOOLS)
