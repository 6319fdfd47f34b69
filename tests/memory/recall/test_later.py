"""Beside an item stands what its speaker stated later about the same thing."""

from typing import Any

import pytest

from calling import RICHARD, call, caller_named
from indexed import indexed
from local2.bus.connection import Connection
from local2.client.tools import call_tool
from local2.memory.tenant import Memory
from local2.protocol.envelope import Caller

pytestmark = pytest.mark.usefixtures("tools", "searchable", "either_size")

VOLVO = "I drive a blue Volvo."
SOLD = "The Volvo broke down for good, so I sold it for scrap."
QUESTION = "What car do I drive?"
SMALL_TALK = (
    "The bakery on the corner has new opening hours.",
    "My sister plays the cello in an orchestra.",
    "It has been raining since Monday.",
    "I finished the third chapter of the novel.",
)

LIFE = (
    ("My sister Ingrid runs a bakery in Trondheim.", "That sounds lovely."),
    ("We're thinking about getting a beehive.", "Bees are a great choice."),
    ("Our boiler was serviced by Nordvarme last week.", "Good to have that done."),
    ("I switched from Telenor to Ice because of the coverage at the cabin.", "Makes sense."),
    ("My running group meets Tuesdays at 6.", "Enjoy your runs."),
    ("Our son Emil starts school in August.", "Exciting!"),
    ("The dentist said I need a crown on the lower left molar.", "I'll remember."),
    ("My car, an old Saab 900, failed inspection because of rust.", "Sorry to hear that."),
    ("Let's call the boat Havgull.", "Havgull it is."),
    ("We scrapped the Saab on Friday and lease a Polestar 2 now.", "Nice."),
)


async def tell_turns(bus: Connection, *turns: tuple[str, str]) -> None:
    """Ingest what the user and an assistant said, one turn a day, each in its own session."""
    for day, turn in enumerate(turns, start=1):
        messages = [
            {"role": role, "content": content, "timestamp": f"2026-05-{day:02}T12:00:00Z"}
            for role, content in zip(("user", "assistant"), turn, strict=True)
        ]
        await call(bus, "ingest", {"messages": messages, "session_id": f"day {day}"}, RICHARD)


async def tell_group(bus: Connection, *said: tuple[str | None, str]) -> None:
    """Ingest one message a day, all in one session; one without a name is an assistant's."""
    messages = [
        {
            "role": "user" if name else "assistant",
            "name": name,
            "content": text,
            "timestamp": f"2026-05-{day:02}T12:00:00Z",
        }
        for day, (name, text) in enumerate(said, start=1)
    ]
    await call(bus, "ingest", {"messages": messages, "session_id": "group"}, RICHARD)


async def tell(bus: Connection, day: int, *contents: str, caller: Caller = RICHARD) -> None:
    messages = [
        {"role": "user", "content": content, "timestamp": f"2026-05-{day:02}T12:00:00Z"}
        for content in contents
    ]
    await call(bus, "ingest", {"messages": messages, "session_id": f"day {day}"}, caller)


async def recall(bus: Connection, memory: Memory, query: str = QUESTION) -> list[dict[str, Any]]:
    await indexed(memory)
    items: list[dict[str, Any]] = (await call(bus, "recall", {"query": query}, RICHARD))["items"]
    return items


def later_of(items: list[dict[str, Any]], content: str) -> list[str]:
    (item,) = [one for one in items if one["content"] == content]
    return [one["content"] for one in item.get("later", ())]


async def test_a_later_statement_about_the_same_thing_stands_beside_the_item(
    bus: Connection, memory: Memory
) -> None:
    await tell(bus, 1, VOLVO, *SMALL_TALK)
    await tell(bus, 11, SOLD)

    items = await recall(bus, memory)

    assert items[0]["content"] == VOLVO
    assert later_of(items, VOLVO) == [SOLD]
    assert later_of(items, SOLD) == []
    assert items[0]["later"][0]["event_time"] == "2026-05-11T12:00:00Z"
    result = await call_tool(bus, "recall", {"query": QUESTION, "top_k": 1}, caller=RICHARD)

    assert result.content.splitlines()[-1].strip() == f"(10 days later, 2026-05-11) {SOLD}"


