"""However often a question is asked, its source ranks above earlier answers to it."""

import json
from typing import Any

import pytest

from calling import caller_named
from indexed import indexed
from local2.bus.connection import Connection
from local2.bus.streams import publish_durably
from local2.client.tools import call_tool
from local2.memory.tenant import Memory
from turns import GENERATION, all_done, turn

pytestmark = pytest.mark.usefixtures("memory_agent", "tools", "searchable", "either_size")

CANBERRA = "The capital of Australia is Canberra, not Sydney."
QUESTION = "What do you remember about Australian geography?"
PARAPHRASES = (
    "According to our chat of last week, Canberra serves as the capital city of Australia.",
    "Geography quiz time! Canberra, rather than Sydney, is what you named as Australia's capital.",
    "You stressed that Sydney is wrong: Australia has Canberra as capital.",
)


async def say(bus: Connection, memory: Memory, query: str, answer: str, session: str) -> None:
    message = turn(query=query, answer=answer, session_id=session, query_id=session, tool_calls=[])
    await publish_durably(bus, GENERATION, message)
    await all_done(bus)
    await indexed(memory)


async def call(bus: Connection, tool: str, session: str, **args: Any) -> Any:
    caller = caller_named("richard", agent="model", session_id=session)
    return (await call_tool(bus, tool, args, caller=caller)).data


async def recall_contents(
    bus: Connection, query: str = QUESTION, session: str = "new"
) -> list[str]:
    items = (await call(bus, "recall", session, query=query, top_k=5))["items"]
    return [item["content"] for item in items]


async def search_contents(
    bus: Connection, query: str = QUESTION, session: str = "new"
) -> list[str]:
    hits = (await call(bus, "search_memory", session, query=query, top_k=5))["hits"]
    return [hit["content"] for hit in hits]


@pytest.mark.parametrize("paraphrased", [False, True])
async def test_a_statement_asked_for_in_fifteen_sessions_stays_first(
    bus: Connection, memory: Memory, *, paraphrased: bool
) -> None:
    await say(bus, memory, CANBERRA, "Understood.", "first")

    for number in range(15):
        hits = await search_contents(bus, session=f"s{number}")
        assert hits[0] == f"Q: {CANBERRA}\nA: Understood."
        quoted = f"Here is what I remember: {hits[0]}"
        answer = PARAPHRASES[number % 3] if paraphrased else quoted
        await say(bus, memory, QUESTION, answer, f"s{number}")

    assert (await recall_contents(bus))[0] == CANBERRA
    assert (await search_contents(bus))[0] == f"Q: {CANBERRA}\nA: Understood."


async def test_a_statement_made_after_refusals_ranks_above_them(
    bus: Connection, memory: Memory
) -> None:
    question = "What do you remember about my sister's allergy?"
    for number, refusal in enumerate(
        (
            "I remember nothing about that.",
            "I'm sorry, I don't have any information about your sister's allergy.",
            "I could not find any record of an allergy.",
        )
    ):
        await call(bus, "search_memory", f"s{number}", query=question)
        await say(bus, memory, question, refusal, f"s{number}")

    await say(bus, memory, "Ada must never eat peanuts.", "Understood.", "later")

    assert (await recall_contents(bus, question))[0] == "Ada must never eat peanuts."
    assert (await search_contents(bus, question))[
        0
    ] == "Q: Ada must never eat peanuts.\nA: Understood."


async def test_an_answer_is_found_by_what_it_adds(bus: Connection, memory: Memory) -> None:
    await say(bus, memory, CANBERRA, "Understood.", "first")
    await search_contents(bus, session="s1")
    added = "Canberra is the capital, not Sydney. Your flight to Perth leaves on Tuesday."
    await say(bus, memory, QUESTION, added, "s1")

    assert (await recall_contents(bus, "When does the flight to Perth leave?"))[0] == added
    assert (await recall_contents(bus))[0] == CANBERRA


async def test_a_mistyped_question_that_was_asked_before_finds_the_statement_not_itself(
    bus: Connection, memory: Memory
) -> None:
    booked, mistyped = "We have a table at the restaurant Roka.", "wat restaurnat is it?"
    await say(bus, memory, booked, "Noted.", "first")
    await say(bus, memory, "I work at Acme.", "Noted.", "s1")
    assert (await recall_contents(bus, mistyped, session="s1"))[0] == booked
    await say(bus, memory, mistyped, f"You said: {booked}", "s1")

    assert (await recall_contents(bus, mistyped))[0] == booked


