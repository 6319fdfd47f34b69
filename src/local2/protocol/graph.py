"""The graph on the wire: things and memories, and how they are related, around one of them."""

from typing import Annotated, Literal

import msgspec

from local2.protocol.envelope import Name
from local2.protocol.payloads import ServiceRequest

MAX_EDGES = 300
"""Maximum number of edges in an answer."""
NAME_CHARACTERS = 200
"""Maximum characters of a node's name; the rest of a memory's text is left out."""


class ShowGraph(ServiceRequest, frozen=True, kw_only=True):
    """`memory.graph`: what is around a thing, by its name, or around a memory, by its id.

    Without either, it is around what was stated last.
    """

    thing: Name | None = None
    id: Name | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_EDGES)] = 100


class GraphNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A thing that facts name, or a memory, whose `id` it has. `key`: of the node in this graph."""

    key: str
    kind: Literal["thing", "memory"]
    name: str
    id: str | None = None


class GraphEdge(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fact about two things, whose `id` it has, or a relation between two memories."""

    source: str
    target: str
    label: str
    id: str | None = None


class Graph(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Nodes and the edges between them. `cut`: there may be more."""

    nodes: list[GraphNode]
    edges: list[GraphEdge]
    cut: bool = False
