"""One case for each operation of the ledger, ordered so that each finds something to do.

All tenants that run them use the same ids, sessions, query ids, keys and topics, but each puts its
own marker into every text: another tenant's marker in an answer shows a leak.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from operator import attrgetter
from typing import Any, get_args

import msgspec

from exporting import IMPORTER, lines, parsed
from ledgers import (
    DAY,
    EMBEDDER,
    ITEMS,
    OWNER,
    angle,
    erase,
    fact,
    find,
    item,
    message,
    record,
    searching,
)
from local2.ledger.erasing import Selection
from local2.ledger.ledger import Ledger
from local2.ledger.operations.browsing import BrowseFilter
from local2.ledger.operations.exports import ExportFilter
from local2.ledger.operations.extraction import ExtractedFact, FactRelation
from local2.ledger.operations.items import ItemSelection, ItemWriter
from local2.ledger.operations.relations import Relation, TripletFact
from local2.ledger.operations.sessions import FactSelection, SessionKey
from local2.ledger.operations.showings import Showing, ShowingFilter, ShownRecord
from local2.ledger.operations.turns import Rating
from local2.ledger.operations.upkeep import Access, Change
from local2.ledger.records import Actor, NewRecord, Record, Task
from local2.ledger.search import Place
from local2.protocol.browsing import RecordState
from local2.protocol.envelope import Caller
from local2.protocol.memories import Triplet
from local2.protocol.memory_tools import Note
from local2.protocol.payloads import OutputPart
from local2.protocol.portable import RecordLine

Operation = Callable[[Ledger, str], Awaitable[object]]
OPERATIONS: dict[str, Operation] = {}

KEY = "tout_" + "a" * 24
SESSION = SessionKey(OWNER, "s1")
STORING = ItemWriter(at=DAY, agent="test", user=OWNER, session_id="s1")
ACTOR = Actor(agent="cli", user=OWNER, run="run1")
FACTS = Place("user", OWNER, "fact")
ALL_TASKS = {"index": 99, "unindex": 99, "embed": 99, "extract": 99, "judge": 99}
LATER = DAY + timedelta(days=200)
NEXT = "next"


def operation(function: Operation) -> Operation:
    """Register a function `part__method` as the case of this method of this part."""
    OPERATIONS[function.__name__.replace("__", ".")] = function
    return function


def calls(name: str, *args: Any, **options: Any) -> None:
    """Register one call of a part's method, with these arguments, as its case."""
    OPERATIONS[name] = lambda ledger, _: attrgetter(name.removeprefix("ledger."))(ledger)(
        *args, **options
    )


def at(minutes: int) -> Any:
    return DAY + timedelta(minutes=minutes)


async def by_id(ledger: Ledger, *ids: str) -> list[Record]:
    found = {one.id: one for one in await ledger.records.chain(*ids)}
    return [found[id_] for id_ in ids]


async def tasks(ledger: Ledger, **limits: int) -> list[Task]:
    return await ledger.backlog.claim(limits or ALL_TASKS, now=LATER)  # type: ignore[arg-type]


@operation
async def records__store(ledger: Ledger, marker: str) -> object:
    return await ledger.records.store(
        [
            record(f"Osmium of {marker}.", id="e1"),
            message(f"Osmium, says {marker}.", 1, id="m1", tasks=("extract",)),
            message(f"{marker} likes osmium.", 2, id="m2", session_id="s2"),
            record(f"Eve's osmium of {marker}.", id="e2", owner="eve"),
        ]
    )


calls("records.at", list(range(1, 200)))
calls("records.by_id", ["e1", "m1", "unknown"])


@operation
async def facts__store(ledger: Ledger, marker: str) -> object:
    return [
        await ledger.facts.store(
            fact(
                f"{value} of {marker}.",
                number,
                id=f"f{number}",
                topic="user.metal",
                tasks=("judge",),
            )
        )
        for number, value in enumerate(("Lead", "Gold", "Osmium"))
    ] + [await ledger.facts.store(fact(f"{marker} drinks tea.", 9, id="f9", importance=0.9))]


@operation
async def facts__topic(ledger: Ledger, _: str) -> object:
    return [await ledger.facts.topic("user", OWNER, "user.metal") for _ in range(2)]


