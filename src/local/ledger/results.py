"""When two results of tools are one: agents report them again, cut, or without their arguments."""

from collections.abc import Mapping
from typing import Any

import msgspec

from local.ledger.records import NewRecord
from local.protocol.envelope import content_id

COMPARED = 3_000
"""Long results that begin with as many same characters are one: some are reported cut."""
PREVIEW = "[Output of "


def is_same_result(one: str, other: str) -> bool:
    """Whether two texts are one result of a tool; either may be cut, or a preview."""
    if one == other:
        return True
    first, second = (_body(text)[:COMPARED] for text in (one, other))
    return first == second and len(first) == COMPARED


def is_same_call(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two results can be of one call by their metadata; what is heard may lack its args."""
    return "args" not in one or "args" not in other or bool(one["args"] == other["args"])


def with_args_in_id(result: NewRecord) -> NewRecord:
    """The result under the id that it has where another call's result has the one it came with.

    Calls may be numbered anew in every reply, and answer the same to other arguments. Only those
    behind the first of them have such ids, so that those of older ledgers go on matching.
    """
    args = msgspec.json.encode(result.metadata["args"], order="deterministic").decode()
    return msgspec.structs.replace(result, id=content_id(result.id, args))


def _body(text: str) -> str:
    """The result's own text, without the line that a preview begins with."""
    return text.partition("\n")[2] if text.startswith(PREVIEW) else text
