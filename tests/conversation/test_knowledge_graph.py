"""Triplets are added directly or extracted from text, by a model or rules, and are messages."""

import json
import threading
from collections.abc import AsyncIterator

import msgspec
import pytest

from local2.conversation import knowledge_graph
from local2.conversation.knowledge_graph import PIECE_CHARACTERS, KGMemory
from local2.conversation.message import Message
from local2.errors import ConversationError, ModelError, ModelRefusedError
from local2.llm.ollama import OllamaModel
from local2.protocol.memories import Triplet
from local2.protocol.memory_tools import MAX_PART
from stand_ins.ollama_server import OllamaStandIn, Reply

ADA = ("Ada", "works for", "Northwind")
BOSS = ("Zoltan Kiss", "runs", "Northwind")
USER = "the user"


@pytest.fixture
def graph() -> KGMemory:
    return KGMemory(description="You know things.")


@pytest.fixture
async def model(ollama: OllamaStandIn) -> AsyncIterator[OllamaModel]:
    opened = await OllamaModel.open(
        "gemma4", temperature=0.7, context_size=4096, url=ollama.url, needs="completion"
    )
    yield opened
    await opened.close()


def triplet(subject: str, predicate: str, object_: str) -> Triplet:
    return Triplet(subject=subject, predicate=predicate, object=object_)


def facts_of(graph: KGMemory) -> list[tuple[str, ...]]:
    return [(fact.subject, fact.predicate, fact.object) for fact in graph.triplets]


def facts_reply(*facts: tuple[str, str, str]) -> dict[str, object]:
    """Return a model's reply with these facts."""
    names = ("subject", "predicate", "object")
    return {"facts": [dict(zip(names, fact, strict=True)) for fact in facts]}


def test_add_fact_adds_a_message_with_the_fact(graph: KGMemory) -> None:
    message_id = graph.add_fact("user", *ADA)

    assert graph.triplets == [triplet(*ADA)]
    fact = {"role": "user", "content": "Ada works for Northwind."}
    assert graph.retrieve_by_id(message_id) == fact
    assert graph.get_messages() == [{"role": "system", "content": "You know things."}, fact]
    assert graph.retrieve_by_role("user") == graph.retrieve_recent() == [fact]


def test_add_fact_ignores_a_duplicate_that_differs_in_case(graph: KGMemory) -> None:
    first = graph.add_fact("user", *ADA)

    assert graph.add_fact("assistant", "ADA", "works_for", " Northwind") == first
    assert len(graph.triplets) == 1


@pytest.mark.parametrize(
    ("fact", "problem"),
    [
        (("robot", *ADA), "'robot' is not a role"),
        (("user", "", "runs", "Northwind"), "subject of the fact is blank"),
        (("user", "Ada", "\n", "Northwind"), "predicate of the fact is blank"),
        (("user", "Ada", "runs", " "), "object of the fact is blank"),
    ],
)
def test_add_fact_refuses_an_invalid_fact(
    graph: KGMemory, fact: tuple[str, str, str, str], problem: str
) -> None:
    with pytest.raises(ConversationError, match=problem):
        graph.add_fact(*fact)
    assert graph.triplets == []


def test_facts_are_removed_changed_and_added_again_like_messages(graph: KGMemory) -> None:
    ada, boss = graph.add_fact("user", *ADA), graph.add_fact("user", *BOSS)

    graph.remove_by_id(ada)
    assert facts_of(graph) == [BOSS]
    assert graph.add_fact("user", *ADA) != ada

    graph.update(boss, content="Nobody runs Northwind.")
    assert facts_of(graph) == [ADA]
    assert graph.add_fact("user", *BOSS) != boss

    graph.delete_memory(-1)
    assert facts_of(graph) == [ADA]
    graph.reset_memory()
    assert graph.triplets == []
    assert graph.get_messages() == [{"role": "system", "content": "You know things."}]
    graph.add_fact("user", *ADA)
    assert facts_of(graph) == [ADA]


def test_other_messages_are_not_facts(graph: KGMemory) -> None:
    graph.add(role="user", content="Ada works for Northwind.")
    graph.add(Message(role="assistant", content="Done.", structured_data={"subject": "Ada"}))

    assert graph.triplets == []
    assert len(graph) == 3


def test_a_fact_added_as_a_message_is_recognised(graph: KGMemory) -> None:
    graph.add_fact("user", *BOSS)
    message = Message(
        role="user",
        content="Ada works for Northwind.",
        structured_data={"subject": "Ada", "predicate": "works for", "object": "Northwind"},
    )
    graph.add(message)

    assert graph.add_fact("user", *ADA) == message.message_id
    assert facts_of(graph) == [BOSS, ADA]


