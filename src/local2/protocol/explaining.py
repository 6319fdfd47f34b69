"""Explanations on the wire: for a question, why memories are in the answer, or are not.

They are served by a service, not a tool, because a tool's result is published to everybody.
"""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from local2.protocol.envelope import Name
from local2.protocol.memories import Kind, OwnerScope, RetirementReason
from local2.protocol.memory_tools import Explanation, Recall
from local2.protocol.payloads import ServiceRequest

Outcome = Literal[
    "returned",
    "beyond_top_k",
    "below_min_relevance",
    "repeated",
    "overruled",
    "unmatched",
    "not_a_candidate",
    "excluded",
    "retired",
    "not_visible",
]
"""What became of a memory in a recall.

`beyond_top_k`: it matches, and those that rank above it took the places. `below_min_relevance`:
its score is too far below the best one. `repeated`: a better one says the same in the same words.
`overruled`: it matches, and a rule of ranking (`stage`) left it out for others. `unmatched`:
neither its meaning nor a word, key or relation matches. `not_a_candidate`: of a large memory, only
the best by words and by meaning are compared, and it is not among them. `excluded`: a condition of
the question (`conditions`) rules it out. `retired`: it did not stand at that time, or is hidden.
`not_visible`: the caller sees no memory with this id.
"""
Condition = Literal["scope", "session", "since", "until", "source", "current_turn"]
"""What rules a memory out: the scopes and kinds searched (or their weight of 0), the session, the
earliest and the latest time (also by `as_of`), the sender's ids, or that it is the question itself.
"""
EXPLAINED_CHARACTERS = 1_000
"""Maximum characters of a memory's content in an explanation."""


class Explain(ServiceRequest, frozen=True, kw_only=True):
    """`memory.explain`: a question, asked as `recall` is, and a memory to explain.

    `id`: any memory's; its place and score are explained, or why it is not in the answer.
    `considered`: how many of the best matching memories are explained as well.
    """

    recall: Recall
    id: Name | None = None
    considered: Annotated[int, msgspec.Meta(ge=0, le=100)] = 20


class ExplainedMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a memory, and why, in words.

    `place`: its place in the answer, from 1. `rank`: its place before a reranker and before
    anything was left out: by score, but from the 11th on, conversations without a place gain.
    `score`: by which it was ranked, made of `explanation`.
    `reranked`: the score that a reranker gave it instead. `cosine`: of memory and question, if it
    has a vector. `covered`: the fraction of the question's words that it has. `superseded_by`: what
    replaced it.
    """

    id: str
    outcome: Outcome
    why: str
    place: int | None = None
    rank: int | None = None
    score: float | None = None
    explanation: Explanation | None = None
    reranked: float | None = None
    cosine: float | None = None
    covered: float | None = None
    stage: str | None = None
    conditions: tuple[Condition, ...] = ()
    superseded_by: str | None = None
    retired_why: RetirementReason | None = None
    kind: Kind | None = None
    scope: OwnerScope | None = None
    content: str = ""
    event_time: datetime | None = None
    topic: str | None = None
    label: str | None = None
    session_id: str | None = None

    def reasons(self) -> str:
        """Why the memory is where it is, or is not in the answer, in sentences."""
        sentences = [self.why]
        if self.rank is not None and self.rank != self.place:
            sentences.append(f"It ranks as number {self.rank}.")
        if self.reranked is not None:
            sentences.append(f"A reranker gave it {self.reranked:.2f}.")
        if self.stage is not None:
            sentences.append(f"The rule: {_spelled(self.stage)}.")
        if self.conditions:
            sentences.append(f"Ruled out by: {', '.join(map(_spelled, self.conditions))}.")
        if self.retired_why is not None:
            sentences.append(f"It was {self.retired_why}.")
        if self.superseded_by:
            sentences.append(f"Replaced by {self.superseded_by}.")
        return " ".join(sentences)


def _spelled(name: str) -> str:
    return name.replace("_", " ")


class Explained(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The memories that a recall considered, those that match best first.

    `asked`: the memory that was asked about. `candidates` were compared with the question, of
    which `matching` match. `min_score`: the least cosine with which a memory without a word of the
    question matches. `degraded`, `reason`: as in the answer of `recall`.
    """

    memories: list[ExplainedMemory]
    asked: ExplainedMemory | None = None
    candidates: int
    matching: int
    min_score: float
    degraded: bool
    rerank_used: bool
    reason: str | None = None