async def test_an_answer_from_a_replaced_fact_is_marked_as_outdated(
    bus: Connection, memory: Memory
) -> None:
    question = "What language do I prefer?"
    await call(bus, "save_topic", "first", topic="user.language_preference", content="Elixir")
    await call(bus, "recall_topic", "s1", topic="user.language_preference")
    await say(bus, memory, question, "The language that you prefer is Elixir.", "s1")

    await call(bus, "save_topic", "s2", topic="user.language_preference", content="Python")
    await indexed(memory)

    assert (await recall_contents(bus, question))[0] == "Python"
    items = (await call(bus, "recall", "new", query=question, top_k=20))["items"]
    (standing,) = [item["id"] for item in items if item["content"] == "Python"]
    assert {item["outdated_by"] for item in items if "Elixir" in item["content"]} == {standing}


async def test_the_explanation_of_an_echo_shows_its_penalty(
    bus: Connection, memory: Memory
) -> None:
    await say(bus, memory, CANBERRA, "Understood.", "first")
    await search_contents(bus, session="s1")
    await say(bus, memory, QUESTION, PARAPHRASES[0], "s1")

    items = (await call(bus, "recall", "new", query=QUESTION, explain=True))["items"]

    (echo,) = [item for item in items if item["content"] == PARAPHRASES[0]]
    assert echo["explanation"]["shares"]["echo"] < 0
    assert echo["score"] <= items[0]["score"]


PAIRS = [
    (
        "What is the status of order 1001?",
        "Your order 1001 has been shipped and will arrive within three working days.",
        "What is the status of order 1002?",
        "Your order 1002 has been shipped and will arrive within three working days.",
    ),
    (
        "Is Anna vaccinated?",
        "Yes, Anna is fully vaccinated against measles.",
        "Is Tom vaccinated?",
        "Yes, Tom is fully vaccinated against measles.",
    ),
    (
        "Did build 41 pass?",
        "Build 41 passed all tests on the staging machine.",
        "Did build 42 pass?",
        "Build 42 passed all tests on the staging machine.",
    ),
    (
        "Which hotel did we book in Oslo?",
        "In Oslo you booked the Grand Hotel near the harbour.",
        "Which hotel did we book in Bergen?",
        "In Bergen you booked the Grand Hotel near the harbour.",
    ),
    (
        "Is the table users locked?",
        "The table users is locked by the nightly migration job.",
        "Is the table orders locked?",
        "The table orders is locked by the nightly migration job.",
    ),
]


@pytest.mark.parametrize("asked_again", [False, True], ids=["first time", "asked again"])
async def test_a_turn_like_one_that_was_shown_is_found_by_what_distinguishes_it(
    bus: Connection, memory: Memory, *, asked_again: bool
) -> None:
    for number, (question, answer, like_it, answer_like_it) in enumerate(PAIRS):
        second = f"second {number}"
        await say(bus, memory, question, answer, f"first {number}")
        await recall_contents(bus, like_it if asked_again else question, session=second)
        await say(bus, memory, like_it, answer_like_it, second)

    for question, answer, like_it, answer_like_it in PAIRS:
        assert (await recall_contents(bus, like_it))[0] == answer_like_it
        assert (await recall_contents(bus, question))[0] == answer
        assert f"Q: {like_it}\nA: {answer_like_it}" == (await search_contents(bus, like_it))[0]


async def test_a_question_like_one_that_was_shown_gives_its_place_to_its_own_reply(
    bus: Connection, memory: Memory
) -> None:
    question, answer, like_it, answer_like_it = PAIRS[0]
    await say(bus, memory, question, answer, "one session")
    await recall_contents(bus, question, session="one session")
    await say(bus, memory, like_it, answer_like_it, "one session")

    assert (await recall_contents(bus, like_it))[0] == answer_like_it
    assert (await recall_contents(bus, question))[0] == answer