def test_a_fact_added_twice_keeps_the_id_of_its_first_message(graph: KGMemory) -> None:
    first = graph.add_fact("user", *ADA)
    again = graph.messages[-1]
    graph.add(msgspec.structs.replace(again, message_id="again"))

    graph.add_fact("user", *BOSS)
    graph.update(graph.messages[0].message_id, content="You know a thing or two.")

    assert graph.add_fact("user", *ADA) == first


def test_a_snapshot_restores_the_facts(graph: KGMemory) -> None:
    ada = graph.add_fact("user", *ADA)
    other = KGMemory()
    other.add_fact("user", *BOSS)

    other.restore(graph.snapshot())

    assert facts_of(other) == [ADA]
    assert other.add_fact("user", *ADA) == ada


async def test_extract_and_update_from_text_asks_the_model(
    ollama: OllamaStandIn, model: OllamaModel
) -> None:
    graph = KGMemory(model)
    graph.add_fact("user", *BOSS)
    ollama.script_json(facts_reply(ADA, BOSS, ("  Ada", "plays", "chess ")))

    new = await graph.extract_and_update_from_text("Ada, of Zoltan's firm, plays.", "assistant")

    assert new == [triplet(*ADA), triplet("Ada", "plays", "chess")]
    assert graph.retrieve_by_role("assistant", 1)[0]["content"] == "Ada plays chess."
    _, request = ollama.bodies("/api/chat")[0]["messages"]
    assert json.loads(request["content"]) == {
        "speaker": "the assistant",
        "known_names": ["Zoltan Kiss", "Northwind"],
        "text": "Ada, of Zoltan's firm, plays.",
    }


async def test_facts_with_blank_or_endless_parts_are_ignored(
    ollama: OllamaStandIn, model: OllamaModel
) -> None:
    graph = KGMemory(model)
    endless = ("Ada", "said", "x" * (MAX_PART + 1))
    ollama.script_json(facts_reply(("", "runs", "Northwind"), endless, ADA))

    assert await graph.extract_and_update_from_text("Ada.", "user") == [triplet(*ADA)]


async def test_a_long_text_is_read_completely_in_pieces(
    ollama: OllamaStandIn, model: OllamaModel
) -> None:
    text = "\n".join(f"Clerk {n} works for Northwind." for n in range(500))
    ollama.script_json(*(facts_reply((f"Piece {n}", "is", "read")) for n in range(3)))

    new = await KGMemory(model).extract_and_update_from_text(text, "user")

    texts = [
        json.loads(body["messages"][1]["content"])["text"] for body in ollama.bodies("/api/chat")
    ]
    assert [fact.subject for fact in new] == ["Piece 0", "Piece 1", "Piece 2"]
    assert all(len(piece) <= PIECE_CHARACTERS for piece in texts)
    assert "\n".join(texts) == text


@pytest.mark.parametrize(
    "text", ["x" * (2 * PIECE_CHARACTERS + 1), f"{'x' * PIECE_CHARACTERS}\n" * 2]
)
async def test_a_text_without_a_line_break_to_cut_at_is_read_completely(
    ollama: OllamaStandIn, model: OllamaModel, text: str
) -> None:
    ollama.script_json(*(facts_reply() for _ in range(5)))

    await KGMemory(model).extract_and_update_from_text(text, "user")

    texts = [
        json.loads(body["messages"][1]["content"])["text"] for body in ollama.bodies("/api/chat")
    ]
    assert "".join(texts) == text.replace("\n", "")


@pytest.mark.parametrize("text", ["", " \n"])
async def test_the_model_is_not_queried_for_a_blank_text(
    ollama: OllamaStandIn, model: OllamaModel, text: str
) -> None:
    assert await KGMemory(model).extract_and_update_from_text(text, "user") == []
    assert ollama.bodies("/api/chat") == []


async def test_a_model_failure_on_a_later_piece_raises_and_adds_nothing(
    ollama: OllamaStandIn, model: OllamaModel
) -> None:
    graph = KGMemory(model)
    ollama.script_json(facts_reply(ADA), Reply(content="no"), Reply(content="no"))

    with pytest.raises(ModelRefusedError):
        await graph.extract_and_update_from_text("Ada works. " * 1_000, "user")
    assert graph.triplets == []

    ollama.stop()
    with pytest.raises(ModelError):
        await graph.extract_and_update_from_text("Ada works for Northwind.", "user")
    assert graph.triplets == [], "rules do not replace a missing model"