calls("facts.topics_like", "user", OWNER, "user.metla")
calls("facts.history", "user", OWNER, "user.metal")
calls("records.chain", "f0", "e1", "nothing")
calls("records.users", 9)


@operation
async def facts__relate(ledger: Ledger, _: str) -> object:
    await ledger.facts.relate("f9", "contradicts", "f2")
    await ledger.facts.relate("f2", "derived_from", "m1")
    return await ledger.counts()


@operation
async def relations__add(ledger: Ledger, marker: str) -> object:
    seen: list[object] = []
    added = await ledger.relations.add(_supports(marker), lambda *both: seen.append(both))
    return added, seen


def _supports(marker: str) -> Relation:
    return Relation(source="f9", type="supports", target="e1", agent=marker, user=OWNER, at=DAY)


@operation
async def relations__of(ledger: Ledger, _: str) -> object:
    return [await ledger.relations.of(id_) for id_ in ("f9", "e1", "f2")]


@operation
async def facts__judge(ledger: Ledger, marker: str) -> object:
    await ledger.facts.store(fact(f"{marker} drinks coffee.", 10, id="f10", tasks=("judge",)))
    newer, older, other = await by_id(ledger, "f10", "f9", "f2")
    return await ledger.facts.judge(newer, replaces=[older], supports=[other], agent="judge")


@operation
async def facts__edit(ledger: Ledger, marker: str) -> object:
    await ledger.facts.store(fact(f"{marker} drinks wine.", 12, id="f12"))
    (older,) = await by_id(ledger, "f12")
    newer = fact(f"{marker} drinks water.", 13, id="f13")
    actor = Actor(agent="cli", user=OWNER, run="edit1")
    edited = await ledger.facts.edit(older, newer, f"A mistake of {marker}.", actor)
    return edited, await ledger.records.chain("f12")


@operation
async def facts__pin(ledger: Ledger, marker: str) -> object:
    facts = await by_id(ledger, "f9")
    reason = f"It matters to {marker}."
    return await ledger.facts.pin(facts, reason, ACTOR, LATER, pinned=True)


@operation
async def facts__withdraw(ledger: Ledger, marker: str) -> object:
    await ledger.facts.store(fact(f"{marker} drinks milk.", 11, id="f11"))
    facts = await by_id(ledger, "f11")
    return await ledger.facts.withdraw(facts, f"A mistake of {marker}.", ACTOR, LATER)


calls("facts.withdrawals", ["f11", "f9"])


@operation
async def turns__store(ledger: Ledger, marker: str) -> object:
    about = {"query_id": "q1", "turn": "t1"}
    written = []
    for number, answer in enumerate((f"Lead, {marker}.", f"Osmium, {marker}.")):
        turn = [
            record(f"Q: Densest?\nA: {answer}", number, id=f"te{number}", **about),
            message("Densest?", number, id="t1", **about),
            message(answer, number, id=f"ta{number}", role="assistant", **about),
        ]
        written.append(await ledger.turns.store(turn, derived_from=["f2"], shown=["f2"]))
    return written


@operation
async def turns__rate(ledger: Ledger, marker: str) -> object:
    for query_id, score in (("q1", 0.5), ("q9", -0.5)):
        rating = Rating(owner=OWNER, query_id=query_id, session_id=None, score=score,
                        comment=marker, event_time=at(5))  # fmt: skip
        await ledger.turns.rate(rating)
    return await by_id(ledger, "te1", "ta1")


calls("records.shown", ["te1", "f2", "e2"], excluded_turn=None, characters=50)


@operation
async def unreported__store(ledger: Ledger, marker: str) -> object:
    return await ledger.unreported.store(
        message(f"Which metal, {marker}?", 20, id="r1", pending=True, query_id="q5")
    )


@operation
async def conversations__store(ledger: Ledger, marker: str) -> object:
    first = message(f"One, {marker}.", 30, id="c1", alias="c1*")
    second = message(f"Two, {marker}.", 31, id="c2", alias="c2*")
    edited = msgspec.structs.replace(second, content=f"Two, edited by {marker}.")
    late = message(f"One and a half, {marker}.", 30, id="c1.5", alias="c1.5*")
    return [
        await ledger.conversations.store(one)
        for one in ([first, second], [first, late, edited], [first, late, edited])
    ]