async def test_looking_changes_neither_the_order_nor_the_marks_of_what_follows(
    bus: Connection, memory: Memory
) -> None:
    await say(bus, memory, "The release is on Tuesday.", "Noted, Tuesday.", "first")
    assert await search_contents(bus, "When is the release?", session="second")
    await say(bus, memory, "The release is on Friday.", "Noted, Friday.", "second")

    items = (await call(bus, "recall", "new", query="When is the release?"))["items"]
    statements = [item for item in items if item["content"].startswith("The release")]
    assert [item["content"] for item in statements] == [
        "The release is on Friday.",
        "The release is on Tuesday.",
    ]
    assert items[0] == statements[0]
    assert statements[1]["outdated_by"] == statements[0]["id"]


@pytest.mark.parametrize(
    "nod",
    [
        "Noted.",
        "Nice car!",
        "Understood, I will remember that.",
        "Nice, a blue Volvo, and you drive it yourself!",
        "What a lovely car!",
    ],
)
async def test_a_nod_ranks_below_everything_that_says_something(
    bus: Connection, memory: Memory, nod: str
) -> None:
    await say(bus, memory, "I drive a blue Volvo.", nod, "first")
    await say(bus, memory, "The garage opens at nine.", "Good to know.", "second")

    contents = await recall_contents(bus, "What car do I drive?")
    assert contents[0] == "I drive a blue Volvo."
    assert nod not in contents[: contents.index("The garage opens at nine.") + 1]


async def test_a_short_answer_to_a_question_is_no_nod(bus: Connection, memory: Memory) -> None:
    await say(bus, memory, "Is Anna vaccinated?", "Yes.", "first")

    assert (await recall_contents(bus, "Is Anna vaccinated?"))[0] == "Yes."


@pytest.mark.parametrize(
    ("said", "reply", "question"),
    [
        (
            "I need the code of the garage.",
            "The code is 4411.",
            "What is the code of the garage in Oslo?",
        ),
        ("My flight was cancelled.", "Rebooked on SK455.", "Was my flight to Oslo rebooked?"),
    ],
)
async def test_a_short_reply_that_gives_a_number_is_no_nod(
    bus: Connection, memory: Memory, said: str, reply: str, question: str
) -> None:
    await say(bus, memory, said, reply, "first")
    await say(bus, memory, "I drive a blue Volvo to Oslo.", "Noted.", "second")

    contents = await recall_contents(bus, question)
    assert contents.index(reply) < contents.index("I drive a blue Volvo to Oslo.")


async def test_search_memory_marks_what_is_outdated_as_recall_does(
    bus: Connection, memory: Memory
) -> None:
    for session, content in (
        ("first", "My rent is 900 euros."),
        ("second", "My rent is 950 euros."),
    ):
        await call(bus, "save_memory", session, content=content)
    await indexed(memory)

    hits = (await call(bus, "search_memory", "new", query="What is my rent?"))["hits"]

    assert [hit["content"] for hit in hits] == ["My rent is 950 euros.", "My rent is 900 euros."]
    assert hits[1]["outdated_by"] == hits[0]["id"]


FILLER = (
    "The choir rehearses in the church hall.",
    "Grandma is in room 214 of the Marienhospital.",
    "The kitchen will be painted sage green.",
    "I pay 49 euros for the train ticket.",
    "Tom brings the tent for the camping trip.",
)

OTHER_QUESTIONS = (
    ("Who maintains the billing service?", "The billing service is maintained by Ruth."),
    ("How tall is the Eiffel Tower?", "The Eiffel Tower is 324 metres tall."),
    ("Which Python version do we need for the parser?", "The parser needs Python 3.9."),
    ("What does a ticket to the aquarium cost?", "A ticket to the aquarium costs 18 euros."),
    ("How long do lentils boil?", "Lentils boil for 25 minutes."),
    ("Where is the spare key of the shed?", "The spare key of the shed hangs behind the clock."),
    ("What is the capital of Kazakhstan?", "The capital of Kazakhstan is Astana."),
    ("Which gate does flight LH882 use?", "Flight LH882 uses gate B24."),
    ("What is the limit of the upload API?", "The upload API accepts 10 MB."),
)