async def test_an_unknown_role_is_refused_before_the_model_is_queried(
    ollama: OllamaStandIn, model: OllamaModel
) -> None:
    with pytest.raises(ConversationError, match="is not a role"):
        await KGMemory(model).extract_and_update_from_text("Ada works.", "robot")
    assert ollama.bodies("/api/chat") == []


async def test_without_a_model_rules_read_the_text(graph: KGMemory) -> None:
    text = "Ada works for Northwind. I like her.\nThe boss of Northwind is Zoltan Kiss."

    new = await graph.extract_and_update_from_text(text, "user")
    again = await graph.extract_and_update_from_text(text, "user")

    assert new == [triplet(*ADA), triplet("Northwind", "has the boss", "Zoltan Kiss")]
    assert again == []


async def test_rules_read_text_outside_the_event_loop(
    graph: KGMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_by: list[int] = []

    def extract(_text: str, _speaker: str) -> list[Triplet]:
        read_by.append(threading.get_ident())
        return [triplet(*ADA)]

    monkeypatch.setattr(knowledge_graph, "extract_facts", extract)

    assert await graph.extract_and_update_from_text("Ada works.", "user") == [triplet(*ADA)]
    assert read_by != [threading.get_ident()]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("Ada's employer is Northwind.", [("Ada", "has the employer", "Northwind")]),
        ("Ada\u2019s employer is Northwind", [("Ada", "has the employer", "Northwind")]),
        ("Zoltan Kiss is the boss of it.", []),
        ("Rome is in Italy.", [("Rome", "is in", "Italy")]),
        ("Rex is a dog and belongs to me.", [("Rex", "is a", "dog"), ("Rex", "belongs to", USER)]),
        ("I live in Rome and work for Contoso.", [
            (USER, "lives in", "Rome"), (USER, "works for", "Contoso"),
        ]),
        ("I am from Rome and I work at Contoso.", [
            (USER, "is from", "Rome"), (USER, "works at", "Contoso"),
        ]),
        ("Ada lives in Rome and Bob lives in Oslo.", [
            ("Ada", "lives in", "Rome"), ("Bob", "lives in", "Oslo"),
        ]),
        ("I like Ada and my dog likes cheese.", [
            (USER, "likes", "Ada"), ("the user's dog", "likes", "cheese"),
        ]),
        ("I like Ada and she likes me.", [(USER, "likes", "Ada")]),
        ("Ada has cats and dogs and is happy.", [
            ("Ada", "has", "cats and dogs"), ("Ada", "is", "happy"),
        ]),
        ("Ada and I are friends.", [(f"Ada and {USER}", "are", "friends")]),
        ("Rex is the dog I own.", [("Rex", "is the", f"dog {USER} owns")]),
        ("i like tea", [(USER, "likes", "tea")]),
        ("My name is Richard.", [(USER, "has the name", "Richard")]),
        ("My dog likes cheese.", [("the user's dog", "likes", "cheese")]),
        ("I'm a plumber!", [(USER, "is a", "plumber")]),
        ("Remember that Ada plays chess, because she won.", [("Ada", "plays", "chess")]),
        ("Dr. Smith lives in Oslo. Bob lives in NY. Ed owns a boat.", [
            ("Dr. Smith", "lives in", "Oslo"), ("Bob", "lives in", "NY"), ("Ed", "owns a", "boat"),
        ]),
    ],
)  # fmt: skip
async def test_rules_extract_plain_statements(
    graph: KGMemory, text: str, facts: list[tuple[str, ...]]
) -> None:
    await graph.extract_and_update_from_text(text, "user")

    assert facts_of(graph) == facts


@pytest.mark.parametrize(
    "text",
    [
        "Does Ada work for Northwind?",
        "Ada is in Rome?",
        "Ada isn't in Rome.",
        "Ada never works for Northwind.",
        "I think Ada lives in Rome.",
        "If Ada lives in Rome, call her.",
        "Ada might live in Rome.",
        "It is cold. They live in Rome. Their house is red.",
        "We moved to Berlin.",
        "Ada hardly likes tea.",
        "Suppose Ada lives in Rome.",
        "Pretend that I am a pirate.",
        "Ada said Bob owns a car.",
        "Ada knows Bob is ill.",
        "Ada thinks she is ill.",
        "World War I was a war. Henry I was a king.",
        "A.I. is a field. Type I diabetes is a disease.",
        "Please call me tomorrow.",
        "Hello!",
        "",
        "Ada works for " + "Northwind " * 100,
    ],
)
async def test_rules_skip_questions_denials_doubts_suppositions_reports_and_unclear_text(
    graph: KGMemory, text: str
) -> None:
    await graph.extract_and_update_from_text(text, "user")

    assert graph.triplets == []
