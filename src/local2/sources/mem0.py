"""mem0's memories: what `get_all` or the API's list returns, and the backup of OpenMemory.

Each memory is a fact. Its time is that of its last change there, since its text is from then.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from local2.protocol.conversation import is_blank
from local2.protocol.lenient.values import moment_of
from local2.protocol.payloads import Json
from local2.sources.items import Fact, LeftOuts
from local2.sources.objects import FoundObject, converted


class ExportedMemory(msgspec.Struct, frozen=True):
    """A memory. OpenMemory has its text in `content`, and a `state`.

    OpenMemory's `user_id` is an id of its database, and its backup is of one user.
    """

    id: str
    memory: str | None = None
    content: str | None = None
    state: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None
    run_id: str | None = None
    actor_id: str | None = None
    role: str | None = None
    categories: list[Any] | None = None
    metadata: Json | None = None
    created_at: Any = None
    updated_at: Any = None
    expiration_date: Any = None


KEPT = ("app_id", "run_id", "actor_id", "role", "categories", "metadata")
"""Fields that are stored beside the text."""


def items(objects: Iterable[FoundObject], left_out: LeftOuts) -> Iterator[Fact]:
    """Read the memories of an export."""
    now = datetime.now(UTC)
    for found in objects:
        memory = converted(found, ExportedMemory, left_out)
        if memory is None:
            continue
        name = f"{found.name}: memory {memory.id}"
        text = memory.memory or memory.content or ""
        at = moment_of(memory.updated_at) or moment_of(memory.created_at)
        expires = moment_of(memory.expiration_date)
        if is_blank(text):
            left_out.add(name, "memories without text")
        elif memory.state not in {None, "active"}:
            left_out.add(name, "memories that are paused, archived or deleted there")
        elif expires is not None and expires <= now:
            left_out.add(name, "memories that have expired")
        elif at is None:
            left_out.add(name, "memories without a time")
        else:
            yield Fact(
                id=f"mem0-{memory.id}",
                content=text,
                event_time=at,
                user=memory.user_id if memory.state is None else None,
                agent=memory.agent_id,
                metadata={field: value for field in KEPT if (value := getattr(memory, field))},
            )