@operation
async def documents__store(ledger: Ledger, marker: str) -> object:
    fields: dict[str, Any] = {
        "kind": "document_chunk",
        "scope": "tenant",
        "owner": "",
        "session_id": None,
        "label": "Metals",
    }
    return [
        await ledger.documents.store(
            "metals.md",
            [
                record(
                    f"{text} {n} {marker}.", id=f"{text}{n}", source_ref=f"metals.md#{n}", **fields
                )
                for n in range(1, count)
            ],
        )
        for text, count in (("Osmium", 4), ("Iridium", 2))
    ]


calls("documents.read", "metals.md", 0, 100)


@operation
async def items__put(ledger: Ledger, marker: str) -> object:
    puts = [
        item("osmium", {"says": marker}, f"Dense, says {marker}.", id="i1"),
        item("lead", {"says": marker}, f"Soft, says {marker}.", id="i2"),
        item("gold", {"says": marker}),
    ]
    first = await ledger.items.put(ITEMS, puts, STORING)
    again = [
        item("osmium", {"says": f"{marker}!"}, f"Denser, says {marker}.", id="i3"),
        item("gold"),
    ]
    return first, await ledger.items.put(ITEMS, again, STORING)


@operation
async def items__get(ledger: Ledger, _: str) -> object:
    keys = [item(key).put for key in ("osmium", "gold", "nothing")]
    return await ledger.items.get(ITEMS, keys)


@operation
async def items__within(ledger: Ledger, _: str) -> object:
    exact = ItemSelection(namespace=("metals",), exact=True)
    return [await ledger.items.within(ITEMS, one) for one in (ItemSelection(), exact)]


calls("items.keys", ITEMS, ItemSelection(namespace=("metals",), offset=1))
calls("items.of_records", ITEMS, ["i1", "i2", "i3"], ItemSelection())
calls("items.namespaces", ITEMS, (), list)


@operation
async def items__delete(ledger: Ledger, _: str) -> object:
    one = await ledger.items.delete(ITEMS, [item("lead").put], [], STORING)
    return one, await ledger.items.delete(ITEMS, [], [("metals",)], STORING)


@operation
async def knowledge__store(ledger: Ledger, marker: str) -> object:
    triplets = [
        Triplet(subject="Ada", predicate="knows", object=f"Grace {marker}"),
        Triplet(subject="ADA", predicate="wrote to", object=f"Grace {marker}"),
        Triplet(subject="Ada", predicate="is also known as", object=f"Countess {marker}"),
    ]
    return await ledger.knowledge.store(
        [
            TripletFact(triplet=one, record=_stated(one, f"k{n}"), alias="known" in one.predicate)
            for n, one in enumerate(triplets)
        ]
    )


def _stated(triplet: Triplet, id_: str) -> NewRecord:
    return fact(triplet.sentence(), id=id_, metadata={"triplet": msgspec.to_builtins(triplet)})


calls("knowledge.aliases_in", "Where is Ada?", [("user", OWNER)])


@operation
async def knowledge__naming(ledger: Ledger, _: str) -> object:
    places: list[Any] = [("user", OWNER), ("tenant", "")]
    return [await ledger.knowledge.naming(name, places, 9) for name in ("ada", None)]


@operation
async def documents__listed(ledger: Ledger, _: str) -> object:
    return [await ledger.documents.listed(1, after) for after in (None, "metals.md")]


calls("documents.chunks", "metals.md", 0, 9)


@operation
async def knowledge__forget_held(ledger: Ledger, _: str) -> object:
    ledger.knowledge.forget_held()
    return await ledger.knowledge.aliases_in("Where is Ada?", [("user", OWNER)])


@operation
async def showings__add(ledger: Ledger, marker: str) -> object:
    shown = (ShownRecord("e1", 0.5), ShownRecord("m1"))
    recalls = [
        Showing(owner=OWNER, session_id="s1", query_id="q1", question=f"{marker}?", shown_at=at(n),
                records=shown)
        for n in range(3)
    ]  # fmt: skip
    await ledger.showings.add(recalls)
    return recalls


