"""What the memory's tools answer to programs: the `data` of their results."""

from datetime import datetime

import msgspec

from local.protocol.kinds import By, Owning, SourceClass


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is empty if nothing answers the question; without a model it is the best item's."""

    text: str = ""
    ids: tuple[str, ...] = ()
    by_model: bool = False


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What a score is made of: the sum of the shares, by 2.5, times the weight of its scope."""

    shares: dict[str, float]
    weight: float


class RecalledItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`source_ref` is the id that whoever stored it gave it.

    `role` is a message's, `agent` who wrote it to the memory, `by` whether the user who asks stated
    it or another one.
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
    explanation: Explanation | None = None


class RecalledItems(msgspec.Struct, frozen=True, kw_only=True):
    """`degraded`: some memories could only be found by their words; `reason` says why."""

    items: list[RecalledItem]
    total: int
    degraded: bool
    rerank_used: bool
    reason: str | None
    answer: Answer | None


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """`superseded_by` is the id of the version that replaced it; None: it is the active one."""

    id: str
    content: str
    topic: str | None
    scope: str
    event_time: datetime
    agent: str | None
    superseded_by: str | None


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """The newest of `total` versions, long ones shortened if there are many."""

    versions: list[Version]
    total: int