@pytest.mark.parametrize(
    ("earlier", "later"), [("turn", "turn"), ("note", "note"), ("turn", "topic")]
)
async def test_a_hit_has_beside_it_what_was_said_later_in_other_words(
    bus: Connection, memory: Memory, earlier: str, later: str
) -> None:
    async def save(text: str, form: str, session: str) -> None:
        if form == "turn":
            await say(bus, memory, text, "Good to know.", session)
        elif form == "note":
            await call(bus, "save_memory", session, content=text)
        else:
            await call(bus, "save_topic", session, topic="user.car", content=text)

    old = "I drive a blue Volvo."
    new = "The Volvo broke down, so I sold it and lease a Polestar."
    question = "What car do I drive?"
    for number, text in enumerate((old, *FILLER)):
        await save(text, earlier, f"s{number}")
    await save(new, later, "later")
    await indexed(memory)

    caller = caller_named("richard")
    found = await call_tool(bus, "search_memory", {"query": question}, caller=caller)
    (hit,) = [hit for hit in found.data["hits"] if old in hit["content"]]

    assert [new in one["content"] for one in hit["later"]] == [True]
    assert hit["later"][0]["source_class"] != "answered"  # what the user said is not an assistant's
    assert found.content.count(new) == (1 if later == "topic" else 2)
    assert {one["source_class"] for one in found.data["hits"]} <= {"asserted", "answered"}


async def test_a_turn_that_asks_has_beside_it_a_later_one_that_answers_otherwise(
    bus: Connection, memory: Memory
) -> None:
    asked, answered = "When does the ferry to Hven leave?", "The ferry to Hven leaves at 9:15."
    await say(bus, memory, asked, answered, "first")
    for number, other in enumerate(OTHER_QUESTIONS):
        await say(bus, memory, *other, f"s{number}")
    changed = "The Hven ferry now leaves at 10:40."
    later = json.loads(turn(query="What time is the ferry to Hven?", answer=changed, query_id="l"))
    later["timestamp_utc"] = "2026-11-21T08:00:00Z"
    await publish_durably(bus, GENERATION, json.dumps(later).encode())
    await all_done(bus)
    await indexed(memory)

    hits = (await call(bus, "search_memory", "new", query=asked))["hits"]

    (first,) = [hit for hit in hits if answered in hit["content"]]
    assert [changed in one["content"] for one in first["later"]] == [True]


async def test_a_fact_marks_a_hit_that_it_outdates_and_is_none_itself(
    bus: Connection, memory: Memory
) -> None:
    await say(bus, memory, "My rent is 900 euros.", "Good to know.", "first")
    saved = await call(
        bus, "save_topic", "second", topic="user.rent", content="My rent is 950 euros."
    )
    await indexed(memory)

    (hit,) = (await call(bus, "search_memory", "new", query="What is my rent?"))["hits"]

    assert hit["content"].startswith("Q: My rent is 900 euros.")
    assert hit["outdated_by"] == saved["id"]


async def test_an_answer_that_ranked_below_its_source_does_not_rise_above_it_as_a_reply(
    bus: Connection, memory: Memory
) -> None:
    fact, question = "The ferry to Hven leaves from quay 3.", "Where does the ferry to Hven leave?"
    await call(bus, "remember_fact", "first", content=fact, scope="user")
    await indexed(memory)
    for number in range(3):
        assert (await recall_contents(bus, question, session=f"s{number}"))[0] == fact
        await say(bus, memory, question, "At quay 3.", f"s{number}")

    assert (await recall_contents(bus, question))[0] == fact


async def test_an_answer_that_says_nothing_else_than_its_source_ranks_below_it(
    bus: Connection, memory: Memory
) -> None:
    statement, question = "The alarm code is 7734, please note it.", "What is the alarm code?"
    await say(bus, memory, statement, "Noted.", "first")
    for number in range(3):
        assert (await recall_contents(bus, question, session=f"s{number}"))[0] == statement
        await say(bus, memory, question, "The alarm code is 7734.", f"s{number}")

    assert (await recall_contents(bus, question))[0] == statement


async def test_search_memory_puts_the_turn_with_the_newest_statement_first_as_recall_does(
    bus: Connection, memory: Memory
) -> None:
    for day in ("Tuesday", "Friday"):
        await say(bus, memory, f"The tasting is on {day}.", "Got it, Monday is free.", day)

    hits = (await call(bus, "search_memory", "new", query="When is the tasting?"))["hits"]

    assert [hit["content"].split(".")[0] for hit in hits] == [
        "Q: The tasting is on Friday",
        "Q: The tasting is on Tuesday",
    ]
    assert hits[0]["outdated_by"] is None
    assert hits[1]["outdated_by"] == hits[0]["id"]