@operation
async def showings__find(ledger: Ledger, _: str) -> object:
    asked = {"session": "s1", "query": "q1", "record": "e1"}
    found = []
    for of, name in asked.items():
        wanted = ShowingFilter(owners=(OWNER, ""), of=of, name=name)  # type: ignore[arg-type]
        found += await ledger.showings.find(wanted, 9)
    return [msgspec.structs.replace(showing, row=0) for showing in found]


calls("showings.drop_logged", before=at(1), limit=9)


@operation
async def notes__store(ledger: Ledger, marker: str) -> object:
    def merge(notes: Any) -> Note | None:
        if len(notes) < 2:
            return None
        return Note(position=notes[-1].position, role="user", content=f"All of {marker}.",
                    event_time=DAY, merges=2)  # fmt: skip

    return [
        await ledger.notes.store(SESSION, "user", f"Note {n} of {marker}.", at(n), merge=merge)
        for n in range(4)
    ]


@operation
async def outputs__store(ledger: Ledger, marker: str) -> object:
    part = OutputPart(key=KEY, offset=0, text=f"Long {marker}.")
    return [
        await ledger.outputs.store(OWNER, one)
        for one in (part, msgspec.structs.replace(part, offset=len(part.text), last=True), part)
    ]


calls("outputs.read", OWNER, KEY, 2, 100)


@operation
async def sessions__load(ledger: Ledger, _: str) -> object:
    important = FactSelection(places=(("user", OWNER),), types=("fact",), least=0.4, limit=9)
    return await ledger.sessions.load(SESSION, 4, [important], lambda stored: stored)


@operation
async def sessions__important(ledger: Ledger, _: str) -> object:
    important = FactSelection(
        places=(("user", OWNER), ("tenant", "")), types=(), least=0.0, limit=9
    )
    standing = FactSelection(
        places=(("user", OWNER), ("tenant", "")), types=(), least=1.0, limit=9, group="standing"
    )
    return await ledger.sessions.important([important, standing])


@operation
async def backlog__claim(ledger: Ledger, _: str) -> object:
    return [await tasks(ledger, **{kind: 5}) for kind in ALL_TASKS for _ in range(3)]


@operation
async def backlog__give_back(ledger: Ledger, _: str) -> object:
    await ledger.backlog.give_back(await tasks(ledger, judge=2))
    return await tasks(ledger, judge=9)


@operation
async def backlog__claimed_work(ledger: Ledger, _: str) -> object:
    async with ledger.backlog.claimed_work("consolidation") as may_do:
        return may_do


calls("backlog.counts")


@operation
async def backlog__postpone(ledger: Ledger, marker: str) -> object:
    (task, *_) = await tasks(ledger, judge=1)
    await ledger.backlog.postpone(task, f"{marker} is late.", not_before=at(60))
    return await ledger.backlog.counts()


calls("backlog.next_due", "judge", "index")


@operation
async def backlog__set_aside(ledger: Ledger, marker: str) -> object:
    for task in await tasks(ledger, judge=2):
        await ledger.backlog.set_aside(task, f"{marker} fails.")
    return await ledger.backlog.counts()


calls("backlog.failed", "judge", 9)
calls("backlog.discard", "judge", ids=["f1", "unknown"])


@operation
async def backlog__try_again(ledger: Ledger, _: str) -> object:
    tried = await ledger.backlog.try_again("judge")
    return tried, await ledger.backlog.counts(), await tasks(ledger, judge=9)


@operation
async def backlog__finish(ledger: Ledger, _: str) -> object:
    await ledger.backlog.finish(await tasks(ledger, judge=1))
    return await ledger.backlog.counts()


@operation
async def extraction__messages(ledger: Ledger, _: str) -> object:
    return await ledger.extraction.messages(await tasks(ledger, extract=9))


calls("extraction.related", ["f1", "f2", "unknown"])


@operation
async def extraction__similar(ledger: Ledger, marker: str) -> object:
    return await ledger.extraction.similar(
        [fact(f"{marker} drinks Osmium tea.", topic="user.metal")]
    )


