"""The rules responder, in conversations like those of the stories."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from local.keys import is_topic
from local.llm.models import ChatMessage, ToolCall, ToolDefinition
from local.llm.rules import ACKNOWLEDGED, HELP, MAX_CALLS, NOTHING, RulesModel

MEMORY_TOOLS = ("save_topic", "recall_topic", "save_memory", "search_memory")
NONE_FOUND = "No memories found."


class Session:
    """Plays the generator: answers tool calls from a dict until the model returns only text."""

    def __init__(
        self, results: Mapping[str, str] | None = None, tools: Sequence[str] = MEMORY_TOOLS
    ) -> None:
        self.topics: dict[str, str] = {}
        self.calls: list[tuple[str, dict[str, str]]] = []
        self._results = results or {}
        self._tools = [ToolDefinition(name=n, description="", parameters={}) for n in tools]
        self._messages: list[ChatMessage] = []

    async def send(self, text: str) -> str:
        self._messages.append(ChatMessage(role="user", content=text))
        self.calls = []
        while True:
            chunks = [c async for c in RulesModel().stream(self._messages, self._tools)]
            content = "".join(chunk.content for chunk in chunks)
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
        if tool == "recall_topic" and arguments["topic"] in self.topics:
            topic = arguments["topic"]
            return f"[Memory: {topic}] {self.topics[topic]}"
        if tool == "save_topic":
            return f"Memory saved: {arguments['topic']}"
        return "Memory saved." if tool == "save_memory" else NONE_FOUND


@pytest.mark.parametrize(
    ("statement", "question", "topic", "value"),
    [
        (
            "Please remember my preferred language is Elixir.",
            "What language do I prefer?",
            "user.language_preference",
            "Elixir",
        ),
        (
            "Remember that my favourite editor is now Vim!",
            "Do you know my favorite editor?",
            "user.editor_preference",
            "Vim",
        ),
        ("my name is Richard, please remember", "What's my name?", "user.name", "Richard"),
        ("My name is Dr. Ada Byron.", "Do you know what my name is?", "user.name", "Dr. Ada Byron"),
        ("Call me Richard", "who am i", "user.name", "Richard"),
        ("I\u2019m called Ada, don\u2019t forget.", "What should you call me?", "user.name", "Ada"),
        (
            "Can you please remember that my time zone is Europe/Berlin?",
            "What is my time zone, please?",
            "user.time_zone",
            "Europe/Berlin",
        ),
        ("Remember that my boat is called Juno.", "What is my boat?", "user.boat", "Juno"),
        ("Remember that my Büro is in Köln.", "Where is my Büro?", "user.büro", "in Köln"),
        ("Note that my dog's name is Rex", "what is my dog's name?", "user.dog_s_name", "Rex"),
        (
            "The project deadline is Friday, remember that.",
            "When is the project deadline again?",
            "project.deadline",
            "Friday",
        ),
        (
            "Remember: our project's database is SQLite 3.45",
            "Which one is our project's database?",
            "project.database",
            "SQLite 3.45",
        ),
    ],
)
async def test_a_topic_saved_in_one_wording_is_recalled_in_another(
    statement: str, question: str, topic: str, value: str
) -> None:
    session = Session()

    confirmation = await session.send(statement)
    assert session.calls == [("save_topic", {"topic": topic, "content": value})]
    assert confirmation == f"Saved: {value} ({topic})."

    answer = await session.send(question)
    assert session.calls == [("recall_topic", {"topic": topic})]
    assert value in answer


@pytest.mark.parametrize(
    ("statement", "topic", "content"),
    [
        (
            "Never deploy on Fridays, remember that.",
            "constraint.deploy_on_fridays",
            "Never deploy on Fridays",
        ),
        ("Remember: don't use tabs", "constraint.use_tabs", "don't use tabs"),
    ],
)
async def test_rules_for_the_assistant_become_constraints(
    statement: str, topic: str, content: str
) -> None:
    session = Session()

    await session.send(statement)

    assert session.calls == [("save_topic", {"topic": topic, "content": content})]


@pytest.mark.parametrize(
    ("statement", "content"),
    [
        ("Please remember that the office is in Berlin.", "the office is in Berlin."),
        ("Note: we use trunk-based development", "we use trunk-based development"),
        ("I'll be in Rome, don't forget", "I'll be in Rome"),
        ("Could you remember that I live in Bonn?", "I live in Bonn"),
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
    assert content in answer


@pytest.mark.parametrize(
    "text",
    [
        "The capital of Australia is Canberra, not Sydney.",
        "My preferred language is Elixir.",
        "Never deploy on Fridays.",
        "I can't remember my password.",
        "Call me tomorrow.",
    ],
)
async def test_without_a_request_only_a_name_is_saved(text: str) -> None:
    session = Session()

    assert await session.send(text) == ACKNOWLEDGED
    assert session.calls == []


@pytest.mark.parametrize(
    ("question", "query"),
    [
        ("What do you remember about Australian geography?", "Australian geography"),
        ("Do you recall what we said about tea?", "tea"),
        ("What did I say about my car?", "my car"),
        ("Search your memory for Canberra.", "Canberra"),
        ("Where do we meet?", "Where do we meet?"),
        ("Is it raining?", "Is it raining?"),
    ],
)
async def test_other_questions_search_the_memory(question: str, query: str) -> None:
    session = Session({"search_memory": "1. The answer is Canberra."})

    answer = await session.send(question)

    assert session.calls == [("search_memory", {"query": query})]
    assert answer == "Here is what I remember: 1. The answer is Canberra."


async def test_two_statements_or_questions_in_one_message_are_both_handled() -> None:
    session = Session()

    await session.send("Remember my name is Richard and my favourite language is Elixir.")
    answer = await session.send("What is my name and what language do I prefer?")

    assert session.calls == [
        ("recall_topic", {"topic": "user.name"}),
        ("recall_topic", {"topic": "user.language_preference"}),
    ]
    assert answer == (
        "I remember: Richard (user.name).\nI remember: Elixir (user.language_preference)."
    )


async def test_a_missing_topic_is_searched_for() -> None:
    session = Session({"search_memory": "1. You once said: I am Richard."})

    answer = await session.send("What is my name?")

    assert session.calls == [
        ("recall_topic", {"topic": "user.name"}),
        ("search_memory", {"query": "What is my name?"}),
    ]
    assert "I am Richard" in answer


async def test_a_search_without_result_is_not_repeated() -> None:
    session = Session()

    assert await session.send("What is my name?") == NOTHING
    assert [tool for tool, _ in session.calls] == ["recall_topic", "search_memory"]


async def test_without_the_search_tool_a_missing_topic_is_simply_unknown() -> None:
    session = Session(tools=["recall_topic"])

    assert await session.send("What is my name?") == NOTHING
    assert [tool for tool, _ in session.calls] == ["recall_topic"]


async def test_an_earlier_turn_does_not_answer_a_later_question() -> None:
    session = Session()
    await session.send("My name is Richard.")

    assert await session.send("Thanks!") == ACKNOWLEDGED


async def test_a_failed_tool_is_reported_as_failed() -> None:
    session = Session({"save_topic": "Error (unavailable): the disk is full"})

    answer = await session.send("My name is Richard.")

    assert answer == "save_topic failed: Error (unavailable): the disk is full"


@pytest.mark.parametrize("text", ["Call list_orders.", "please use the tool list_orders"])
async def test_a_named_tool_is_called_and_its_answer_returned(text: str) -> None:
    session = Session({"list_orders": "Two teapots."}, tools=("list_orders",))

    assert await session.send(text) == "list_orders answered: Two teapots."
    assert session.calls == [("list_orders", {})]


async def test_a_name_without_a_tool_calls_nothing() -> None:
    session = Session()

    assert await session.send("Call list_orders.") == ACKNOWLEDGED
    assert session.calls == []


async def test_a_tool_that_is_not_offered_is_named() -> None:
    session = Session(tools=["recall_topic", "search_memory"])

    answer = await session.send("My name is Richard.")

    assert "save_topic" in answer
    assert session.calls == []


@pytest.mark.parametrize("text", ["Hello there!", "help", "What can you do?", "Remember that."])
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

    recalls = [call for call in session.calls if call[0] == "recall_topic"]
    assert len(recalls) == MAX_CALLS


PHRASES = ["remember that", "my", "the project", "preferred", "name", "Élan", "日本", "is", "never"]
JOINTS = ["please", "call me", "what", "do I prefer", "about", "and", "?", ".", ",", "'", "\n"]
FRAGMENTS = st.sampled_from(PHRASES) | st.sampled_from(JOINTS) | st.text(max_size=5)


@settings(deadline=None, database=None)
@given(st.text() | st.lists(FRAGMENTS, max_size=12).map(" ".join))
async def test_any_text_is_answered_and_every_topic_is_a_valid_key(text: str) -> None:
    session = Session()

    assert await session.send(text)

    for tool, arguments in session.calls:
        assert all(value.strip() for value in arguments.values())
        if tool in {"save_topic", "recall_topic"}:
            assert is_topic(arguments["topic"])
