"""What adapters say of a memory beside its text."""

from local.protocol.memories import RecalledItem
from local.protocol.payloads import Json

FURTHER = ("label", "role", "topic", "session_id", "agent", "scope", "by", "source_ref")
"""Fields that not every memory has."""


def metadata_of(item: RecalledItem) -> Json:
    """Its id, score and kind, where it comes from, when that was; and whatever else there is."""
    further = {name: getattr(item, name) for name in FURTHER}
    return {
        "id": item.id,
        "score": item.score,
        "kind": item.source_kind,
        "source": item.source_class,
        "when": item.event_time.isoformat(),
        **{name: value for name, value in further.items() if value is not None},
    }