@operation
async def extraction__store(ledger: Ledger, marker: str) -> object:
    made = fact(f"{marker} likes osmium most.", 40, id="x1", metadata={"extracted_from": ["m1"]})
    relation = FactRelation(type="supports", target="f10")
    found = ExtractedFact(record=made, sources=["m1"], replaces=["f2"], relations=[relation])
    waiting = await tasks(ledger, extract=9)
    return await ledger.extraction.store([found], waiting, sources=["m1"], owners=[OWNER])


@operation
async def index__waiting(ledger: Ledger, _: str) -> object:
    return await ledger.index.waiting(await tasks(ledger, index=99), embedder=EMBEDDER)


@operation
async def index__store_vectors(ledger: Ledger, marker: str) -> object:
    waiting = await ledger.index.waiting(await tasks(ledger, index=99), embedder=EMBEDDER)
    vectors = [angle(10.0 * n + (45 if marker != "A" else 0)) for n in range(len(waiting))]
    await ledger.index.store_vectors(waiting, vectors, EMBEDDER)
    return await ledger.counts()


@operation
async def index__sample_indexed(ledger: Ledger, _: str) -> object:
    sample = await ledger.index.sample_indexed(99, embedder=EMBEDDER)
    return sorted(sample, key=lambda one: one.row)


calls("index.indexed")


@operation
async def index__compare_ids(ledger: Ledger, _: str) -> object:
    return [sorted(ids) for ids in await ledger.index.compare_ids({"e1", "m2", "nobody's"})]


@operation
async def index__queue(ledger: Ledger, _: str) -> object:
    await ledger.index.queue(["e1", "m1", "nobody's"])
    await ledger.index.queue(["e1", "f10"], kind="embed")
    return await ledger.backlog.counts()


calls("index.count_to_embed")


@operation
async def index__drop_embed_tasks(ledger: Ledger, _: str) -> object:
    ledger.index.next = NEXT
    waiting = await ledger.index.waiting(await tasks(ledger, index=1), embedder=EMBEDDER)
    await ledger.index.store_vectors(waiting, [], EMBEDDER)
    embedding = await tasks(ledger, embed=9)
    await ledger.index.drop_embed_tasks()
    ledger.index.next = None
    return embedding, await ledger.backlog.counts()


@operation
async def searches__expect(ledger: Ledger, _: str) -> object:
    ledger.searches.expect(EMBEDDER)
    return await ledger.searches.has_waiting(searching("osmium"))


@operation
async def searches__find(ledger: Ledger, _: str) -> object:
    found = []
    for terms in (("osmium",), ("drinks", "coffee"), ("densest",)):
        for fields in ({}, {"only_session": "s1"}, {"as_of": at(9)}, {"topics": ("user.metal",)}):
            seen = await find(ledger, searching(*terms, **fields))
            found.append((terms, fields, list(seen.records.values()), seen.found.counts))
    return found


@operation
async def searches__may_find(ledger: Ledger, _: str) -> object:
    search = searching("osmium")
    return sum([await ledger.searches.may_find(search, row) for row in range(1, 200)])


calls("searches.has_waiting", searching("osmium"))


@operation
async def searches__prepare(ledger: Ledger, _: str) -> object:
    await ledger.searches.prepare(NEXT)
    return await ledger.counts()


@operation
async def searches__forget_held(ledger: Ledger, _: str) -> object:
    ledger.searches.forget_held()
    return list((await find(ledger, searching("osmium"))).records.values())


@operation
async def upkeep__next_place(ledger: Ledger, _: str) -> object:
    places, place = [], await ledger.upkeep.next_place(None)
    while place is not None:
        places.append(place)
        place = await ledger.upkeep.next_place(place)
    return places


calls("upkeep.count", FACTS)
calls("upkeep.facts", FACTS, 0, 99)


@operation
async def upkeep__add_access(ledger: Ledger, _: str) -> object:
    every = range(1, 500)
    await ledger.upkeep.add_access([Access(row=row, times=2, last=at(50)) for row in every])
    return await ledger.upkeep.facts(FACTS, 0, 99)


calls("upkeep.facts_at", list(range(1, 500)))


