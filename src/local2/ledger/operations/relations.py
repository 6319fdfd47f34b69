"""Stores relations between records: stated relations, and links between facts with common names.

Facts stated as triplets are linked by the entities that they name. An entity has one spelling, and
may have aliases. The table `relation` also has rows whose targets are no records, which recall
therefore ignores: for each fact one to its statement, one to each entity that it names, and, if it
states an alias, some to the two names. The names themselves are stored in the facts only.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache, partial
from itertools import chain
from typing import Any

import msgspec

from local2.errors import InvalidArgumentsError
from local2.keys import entity_key
from local2.language.names import name_candidates
from local2.ledger.operations.places import place_word
from local2.ledger.operations.records import Cause, add_to_audit, relate, store_fact
from local2.ledger.operations.transactions import (
    Part,
    TenantRows,
    Transaction,
    as_json,
    reads,
    record_of,
    records_of,
    writes,
)
from local2.ledger.records import (
    ALSO_NAMES,
    NAMES,
    RELATION_TYPES,
    SHARES_ENTITY,
    STATES,
    TENANT_OWNED,
    NewRecord,
    Record,
    Written,
)
from local2.ledger.search import Place
from local2.protocol.envelope import content_id
from local2.protocol.memories import OwnerScope, RelationType, Triplet

MAX_RELATIONS = 100
"""Maximum number of relations of one record, in both directions: all are read whenever it is
recalled."""

TYPES = as_json(RELATION_TYPES)
LINKED_PER_ROLE = 4
"""Number of facts linked with a new fact that names the same entity: the newest in each role."""
MAX_LINKS = 50
"""Maximum number of newer facts of one owner that are linked with a fact."""
LATEST_FACTS = 500
"""Number of the newest facts of each place that are looked at for the names of things."""
MAX_NAMES = 8
"""Maximum number of names of one entity that are looked up."""
ANY_ALIAS = content_id(ALSO_NAMES)
"""Relation target of all facts that state an alias."""
ROLES = ("subject", "object")

FactPlace = tuple[OwnerScope, str]
"""Scope and owner of facts; ids of entities are made of them."""
TENANT_PLACE: FactPlace = ("tenant", TENANT_OWNED)


class TripletFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact to be stored, with its triplet.

    `alias` means that subject and object are two names of one thing.
    """

    triplet: Triplet
    record: NewRecord
    alias: bool = False


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """A relation between two records, given by their ids, and who states or withdraws it."""

    source: str
    type: RelationType
    target: str
    agent: str | None
    user: str
    at: datetime


class RelatedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record at the other end of a relation; `incoming` means that it is the source."""

    type: RelationType
    incoming: bool
    record: Record


Permit = Callable[[Record | None, Record | None], None]
"""Raises unless source and target may be related; None stands for a record that does not exist."""


class LedgerRelations(Part):
    """One tenant's relations."""

    @writes
    def add(self, tx: Transaction, relation: Relation, permit: Permit) -> bool:
        """Store a relation; return False if it exists already.

        Raises:
            InvalidArgumentsError: `permit` raised it, a record would have too many relations, or
                the two would supersede each other.
        """
        self._check(tx, relation, permit)
        ends = {"id": relation.target, "newer": relation.source}
        if relation.type == "supersedes" and tx.execute("replaced_in_turn", **ends).fetchone():
            raise InvalidArgumentsError(
                "target: it supersedes the source already, directly or over other memories.",
                remedy="Use contradicts, or remove the relation that says so.",
            )
        full = full_end(tx, relation.source, relation.type, relation.target)
        if full is not None:
            raise InvalidArgumentsError(
                f"The memory {full} already has {MAX_RELATIONS} relations, the maximum.",
                remedy="Withdraw one first.",
            )
        return self._change(tx, "relate", relation, "related")

    @writes
    def remove(self, tx: Transaction, relation: Relation, permit: Permit) -> bool:
        """Withdraw a relation; return False if it does not exist.

        Raises:
            InvalidArgumentsError: `permit` raised it.
        """
        self._check(tx, relation, permit)
        return self._change(tx, "unrelate", relation, "unrelated")

    @reads
    def of(self, tx: Transaction, record_id: str) -> tuple[Record | None, list[RelatedRecord]]:
        """A record, and the records related to it in either direction."""
        found = tx.execute("relations_of", id=record_id, types=TYPES)
        related = [
            RelatedRecord(
                type=row["relation_type"], incoming=bool(row["incoming"]), record=record_of(row)
            )
            for row in found
        ]
        return self._record(tx, record_id), related

    def _check(self, tx: Transaction, relation: Relation, permit: Permit) -> None:
        permit(self._record(tx, relation.source), self._record(tx, relation.target))

    def _change(self, tx: Transaction, statement: str, relation: Relation, action: str) -> bool:
        edge: dict[str, Any] = {"type": relation.type, "target": relation.target}
        changed = tx.execute(statement, source=relation.source, **edge)
        if changed.rowcount < 1:
            return False
        cause = Cause(agent=relation.agent, at=relation.at, user=relation.user)
        add_to_audit(tx, action, relation.source, cause, edge)
        return True

    def _record(self, tx: Transaction, record_id: str) -> Record | None:
        row = tx.execute("record_by_id", id=record_id).fetchone()
        return record_of(row) if row else None


