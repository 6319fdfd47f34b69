"""The rules responder, in conversations like those of the stories."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from local2.keys import is_topic
from local2.llm.models import ChatMessage, ToolCall, ToolDefinition
from local2.llm.rules import (
    FORGETS_NOTHING,
    HELP,
    HINT,
    KEPT,
    MAX_CALLS,
    NO_STANDING_FACTS,
    NODDED,
    NOTHING,
    WELCOME,
    RulesModel,
)
from local2.protocol.envelope import utc_now

MEMORY_TOOLS = ("save_topic", "save_memory", "recall")
NONE_FOUND = "No memories found."


class Session:
    """Plays the generator: answers tool calls from a dict until the model returns only text."""

    def __init__(
        self,
        results: Mapping[str, str] | None = None,
        tools: Sequence[str] = MEMORY_TOOLS,
        *,
        memories: Sequence[str] = (),
    ) -> None:
        """`memories`: lines of the system prompt."""
        self.hints: list[str] = []
        self.topics: dict[str, str] = {}
        self.calls: list[tuple[str, dict[str, str]]] = []
        self._results = results or {}
        self._tools = [ToolDefinition(name=n, description="", parameters={}) for n in tools]
        prompt = "\n".join(["Help.", "<pre-seeded-memories>", *memories, "</pre-seeded-memories>"])
        self._messages = [ChatMessage(role="system", content=prompt if memories else "Help.")]

    async def send(self, text: str) -> str:
        self._messages.append(ChatMessage(role="user", content=text))
        self.calls = []
        while True:
            chunks = [c async for c in RulesModel().stream(self._messages, self._tools)]
            content = "".join(chunk.content for chunk in chunks)
            self.hints += [chunk.hint for chunk in chunks if chunk.hint]
            calls = tuple(call for chunk in chunks for call in chunk.tool_calls)
            self._messages.append(ChatMessage(role="assistant", content=content, tool_calls=calls))
            if not calls:
                return content
            self._messages += [self._result(call) for call in calls]

    def _result(self, call: ToolCall) -> ChatMessage:
        self.calls.append((call.name, call.arguments))
        content = self._results.get(call.name) or self._remember(call.name, call.arguments)
        return ChatMessage(role="tool", content=content, tool_call_id=call.id, tool_name=call.name)

    def _remember(self, tool: str, arguments: dict[str, str]) -> str:
        if tool == "save_topic":
            self.topics[arguments["topic"]] = arguments["content"]
        if tool == "save_topic":
            return f"Memory saved: {arguments['topic']}"
        return "Memory saved." if tool == "save_memory" else NONE_FOUND


@pytest.mark.parametrize(
    ("statement", "topic", "value"),
    [
        (
            "Please remember my preferred language is Elixir.",
            "user.language_preference",
            "Elixir",
        ),
        (
            "Remember that my favourite editor is now Vim!",
            "user.editor_preference",
            "Vim",
        ),
        ("my name is Richard, please remember", "user.name", "Richard"),
        ("My name is Dr. Ada Byron.", "user.name", "Dr. Ada Byron"),
        ("Call me Richard", "user.name", "Richard"),
        ("I\u2019m called Ada, don\u2019t forget.", "user.name", "Ada"),
        (
            "Can you please remember that my time zone is Europe/Berlin?",
            "user.time_zone",
            "Europe/Berlin",
        ),
        ("Remember that my boat is called Juno.", "user.boat", "Juno"),
        ("Remember that my city is Oslo.", "user.home", "Oslo"),
        ("Remember that my mum is Ida.", "user.mother", "Ida"),
        ("Remember that my wife is Ann.", "user.wife", "Ann"),
        ("Remember that my Büro is in Köln.", "user.büro", "in Köln"),
        ("Note that my dog's name is Rex", "user.dog.name", "Rex"),
        (
            "The project deadline is Friday, remember that.",
            "project.deadline",
            "Friday",
        ),
        (
            "Remember: our project's database is SQLite 3.45",
            "project.database",
            "SQLite 3.45",
        ),
        (
            "Never deploy on Fridays, remember that.",
            "constraint.deploy_on_fridays",
            "Never deploy on Fridays",
        ),
        ("Remember: don't use tabs", "constraint.use_tabs", "don't use tabs"),
    ],
)
async def test_a_stated_fact_or_rule_is_saved_under_a_key_and_said_back(
    statement: str, topic: str, value: str
) -> None:
    session = Session()

    confirmation = await session.send(statement)
    assert session.calls == [("save_topic", {"topic": topic, "content": value})]
    assert confirmation == f"Saved: {value} ({topic})."


@pytest.mark.parametrize(
    ("statement", "content"),
    [
        ("Please remember that the office is in Berlin.", "the office is in Berlin."),
        ("Note: we use trunk-based development", "we use trunk-based development"),
        ("I'll be in Rome, don't forget", "I'll be in Rome"),
        ("Could you remember that I live in Bonn?", "I live in Bonn"),
        ("Can you remind me to call mum tomorrow?", "call mum tomorrow"),
        ("Remind me again to water the plants.", "water the plants."),
        ("Remember that my !!! is far away", "my !!! is far away"),
        ("Remember that my name is ...", "my name is ..."),
        (f"Remember that my story is {'long ' * 80}indeed", f"my story is {'long ' * 80}indeed"),
    ],
)
async def test_a_statement_that_fits_no_topic_is_saved_as_free_text(
    statement: str, content: str
) -> None:
    session = Session()

    answer = await session.send(statement)

    assert session.calls == [("save_memory", {"content": content})]
    assert content[:100] in answer


@pytest.mark.parametrize(
    "text",
    [
        "The capital of Australia is Canberra, not Sydney.",
        "My preferred language is Elixir.",
        "Never deploy on Fridays.",
        "I can't remember my password.",
        "I don't remember that.",
        "Call me tomorrow.",
        "Call list_orders.",  # there is no such tool
        "Will and I went to Rome.",
        "May 5 is my birthday.",
        "Had dinner with Ann.",
        "Did the laundry.",
        "Wie gesagt, das Büro ist in Köln.",
        "Vergiss bitte nicht, dass ich Vegetarier bin.",
        "Was in Rome with Ann.",
    ],
)
async def test_without_a_request_only_a_name_is_saved(text: str) -> None:
    session = Session()

    assert await session.send(text) == KEPT.format(statement=text)
    assert session.calls == []


@pytest.mark.parametrize(
    "text",
    ["ok", "lol", "Bye!", "got it", "Ha ha.", "👍", "alles klar", "好的", "I see.", "My bad!"],
)
async def test_a_nod_gets_a_nod(text: str) -> None:
    session = Session()

    assert await session.send(text) == NODDED
    assert session.calls == []


@pytest.mark.parametrize("text", ["I smoke.", "My Volvo.", "Ann called Bob", "我住在柏林"])
async def test_a_short_statement_is_said_back(text: str) -> None:
    assert await Session().send(text) == KEPT.format(statement=text)


@pytest.mark.parametrize(
    ("question", "query"),
    [
        ("What do you remember about Australian geography?", "Australian geography"),
        ("Do you recall what we said about tea?", "tea"),
        ("What did I say about my car?", "my car"),
        ("Search your memory for Canberra.", "Canberra"),
        ("Where do we meet?", "Where do we meet?"),
        ("Is it raining?", "Is it raining?"),
        ("whos my boss", "whos my boss"),
        ("what's the name of our dog", "what's the name of our dog"),
        ("do i drink coffee", "do i drink coffee"),
        ("does tom like olives", "does tom like olives"),
        ("did Anna call", "did Anna call"),
        ("wo wohne ich", "wo wohne ich"),
        ("Wie heißt meine Schwester", "Wie heißt meine Schwester"),
        ("was esse ich", "was esse ich"),
        ("Was weißt du über Tom?", "Tom"),
        ("Erzähl mir von Tom", "Tom"),
    ],
)
async def test_a_question_is_recalled(question: str, query: str) -> None:
    session = Session()

    assert await session.send(question) == NOTHING
    assert [(tool, args["query"]) for tool, args in session.calls] == [("recall", query)]


THIS_YEAR = utc_now().year
MOVED = f"said by the user, {THIS_YEAR}-11-23\n   I moved to Bergen."
LIVED = f"said by the user (outdated by 1), {THIS_YEAR}-11-20\n   I live in Oslo."
POLITE = f"said by the user, {THIS_YEAR}-11-25\n   Could you remember that I moved?"
ANSWERED = f"said by an assistant, {THIS_YEAR}-11-24\n   You live in Bergen."
FACT = "standing fact of the user, 2019-01-02\n   user.home: Bergen,\n   Norway"


def found(*entries: str, relevance: float = 0.9) -> dict[str, str]:
    """Return the result of a search."""
    lines = [f"{n}. (relevance: {relevance:.2f}) {entry}" for n, entry in enumerate(entries, 1)]
    return {"recall": "\n".join(["[Memory recall — 2026-11-26]", *lines])}


@pytest.mark.parametrize(
    ("entries", "answer"),
    [
        pytest.param((MOVED, ANSWERED), "You said on 23 November: I moved to Bergen.", id="said"),
        pytest.param((FACT,), "Remembered on 2 January 2019: user.home: Bergen, Norway", id="fact"),
        pytest.param((LIVED, MOVED), "You said on 23 November: I moved to Bergen.", id="outdated"),
        pytest.param(
            (f"said by the user, {THIS_YEAR}-11-25\n   Where do I live now?", MOVED),
            "You said on 23 November: I moved to Bergen.",
            id="asked before",
        ),
        pytest.param(
            (f"said by the user, {THIS_YEAR}-11-25\n   Forget where I live.", MOVED),
            "You said on 23 November: I moved to Bergen.",
            id="a request to forget",
        ),
        pytest.param((ANSWERED, MOVED), "You said on 23 November: I moved to Bergen.", id="user"),
        pytest.param(
            (f"{POLITE}\n   (later, {THIS_YEAR}-11-25, said by an assistant) Saved: I moved.",),
            "You said on 25 November: Could you remember that I moved?",
            id="a polite request to save",
        ),
        pytest.param(
            (ANSWERED,), "An assistant said on 24 November: You live in Bergen.", id="answered"
        ),
    ],
)
async def test_the_best_statement_is_quoted_with_its_date(
    entries: Sequence[str], answer: str
) -> None:
    assert await Session(found(*entries)).send("Where do I live now?") == answer


async def test_several_statements_are_quoted_if_the_question_is_about_something() -> None:
    answer = await Session(found(MOVED, ANSWERED, FACT)).send("What did I say about Bergen?")

    assert answer == (
        "You said on 23 November: I moved to Bergen.\n"
        "Remembered on 2 January 2019: user.home: Bergen, Norway"
    )


async def test_what_was_saved_on_request_is_quoted_once() -> None:
    asked = f"said by the user, {THIS_YEAR}-11-23\n   Save this: the door code is 4711."
    saved = f"noted by an agent, {THIS_YEAR}-11-23\n   the door code is 4711."

    answer = await Session(found(asked, saved)).send("What do you know about the door?")

    assert answer == "You said on 23 November: Save this: the door code is 4711."


async def test_what_answers_two_questions_is_quoted_once() -> None:
    session = Session(found(MOVED))

    answer = await session.send("Where do I live and when did I move?")

    assert len(session.calls) == 2
    assert answer == "You said on 23 November: I moved to Bergen."


async def test_of_a_long_statement_the_passage_that_answers_is_quoted() -> None:
    rain = "It has rained since Sunday. " * 20
    long = f"said by the user, {THIS_YEAR}-05-01\n   {rain}I drive a blue Volvo. {rain}"

    answer = await Session(found(long)).send("What car do I drive?")

    assert answer.startswith("You said on 1 May: [… ")
    assert "I drive a blue Volvo." in answer
    assert len(answer) < 400


VOLVO = f"said by the user, {THIS_YEAR}-05-01\n   I drive a blue Volvo."


@pytest.mark.parametrize("ago", ["10 days later", "later"])
async def test_a_later_statement_is_quoted_below_with_its_date(ago: str) -> None:
    sold = f"({ago}, {THIS_YEAR}-05-11) The Volvo broke down, so I sold it."
    tram = f"(40 days later, {THIS_YEAR}-06-10) I go by tram now."
    long = f"said by the user, {THIS_YEAR}-05-01\n   I drive a blue Volvo.\n   {'It is old. ' * 60}"

    both = await Session(found(f"{VOLVO}\n   {sold}\n   {tram}")).send("What car do I drive?")
    after_much = await Session(found(f"{long}\n   {sold}")).send("What car do I drive?")

    assert both == (
        "You said on 1 May: I drive a blue Volvo.\n"
        "Later, on 11 May: The Volvo broke down, so I sold it.\n"
        "Later, on 10 June: I go by tram now."
    )
    assert after_much.splitlines()[1:] == ["Later, on 11 May: The Volvo broke down, so I sold it."]


async def test_a_later_question_is_not_quoted_and_nothing_is_quoted_twice() -> None:
    sold = "The Volvo broke down, so I sold it."
    asked = f"(2 days later, {THIS_YEAR}-05-03) Which insurance does my Volvo need?"
    entries = (
        f"{VOLVO}\n   {asked}\n   (10 days later, {THIS_YEAR}-05-11) {sold}",
        f"said by the user, {THIS_YEAR}-05-11\n   {sold}",
    )

    answer = await Session(found(*entries)).send("What did I say about the Volvo?")

    assert answer.splitlines() == [
        "You said on 1 May: I drive a blue Volvo.",
        f"You said on 11 May: {sold}",
    ]


async def test_a_later_statement_with_the_same_words_is_not_quoted() -> None:
    asked = "I'm allergic to penicillin, please remember that"
    later = f"(later, {THIS_YEAR}-11-23) I'm allergic to penicillin"

    answer = await Session(
        found(f"said by the user, {THIS_YEAR}-11-23\n   {asked}\n   {later}")
    ).send("What am I allergic to?")

    assert answer == f"You said on 23 November: {asked}"


async def test_a_question_is_not_quoted_but_the_reply_that_it_got() -> None:
    asked = (
        f"said by the user, {THIS_YEAR}-05-01\n   Who repairs the Volvo?\n"
        f"   (later, {THIS_YEAR}-05-01, said by an assistant) Harrow & Sons in Leominster."
    )

    answer = await Session(found(asked)).send("Who mends my car?")

    assert answer == "An assistant said on 1 May: Harrow & Sons in Leominster."


async def test_words_that_only_look_like_a_later_statement_are_quoted_as_they_are() -> None:
    odd = f"{VOLVO}\n   (later, 2026-02-30) Nobody can have said that."

    answer = await Session(found(odd)).send("What car do I drive?")

    assert answer == (
        "You said on 1 May: I drive a blue Volvo. (later, 2026-02-30) Nobody can have said that."
    )


async def test_what_hardly_concerns_the_question_is_not_quoted() -> None:
    unsure, unrelated = Session(found(MOVED, relevance=0.2)), Session(found(MOVED, relevance=0.03))

    assert await unsure.send("Which car do I drive?") == (
        "The closest that I remember: You said on 23 November: I moved to Bergen."
    )
    assert await unrelated.send("Which car do I drive?") == NOTHING


async def test_asked_about_the_user_the_standing_facts_are_listed() -> None:
    facts = [
        "- user.name: Richard [stated by the user]",
        "- user.home: Bergen [extracted from what was said]",
    ]
    session = Session(memories=facts)

    assert await session.send("What do you know about me?") == (
        "I know:\n"
        "- user.name: Richard\n"
        "- user.home: Bergen [extracted from what was said]\n"
        "I remember what else you said, too: ask me about it."
    )
    assert session.calls == []
    assert await session.send("what do you remember") == await session.send("what do you know")
    assert await session.send("Was weißt du über mich?") == await session.send("what do you know")
    assert session.calls == []
    assert await Session().send("What do you know about me?") == NO_STANDING_FACTS


async def test_the_hint_is_given_once_a_session_and_beside_the_answer() -> None:
    session = Session()

    first, second = [await session.send(text) for text in ("Osmium is dense.", "Lead is soft.")]

    assert first == KEPT.format(statement="Osmium is dense.")
    assert second == KEPT.format(statement="Lead is soft.")
    assert session.hints == [HINT]


@pytest.mark.parametrize(
    "text",
    [
        "forget everything",
        "Please forget my name.",
        "Delete\nit all",
        "My password is hunter2, don\u2019t store that!",
        "My PIN is 4711 but don't remember it",
        "Vergiss das",
        "Bitte lösche meinen Namen.",
    ],
)
async def test_a_request_to_forget_is_answered_with_the_command(text: str) -> None:
    session = Session()

    assert await session.send(text) == FORGETS_NOTHING
    assert session.calls == []


async def test_a_long_statement_is_said_back_in_one_line() -> None:
    answer = await Session().send("Osmium is dense.\n" * 100)

    assert "\n" not in answer
    assert len(answer) < 500


async def test_two_statements_or_questions_in_one_message_are_both_handled() -> None:
    session = Session()

    saved = await session.send("Remember my name is Richard and my favourite language is Elixir.")
    await session.send("What is my name and what language do I prefer?")

    assert saved == "Saved: Richard (user.name).\nSaved: Elixir (user.language_preference)."
    assert [args["query"] for _, args in session.calls] == [
        "What is my name",
        "what language do I prefer?",
    ]


async def test_an_earlier_turn_does_not_answer_a_later_question() -> None:
    session = Session()
    await session.send("My name is Richard.")

    for thanks in ("Thanks!", "thanks a lot", "Thank you so much!", "Vielen Dank!"):
        assert await session.send(thanks) == WELCOME
    assert await session.send("Thanks, I moved to Bergen.") != WELCOME


async def test_a_failed_tool_is_reported_as_failed() -> None:
    session = Session({"save_topic": "Error (unavailable): the disk is full"})

    answer = await session.send("My name is Richard.")

    assert answer == "save_topic failed: Error (unavailable): the disk is full"


@pytest.mark.parametrize("text", ["Call list_orders.", "please use the tool list_orders"])
async def test_a_named_tool_is_called_and_its_answer_returned(text: str) -> None:
    session = Session({"list_orders": "Two teapots."}, tools=("list_orders",))

    assert await session.send(text) == "list_orders answered: Two teapots."
    assert session.calls == [("list_orders", {})]


async def test_a_tool_that_is_not_offered_is_named() -> None:
    session = Session(tools=["recall"])

    answer = await session.send("My name is Richard.")

    assert "save_topic" in answer
    assert session.calls == []


@pytest.mark.parametrize(
    "text",
    [
        *("Hello there!", "help", "What can you do?", "Remember that.", "Remember"),
        *("What's your name?", "what is your name", "Hallo!", "Hilfe", "Wie heißt du?"),
    ],
)
async def test_a_request_for_help_is_answered_with_how_to_get_a_model(text: str) -> None:
    assert await Session().send(text) == HELP


async def test_a_long_answer_is_sent_in_several_pieces() -> None:
    messages = [ChatMessage(role="user", content="help")]

    pieces = [chunk.content async for chunk in RulesModel().stream(messages, [])]

    assert len(pieces) > 3
    assert "".join(pieces) == HELP


async def test_a_pasted_page_of_questions_makes_a_bounded_number_of_calls() -> None:
    session = Session()

    await session.send("What is my name?\n" * 1000)

    assert len(session.calls) == MAX_CALLS


PHRASES = ["remember that", "my", "the project", "preferred", "name", "Élan", "日本", "is", "never"]
JOINTS = ["please", "call me", "what", "do I prefer", "about", "and", "?", ".", ",", "'", "\n"]
FRAGMENTS = st.sampled_from(PHRASES) | st.sampled_from(JOINTS) | st.text(max_size=5)


@settings(deadline=None, database=None)
@given(st.text() | st.lists(FRAGMENTS, max_size=12).map(" ".join))
@example("Remember that never \N{SUPERSCRIPT ONE}")
async def test_any_text_is_answered_and_every_topic_is_a_valid_key(text: str) -> None:
    session = Session()

    assert await session.send(text)

    for tool, arguments in session.calls:
        assert all(value.strip() for value in arguments.values() if isinstance(value, str))
        if tool == "save_topic":
            assert is_topic(arguments["topic"])