@operation
async def upkeep__contradictions(ledger: Ledger, _: str) -> object:
    await ledger.facts.relate("x1", "contradicts", "f10")
    return await ledger.upkeep.contradictions(await ledger.upkeep.facts(FACTS, 0, 99))


@operation
async def upkeep__vectors(ledger: Ledger, _: str) -> object:
    found = await ledger.upkeep.vectors(list(range(1, 500)))
    return [
        [(embedder, vector.tolist()) for embedder, vector in vectors.items()]
        for vectors in found.values()
    ]


@operation
async def upkeep__begin(ledger: Ledger, _: str) -> object:
    await ledger.upkeep.begin("run1", at(70))
    return await ledger.counts()


@operation
async def upkeep__carry_out(ledger: Ledger, marker: str) -> object:
    facts = {one.id: one for one in await ledger.upkeep.facts(FACTS, 0, 99)}
    changes = [
        Change(action="importance", fact=facts["x1"], reason=marker, importance=0.7),
        Change(action="merged", fact=facts["k0"], reason=marker, superseded_by="k1"),
        Change(action="archived", fact=facts["f10"], reason=marker),
    ]
    return await ledger.upkeep.carry_out(changes, ACTOR)


@operation
async def upkeep__end(ledger: Ledger, _: str) -> object:
    await ledger.upkeep.end("run1", at(71), changed=3, failed=0)
    return await ledger.counts()


calls("upkeep.last_run", at(72))


@operation
async def audit__deny(ledger: Ledger, marker: str) -> object:
    caller = Caller(tenant=ledger.tenant, user=OWNER, agent="cli")
    await ledger.audit.deny("forget", caller, f"A reader may not ({marker}).", at(73))
    return await ledger.audit.page(lambda row: row.action == "denied", 50)


@operation
async def audit__page(ledger: Ledger, _: str) -> object:
    of_run = await ledger.audit.page(lambda _: True, 50, run="run1")
    of_record = await ledger.audit.page(lambda _: True, 50, record_id="f10")
    return await ledger.audit.page(lambda _: True, 50), of_run, of_record


@operation
async def audit__undo(ledger: Ledger, _: str) -> object:
    page = await ledger.audit.page(lambda _: True, 50, run="run1")
    return await ledger.audit.undo(page.rows, Actor(agent="cli", user=OWNER, run="run2"))


@operation
async def relations__remove(ledger: Ledger, marker: str) -> object:
    return await ledger.relations.remove(_supports(marker), lambda *_: None)


@operation
async def browsing__page(ledger: Ledger, marker: str) -> object:
    every: frozenset[RecordState] = frozenset(get_args(RecordState))
    wanted = [
        BrowseFilter(states=every),
        BrowseFilter(states=every, places=(FACTS,)),
        BrowseFilter(states=every, terms=("osmium",)),
        BrowseFilter(states=every, terms=("osmium", marker)),
    ]
    return [await ledger.browsing.page(one, 99, None) for one in wanted]


@operation
async def browsing__counts(ledger: Ledger, _: str) -> object:
    return [await ledger.browsing.counts(places) for places in (None, (FACTS,))]


@operation
async def browsing__growth(ledger: Ledger, _: str) -> object:
    return [await ledger.browsing.growth(places, DAY) for places in (None, (FACTS,))]


@operation
async def browsing__sessions(ledger: Ledger, _: str) -> object:
    return [await ledger.browsing.sessions(owners, 9, None) for owners in (None, (OWNER, "eve"))]


@operation
async def exports__count(ledger: Ledger, _: str) -> object:
    return [await ledger.exports.count(ExportFilter(places=places)) for places in (None, (FACTS,))]


@operation
async def exports__page(ledger: Ledger, _: str) -> object:
    wanted = (ExportFilter(vectors=True), ExportFilter(places=(FACTS,), owner=OWNER))
    return [parsed(await lines(ledger, one)) for one in wanted]


@operation
async def imports__store(ledger: Ledger, marker: str) -> object:
    found = parsed(await lines(ledger, ExportFilter(vectors=True)))
    new = [
        msgspec.structs.replace(
            one, id=f"{one.id}!", content=f"{one.content} Imported by {marker}."
        )
        for one in found
        if isinstance(one, RecordLine) and one.id in {"e1", "f10"}
    ]
    return [await ledger.imports.store(some, IMPORTER) for some in (found, [*new], [*new])]


