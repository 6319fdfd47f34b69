"""Show one caller how things and memories are related."""

from collections.abc import Iterable
from typing import Any

import msgspec

from local2.errors import InvalidArgumentsError
from local2.keys import entity_key
from local2.ledger.ledger import Ledger
from local2.ledger.records import Record
from local2.memory.scopes import may_see, own_places, visible
from local2.protocol.envelope import Caller
from local2.protocol.graph import NAME_CHARACTERS, Graph, GraphEdge, GraphNode, ShowGraph
from local2.protocol.memories import Triplet


async def graph_around(ledger: Ledger, caller: Caller, wanted: ShowGraph) -> Graph:
    """What is around a thing, a memory, or what was stated last, as far as the caller may see it.

    Raises:
        InvalidArgumentsError: Both a thing and a memory are named, or the caller sees no such
            memory.
    """
    if wanted.thing is not None and wanted.id is not None:
        raise InvalidArgumentsError(
            "Expected a thing or an id, not both.", remedy="Leave one of them out."
        )
    drawing = _Drawing(wanted.limit)
    if wanted.id is None:
        places = own_places(caller)
        drawing.add_facts(await ledger.knowledge.naming(wanted.thing, places, wanted.limit))
        return drawing.graph()
    found, related = await ledger.relations.of(wanted.id)
    record = visible(found, caller, "id")
    own = drawing.add_memory(record)
    for relation in related:
        if may_see(relation.record, caller):
            other = drawing.add_memory(relation.record)
            ends = (other, own) if relation.incoming else (own, other)
            drawing.add_edge(*ends, relation.type.replace("_", " "))
    drawing.add_facts([record])
    return drawing.graph()


class _Drawing:
    """Collects nodes and edges, each once."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._nodes: dict[str, GraphNode] = {}
        self._edges: dict[GraphEdge, None] = {}

    def graph(self) -> Graph:
        edges = list(self._edges)[: self._limit]
        return Graph(
            nodes=list(self._nodes.values()), edges=edges, cut=len(self._edges) >= self._limit
        )

    def add_memory(self, record: Record) -> str:
        node = GraphNode(
            key=f"memory:{record.id}",
            kind="memory",
            name=record.content[:NAME_CHARACTERS],
            id=record.id,
        )
        return self._add(node)

    def add_facts(self, records: Iterable[Record]) -> None:
        """Add the things that facts are about, if they are stated as triplets."""
        for record in records:
            stated: Any = record.metadata.get("triplet")
            if stated is not None:
                triplet = msgspec.convert(stated, Triplet)
                subject, object_ = self._add_thing(triplet.subject), self._add_thing(triplet.object)
                self.add_edge(subject, object_, triplet.predicate, record.id)

    def add_edge(self, source: str, target: str, label: str, id_: str | None = None) -> None:
        self._edges[GraphEdge(source=source, target=target, label=label, id=id_)] = None

    def _add_thing(self, name: str) -> str:
        key = f"thing:{entity_key(name)}"
        return self._add(GraphNode(key=key, kind="thing", name=name[:NAME_CHARACTERS]))

    def _add(self, node: GraphNode) -> str:
        return self._nodes.setdefault(node.key, node).key