def full_end(tx: Transaction, source: str, type_: str, target: str) -> str | None:
    """The end of a new relation that has the maximum of stated relations already, if any."""
    edge = {"source": source, "type": type_, "target": target}
    row = tx.execute("full_end", **edge, types=TYPES, most=MAX_RELATIONS).fetchone()
    return row["id"] if row else None


def move_relations(tx: Transaction, former: str, version: str) -> None:
    """Let what is stated of a memory be stated of another version of it.

    Relations between the versions stay as they are, and so do denials in messages, which are about
    the former words.
    """
    for row in tx.execute("relations_of", id=former, types=TYPES).fetchall():
        other, type_ = row["id"], row["relation_type"]
        is_denial = row["incoming"] and type_ == "contradicts" and row["kind"] == "chat_message"
        if other == version or row["superseded_by"] == former or is_denial:
            continue
        if row["incoming"]:
            tx.execute("unrelate", source=other, type=type_, target=former)
            relate(tx, other, type_, version)
        else:
            tx.execute("unrelate", source=former, type=type_, target=other)
            relate(tx, version, type_, other)


class Knowledge(Part):
    """One tenant's facts that are stated as triplets."""

    def __init__(self, rows: TenantRows) -> None:
        super().__init__(rows)
        self._has_aliases: bool | None = None

    async def store(self, facts: Sequence[TripletFact]) -> list[Written]:
        """Store facts stated as triplets, all or none; facts that are stated already are skipped.

        A name is spelled as in its first statement. A fact is linked with facts of its scope and
        owner, and with the tenant's, that name its subject or object by any of their names.
        """
        written = await self._rows.write(lambda tx: [self._store(tx, fact) for fact in facts])
        if any(fact.alias for fact in facts):
            self._has_aliases = True
        return written

    @reads
    def naming(
        self, tx: Transaction, name: str | None, places: Sequence[FactPlace], limit: int
    ) -> list[Record]:
        """The newest facts of these places that name a thing, or that name any things."""
        if name is None:
            words = [place_word(tx.tenant, Place(*place, "fact")) for place in places]
            asked = {"places": as_json(words), "most": LATEST_FACTS, "limit": limit}
            return records_of(tx.execute("latest_stated", **asked))
        names = self._all_names(tx, places, name)
        entities = chain.from_iterable(
            _entities_of(places, entity_key(any_name)) for any_name in names
        )
        asked = {"entities": as_json(list(entities)), "limit": limit}
        return records_of(tx.execute("facts_naming", **asked))

    def forget_held(self) -> None:
        """Forget whether there are any aliases, since some may have been added."""
        self._has_aliases = None

    async def aliases_in(self, text: str, places: Sequence[FactPlace]) -> list[str]:
        """Aliases of the entities named in a text, as stated by facts of these places."""
        if self._has_aliases is None:
            any_ = await self._rows.one("stated_aliases", aliases=as_json([ANY_ALIAS]))
            if self._has_aliases is None:  # otherwise one has just been stated
                self._has_aliases = any_ is not None
        if not self._has_aliases:
            if self._rows.is_shared:  # others may state the first one
                self.forget_held()
            return []
        names_by_id = await asyncio.to_thread(_possible_names, text, partial(_aliases_of, places))

        def read(tx: Transaction) -> list[str]:
            asked = as_json(list(names_by_id))
            stated = tx.execute("stated_aliases", aliases=asked).fetchall()
            names = [names_by_id[row["alias"]] for row in stated]
            aliases = (self._all_names(tx, places, name)[1:] for name in names)
            return list(dict.fromkeys(chain.from_iterable(aliases)))

        return await self._rows.read(read)

    def _store(self, tx: Transaction, fact: TripletFact) -> Written:
        place: FactPlace = (fact.record.scope, fact.record.owner)
        within = list(dict.fromkeys((place, TENANT_PLACE)))
        fact = self._as_spelled(tx, within, fact)
        triplet = fact.triplet
        stated = content_id(STATES, *place, *triplet.key())
        known = tx.execute("stating", triplet=stated).fetchone()
        if known is not None:
            return Written(id=known["id"], was_new=False)
        written = store_fact(tx, fact.record)
        relate(tx, written.id, STATES, stated)
        names = (triplet.subject, triplet.object)
        if fact.alias:
            aliases = (_aliases_of([place], entity_key(name)) for name in names)
            for target in (ANY_ALIAS, *chain.from_iterable(aliases)):
                relate(tx, written.id, ALSO_NAMES, target)
        for role, name in zip(ROLES, names, strict=True):
            key = entity_key(name)
            relate(tx, written.id, NAMES, _entity(place, role, key))
            for any_name in self._all_names(tx, within, name):
                for entity in _entities_of(within, entity_key(any_name)):
                    found = tx.execute(
                        "naming",
                        entity=entity,
                        id=written.id,
                        scope=fact.record.scope,
                        owner=fact.record.owner,
                        limit=LINKED_PER_ROLE,
                        most=MAX_LINKS,
                    )
                    for row in found.fetchall():
                        relate(tx, written.id, SHARES_ENTITY, row["id"])
        return written

    def _as_spelled(
        self, tx: Transaction, within: Sequence[FactPlace], fact: TripletFact
    ) -> TripletFact:
        """The fact with names spelled as in known facts."""
        stated = fact.triplet
        spelled: dict[str, str] = {}
        for role in ROLES:
            name = getattr(stated, role)
            key = entity_key(name)
            entities = _entities_of(within, key)
            spellings = {
                row["entity"]: part
                for row in tx.execute("spellings", entities=as_json(entities))
                for part in (row["subject"], row["object"])
                if entity_key(part) == key
            }
            known = (spellings[entity] for entity in entities if entity in spellings)
            spelled[role] = next(known, name)
        triplet = msgspec.structs.replace(stated, **spelled)
        if triplet == stated:
            return fact
        record = msgspec.structs.replace(
            fact.record,
            content=triplet.sentence(),
            metadata={**fact.record.metadata, "triplet": msgspec.to_builtins(triplet)},
        )
        return msgspec.structs.replace(fact, triplet=triplet, record=record)

    def _all_names(self, tx: Transaction, places: Sequence[FactPlace], name: str) -> list[str]:
        """A name, followed by its stated aliases and their aliases."""
        names = {entity_key(name): name}
        waiting = [name]
        while waiting and len(names) < MAX_NAMES:
            for target in _aliases_of(places, entity_key(waiting.pop(0))):
                found = tx.execute("aliases", alias=target, limit=MAX_NAMES)
                for alias in chain.from_iterable(row for row in found.fetchall()):
                    if entity_key(alias) not in names:
                        names[entity_key(alias)] = alias
                        waiting.append(alias)
        return list(names.values())[:MAX_NAMES]


def _entity(place: FactPlace, role: str, key: str) -> str:
    """An entity's id in one role; separate ids keep the search for either role fast."""
    return content_id(NAMES, *place, role, key)


def _entities_of(places: Sequence[FactPlace], key: str) -> list[str]:
    return [_entity(place, role, key) for place in places for role in ROLES]


def _aliases_of(places: Sequence[FactPlace], key: str) -> list[str]:
    """The relation targets of facts that state an alias of a name, one per place."""
    return [content_id(ALSO_NAMES, *place, key) for place in places]


def _possible_names(text: str, ids_of: Callable[[str], Sequence[str]]) -> dict[str, str]:
    """The possible names in a text, by their ids."""
    known = cache(ids_of)
    return {id_: name for name in name_candidates(text) for id_ in known(entity_key(name))}