@operation
async def index__keep_vectors_of(ledger: Ledger, _: str) -> object:
    await ledger.index.keep_vectors_of(EMBEDDER)
    before = await ledger.index.sample_indexed(99, embedder=EMBEDDER)
    await ledger.index.keep_vectors_of("nobody's")
    return len(before), await ledger.index.sample_indexed(99, embedder=EMBEDDER)


@operation
async def index__queue_all(ledger: Ledger, _: str) -> object:
    await ledger.index.queue_all()
    return await ledger.backlog.counts()


@operation
async def erasures__select(ledger: Ledger, _: str) -> object:
    selections: tuple[dict[str, Any], ...] = (
        {"session_id": "s1"},
        {"topic": "user.metal"},
        {"id": "e1"},
        {"id": "c2"},
        {},
    )
    return [await ledger.erasures.select(Selection(owner=OWNER, **one)) for one in selections]


@operation
async def erasures__erase(ledger: Ledger, _: str) -> object:
    erased = await erase(ledger, Selection(owner=OWNER, session_id="s1"))
    return len(erased.rows), sorted(erased.ids), sorted(erased.samples)


@operation
async def erasures__traces(ledger: Ledger, _: str) -> object:
    erased = await erase(ledger, Selection(owner=OWNER, id="m2"))
    return await ledger.erasures.traces(erased)


@operation
async def erasures__chosen_among(ledger: Ledger, _: str) -> object:
    return sorted(s.session_id or "" for s, _ in await ledger.erasures.chosen_among({"none"}))


@operation
async def erasures__lift(ledger: Ledger, marker: str) -> object:
    again = message(f"{marker} likes osmium.", 2, id="m2", session_id="s2")
    refused = await ledger.records.store([again])
    await ledger.erasures.lift([again])
    return refused, await ledger.records.store([again])


@operation
async def erasures__scrub(ledger: Ledger, _: str) -> object:
    await ledger.erasures.scrub()
    return await ledger.counts()


calls("erasures.count_to_anonymise", LATER + timedelta(days=999))
calls("erasures.to_anonymise", LATER, 99)


@operation
async def erasures__anonymise(ledger: Ledger, marker: str) -> object:
    before = LATER + timedelta(days=999)
    return await ledger.erasures.anonymise(before=before, limit=99, agent=marker, at=LATER)


@operation
async def records__some_said(ledger: Ledger, _: str) -> object:
    said = await ledger.records.some_said(99)
    assert said is not None
    return said.texts  # the version is of all tenants


calls("records.usage")


@operation
async def vectors__serve(ledger: Ledger, marker: str) -> object:
    if ledger.vectors is not None:
        await ledger.vectors.serve(EMBEDDER + marker)
    return None


@operation
async def vectors__begin_next(ledger: Ledger, _: str) -> object:
    if ledger.vectors is not None:
        await ledger.vectors.begin_next(NEXT)
    return None


@operation
async def vectors__embedders(ledger: Ledger, _: str) -> object:
    return ledger.vectors and await ledger.vectors.embedders()


@operation
async def vectors__take_over(ledger: Ledger, _: str) -> object:
    return ledger.vectors and await ledger.vectors.take_over(NEXT)


@operation
async def vectors__count(ledger: Ledger, _: str) -> object:
    return ledger.vectors and await ledger.vectors.count(EMBEDDER)


@operation
async def vectors__ids(ledger: Ledger, _: str) -> object:
    return ledger.vectors and await ledger.vectors.ids(EMBEDDER, 0, 99)


@operation
async def vectors__held(ledger: Ledger, _: str) -> object:
    return ledger.vectors and sorted(await ledger.vectors.held(["e1", "m1", "f1", "nobody's"]))


@operation
async def ledger__index_vectors(ledger: Ledger, _: str) -> object:
    await ledger.index_vectors(EMBEDDER)
    return None


@operation
async def ledger__server_bytes(ledger: Ledger, _: str) -> object:
    return await ledger.server_bytes() is not None


calls("ledger.live_stacks")
calls("ledger.counts")
calls("ledger.problems")