async def test_an_item_far_down_has_its_later_statements_too(
    bus: Connection, memory: Memory
) -> None:
    await tell(bus, 1, VOLVO, *SMALL_TALK)
    await tell(bus, 2, *(f"What I drive is the car of car pool {n}: a car." for n in range(6)))
    await tell(bus, 11, SOLD)
    await indexed(memory)

    found = await call(bus, "recall", {"query": QUESTION, "top_k": 12}, RICHARD)

    assert [one["content"] for one in found["items"]].index(VOLVO) >= 5
    assert later_of(found["items"], VOLVO)


# A large memory compares what it found for the question only.
@pytest.mark.parametrize("either_size", ["whole"], indirect=True)
async def test_the_end_of_a_thing_stands_beside_it_though_the_question_does_not_match_it(
    bus: Connection, memory: Memory
) -> None:
    await tell_turns(bus, *LIFE)

    first, *_ = await recall(bus, memory)

    assert first["content"].startswith("My car, an old Saab")
    assert later_of([first], first["content"]) == [LIFE[-1][0]]


@pytest.mark.parametrize(
    ("question", "statements"),
    [
        ("Wo wohne ich?", ("Ich wohne in Graz.", "Ich habe einen Hund.", "Ich arbeite bei Bosch.")),
        ("¿Dónde vivo?", ("Vivo en Sevilla.", "Tengo un perro.", "Trabajo en un banco.")),
        ("Where do I live?", ("I live in Oslo.", "I like coffee.", "My boss is Olga.")),
    ],
)
async def test_in_a_short_chat_what_is_about_something_else_stands_beside_nothing(
    bus: Connection, memory: Memory, question: str, statements: tuple[str, ...]
) -> None:
    for day, statement in enumerate(statements, start=1):
        await tell(bus, day, statement)

    items = await recall(bus, memory, question)

    assert {one["content"] for one in items} >= set(statements[:1])
    assert [later_of([item], item["content"]) for item in items] == [[] for _ in items]


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (
            "How often does the backup run?",
            (
                "The backup runs every 30 days.",
                "The lawn needs mowing.",
                "The backup runs every 90 days.",
            ),
        ),
        (
            "On which host is the database?",
            (
                "The database is on host db-7.",
                "Nadia baked bread with walnuts.",
                "The database is on host db-9.",
            ),
        ),
    ],
)
async def test_in_a_short_chat_another_value_stands_beside_the_older_one(
    bus: Connection, memory: Memory, question: str, said: tuple[str, str, str]
) -> None:
    await tell(bus, 1, *said)

    items = await recall(bus, memory, question)

    older, _, newer = said
    assert later_of(items, older) == [newer]


async def test_what_others_stated_later_does_not_stand_beside_my_statement(
    bus: Connection, memory: Memory
) -> None:
    await tell(bus, 1, VOLVO, *SMALL_TALK)
    mallory = caller_named("mallory", session_id="m1")
    theirs = "The Volvo that Richard drives was sold."
    await call(bus, "remember_fact", {"content": theirs, "scope": "tenant"}, mallory)
    document = {"content": SOLD, "title": "Cars", "source": "cars.md"}
    await call(bus, "add_document", document, RICHARD)

    assert not {theirs, SOLD} & set(later_of(await recall(bus, memory), VOLVO))


async def test_the_newer_of_two_remembered_facts_stands_beside_the_older_one(
    bus: Connection, memory: Memory
) -> None:
    older, newer = (
        "The choir rehearses in the old fire station.",
        "The choir rehearses at the docks.",
    )
    for content in (older, newer):
        await call(bus, "remember_fact", {"content": content, "scope": "user"}, RICHARD)

    items = await recall(bus, memory, "Where does the choir rehearse?")

    assert later_of(items, older) == [newer]
    assert later_of(items, newer) == []


