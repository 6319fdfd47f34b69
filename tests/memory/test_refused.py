"""Wrong arguments of the tools are errors that name what is wrong, and nothing is written."""

import pytest

from calling import UNNAMED, ask
from local2.bus.connection import Connection
from local2.memory.tenant import Memory
from local2.protocol.payloads import Json

NO_SUCH_TIME = "0001-01-01T00:00:00+23:59"
FACT: Json = {"content": "Edits with Vim.", "scope": "user", "topic": "user.editor"}
EDGE: Json = {"source": "a", "type": "supports", "target": "b"}
CALL_WITHOUT_NAME: Json = {"type": "tool_use", "id": "t1", "input": {}}

WRONG: tuple[tuple[str, Json, tuple[tuple[Json, str], ...]], ...] = (
    ("recall", {}, (({}, "query"), ({"query": None}, "`query`"))),
    ("recall", {"query": "x"}, (
        ({"query": ""}, "query"),
        ({"query": " \n"}, "blank"),
        ({"query": "x" * 4_097}, "query"),
        ({"top_k": 0}, "top_k"),
        ({"top_k": 21}, "top_k"),
        ({"top_k": "five"}, "top_k"),
        ({"topic": None}, "`topic`"),
        ({"scope": "all"}, "scope"),
        ({"source_kinds": ["x"]}, "source_kinds"),
        ({"source_kinds": ["episode"]}, "source_kinds"),
        ({"source_kinds": []}, "source_kinds"),
        ({"since": "yesterday"}, "since"),
        ({"since": "2026-05-02T00:00:01Z", "until": "2026-05-02T02:00:00+02:00"}, "since"),
        ({"until": NO_SUCH_TIME}, "calendar"),
        ({"as_of": "yesterday"}, "as_of"),
        ({"as_of": NO_SUCH_TIME}, "as_of"),
        ({"as_of": "2026-05-01", "since": "2026-05-03"}, "since"),
        ({"min_relevance": -0.1}, "min_relevance"),
        ({"min_relevance": 1.1}, "min_relevance"),
        ({"min_relevance": "half"}, "min_relevance"),
        ({"user": "eve"}, "unknown field `user`"),
        ({"tenant": "other"}, "unknown field `tenant`"),
    )),
    ("search_memory", {"query": "x"}, (
        ({"query": " "}, "blank"),
        ({"query": "x" * 4_097}, "`query`"),
        ({"top_k": 0}, "`top_k`"),
        ({"top_k": 21}, "`top_k`"),
        ({"user": "eve"}, "unknown field `user`"),
    )),
    ("save_memory", {}, (
        ({"content": 7}, "`content`"),
        ({"content": ""}, "`content`"),
        ({"content": " "}, "blank"),
        ({"content": "x" * 65_537}, "`content`"),
    )),
    ("save_topic", {"topic": "user.name"}, (
        ({}, "`content`"),
        ({"content": "\n\t"}, "blank"),
        ({"content": "x", "topic": "user." + "x" * 200}, "`topic`"),
        ({"content": "x", "topic": "name"}, "topic: 'name' is not a topic key"),
    )),
    ("recall_topic", {}, (
        ({}, "`topic`"),
        ({"topic": "name"}, "is not a topic key"),
        ({"topic": "user.name", "tenant": "other"}, "unknown field `tenant`"),
    )),
    ("remember_fact", FACT, (
        ({"scope": "session"}, "scope"),
        ({"content": " "}, "content: the"),
        ({"topic": "x"}, "topic: 'x'"),
        ({"importance": 1.5}, "importance"),
        ({"durability": "long"}, "durability"),
        ({"memory_type": "x"}, "memory_type"),
        ({"user": "eve"}, "`user`"),
    )),
    ("memory_history", {}, (({"topic_or_id": ""}, "topic_or_id"),)),
    ("ingest", {}, (
        ({"messages": []}, "messages"),
        ({"messages": ["x"]}, "messages"),
        ({"messages": [{"role": "user"}]}, "neither"),
        ({"messages": [{"role": "user", "content": "x"}], "session_id": ""}, "session_id"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "c1"}]}]},
         "messages[0].tool_calls"),
        ({"messages": [{"role": "assistant", "content": [CALL_WITHOUT_NAME]}]},
         "messages[0].content[0]: the call has no name"),
        *(
            ({"messages": [{"role": "user", "content": "Hello.", **fields}]}, message)
            for fields, message in (
                ({"role": ""}, "messages[0].role: "),
                ({"timestamp": "noon"}, "messages[0].timestamp"),
                ({"timestamp": "2026-W22"}, "2026-05-01"),
                ({"timestamp": NO_SUCH_TIME}, "calendar"),
                ({"id": "x" * 257}, "messages[0].id"),
            )
        ),
    )),
    ("add_document", {"title": "House", "content": "It is red."}, (
        ({"content": ""}, "`content`"),
        ({"content": " \n\t"}, "content: the text is blank"),
        ({"title": ""}, "`title`"),
        ({"title": "  "}, "title: the text is blank"),
        ({"title": "x" * 101}, "`title`"),
        ({"source": ""}, "`source`"),
        ({"source": " "}, "source: the text is blank"),
        ({"scope": "user"}, "unknown field `scope`"),
    )),
    ("add_knowledge", {}, (
        ({"facts": [{"subject": "a", "predicate": " ", "object": "b"}]},
         "facts[0].predicate is blank"),
    )),
    ("relate", EDGE, (
        ({"type": "shares_entity"}, "type"),
        ({"type": "derived_from"}, "type"),
        ({"target": ""}, "target"),
        ({"user": "eve"}, "`user`"),
    )),
    ("forget", {}, (
        ({}, "Exactly one"),
        ({"everything": True, "id": "x"}, "Exactly one"),
        ({"topic": "no key"}, "is not a topic key"),
    )),
    ("audit", {}, (({"before": 2**63}, "before"),)),
    ("undo", {}, (({"run": "none"}, "none"),)),
)  # fmt: skip


@pytest.mark.usefixtures("tools")
async def test_wrong_arguments_are_refused_by_name_and_write_nothing(
    bus: Connection, memory: Memory
) -> None:
    unclear = []
    for tool, valid, cases in WRONG:
        for wrong, message in cases:
            error = (await ask(bus, tool, {**valid, **wrong})).error
            if not error or error.code != "invalid_arguments" or message not in error.message:
                unclear.append((tool, wrong, error))

    assert unclear == []
    nobody = await ask(bus, "forget", {"everything": True}, UNNAMED)
    assert nobody.error
    assert "user" in nobody.error.message
    assert (await memory.ledger.counts()).records == 0