DELIVERY = (
    ("user", "Hello, I ordered a wardrobe from you."),
    ("assistant", "Good morning! What can I do for you?"),
    ("user", "How many days will it take to get here?"),
    ("assistant", "Two working days with the normal post."),
    ("user", "Please leave it with Mr Otieno at number 4."),
    ("assistant", "I will write that on the label."),
    ("user", "Sorry, number 14, I always mix that up."),
    ("assistant", "Changed."),
    ("user", "Thank you, and when do your shops open?"),
)


async def tell_delivery(bus: Connection) -> None:
    messages = [
        {"role": role, "content": content, "timestamp": f"2026-05-01T12:{minute:02}:00Z"}
        for minute, (role, content) in enumerate(DELIVERY)
    ]
    await call(bus, "ingest", {"messages": messages, "session_id": "shop"}, RICHARD)


async def test_beside_a_question_stands_the_reply_that_it_got(
    bus: Connection, memory: Memory
) -> None:
    await tell_delivery(bus)

    items = await recall(bus, memory, "How long until it gets here?")

    (asked,) = [item for item in items if item["content"] == DELIVERY[2][1]]
    reply = asked["later"][0]
    assert (reply["content"], reply["source_class"]) == (DELIVERY[3][1], "answered")
    result = await call_tool(
        bus, "recall", {"query": "How long until it gets here?"}, caller=RICHARD
    )
    assert f"(later, 2026-05-01, said by an assistant) {DELIVERY[3][1]}" in result.content


async def test_a_correction_in_the_next_message_stands_beside_what_it_corrects(
    bus: Connection, memory: Memory
) -> None:
    await tell_delivery(bus)

    items = await recall(bus, memory, "Whom should the wardrobe be left with?")

    assert later_of(items, DELIVERY[4][1])[0] == DELIVERY[6][1]


async def test_what_an_assistant_said_later_stands_beside_its_answer(
    bus: Connection, memory: Memory
) -> None:
    answer = "The warranty of the Kestrel mower ends after three years."
    correction = "I was wrong about the warranty: for the Kestrel mower it ends after two years."
    turns = (
        ("How long is the warranty?", answer),
        ("My lawn is rather steep.", "Mow it across the slope then, it is safer."),
        ("I also need a rake.", "We have rakes of steel and of bamboo."),
        ("One box came without a lid.", "I will send you a lid today."),
        ("Thanks for that.", correction),
    )
    await tell_turns(bus, *turns)

    items = await recall(bus, memory, "When does the warranty of the mower end?")

    assert later_of(items, answer) == [correction]
    assert later_of(items, correction) == []
    assert later_of(items, turns[0][0])[:2] == [answer, correction]


async def test_a_later_output_of_the_tool_about_the_same_thing_stands_beside_the_earlier_one(
    bus: Connection, memory: Memory
) -> None:
    older = "garden chair, teak: 41 pieces on shelf C7"
    newer = "garden chair, teak: 12 pieces on shelf C7"
    by_another_tool = "garden chair, teak: 41 pieces on shelf B2"
    calls = (
        ("What can we sell?", "stock", older),
        ("Who is here tonight?", "roster", "night shift: Ferrand and Okello"),
        ("Has he paid?", "order_status", "order 5519, customer Balog: waits for payment"),
        ("And the zloty?", "exchange", "EUR/PLN 4.26"),
        ("Is it hot outside?", "weather", "Lyon: 34 degrees, thunderstorms in the evening"),
        ("And the other shop?", "branch", by_another_tool),
        ("Look once more.", "stock", newer),
    )
    for day, (request, tool, output) in enumerate(calls, start=1):
        time = f"2026-05-{day:02}T12:00:00Z"
        messages = [
            {"role": "user", "content": request, "timestamp": time},
            {"role": "tool", "name": tool, "content": output, "timestamp": time},
        ]
        await call(bus, "ingest", {"messages": messages, "session_id": f"day {day}"}, RICHARD)

    items = await recall(bus, memory, "How many garden chairs are left?")

    assert later_of(items, older) == [newer]
    assert later_of(items, newer) == later_of(items, by_another_tool) == []


async def test_that_one_speaker_said_both_is_no_word_that_they_share(
    bus: Connection, memory: Memory
) -> None:
    answer = "Every night at 2:30, kept for 14 days."
    await tell_group(
        bus,
        ("Priya", "The launch of the booking site is planned for April."),
        ("Mei", "First sketches of the pages come on Friday."),
        ("Priya", "The budget was approved, 64,000 euros."),
        ("Mei", "The hotel wants burgundy."),
        ("Tom", "How often do the backups run?"),
        (None, answer),
        ("Tom", "Even better."),
    )

    items = await recall(bus, memory, "How often do the backups run at night?")

    assert later_of(items, answer) == []


async def test_what_only_asks_is_no_later_statement(bus: Connection, memory: Memory) -> None:
    await tell(bus, 1, VOLVO, *SMALL_TALK)
    await tell(bus, 11, "Do I drive a blue Volvo?")
    await tell(bus, 12, "I drive the blue Volvo to work.")

    items = await recall(bus, memory)

    assert later_of(items, VOLVO) == ["I drive the blue Volvo to work."]


async def test_what_another_named_person_said_is_no_later_statement(
    bus: Connection, memory: Memory
) -> None:
    said = (
        ("Nora", "I can take my brother's van to the cabin."),
        *zip(("Piet", "Samira") * 2, SMALL_TALK, strict=True),
        ("Piet", "The van at the cabin was not ours."),
        ("Nora", "My brother's van is broken."),
    )
    await tell_group(bus, *said)

    items = await recall(bus, memory, "Who can take a van to the cabin?")

    assert later_of(items, said[0][1]) == ["My brother's van is broken."]


async def test_a_short_statement_with_a_number_needs_no_common_word(
    bus: Connection, memory: Memory
) -> None:
    first, last = "My blood pressure was 148 over 95.", "The cuff reads 127:82."
    for day, text in enumerate((first, *SMALL_TALK, "Thank you.", last, "Goodbye then."), start=1):
        await tell(bus, day, text)

    items = await recall(bus, memory, "What's my blood pressure?")

    assert later_of(items, first) == [last]


@pytest.mark.parametrize("either_size", ["whole"], indirect=True)  # candidates do not show it
async def test_words_that_are_common_in_this_memory_are_shared_with_nothing(
    bus: Connection, memory: Memory
) -> None:
    thanks = "Danke, das ist wirklich nett von dir."
    small_talk = (
        "Das Wetter ist heute schlecht.",
        "Das neue Buch ist lang.",
        "Danke, mein Nachbar ist nett.",
        "Das Orchester ist nett und probt heute.",
        "Das Brot ist gut.",
        "Das Paket ist da, danke.",
    )
    for day, text in enumerate((thanks, *small_talk, "Danke, das ist nett."), start=1):
        await tell(bus, day, text)

    items = await recall(bus, memory, "Was ist wirklich nett von dir?")

    assert later_of(items, thanks) == []


@pytest.mark.parametrize("either_size", ["whole"], indirect=True)
async def test_replies_that_say_a_word_back_do_not_make_it_common(
    bus: Connection, memory: Memory
) -> None:
    cats, gone = "We got two cats, Miso and Tofu.", "Tofu ran away, we only have Miso now."
    said = (*SMALL_TALK[:3], cats, gone)
    await tell_turns(bus, *((text, f"I will remember: {text}") for text in said))

    items = await recall(bus, memory, "How many cats do we have?")

    assert gone in later_of(items, cats)
