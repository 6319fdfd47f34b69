"""`LocalMemoryService` and ADK's `InMemoryMemoryService` answer the same calls alike."""

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest
from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.adk.memory import BaseMemoryService, InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools.load_memory_tool import load_memory_tool
from google.adk.tools.preload_memory_tool import preload_memory_tool
from google.genai import types
from pydantic import PrivateAttr

from integrations.finding import found_by
from local2.errors import InvalidArgumentsError
from local2.integrations.google_adk import LocalMemoryService

APP = "notes"
UMBRELLA = "The green umbrella stands in the hall."
KETTLE = "My kettle whistles in the morning."


@pytest.fixture
async def service(home: Path) -> AsyncIterator[LocalMemoryService]:
    async with LocalMemoryService(home=home) as opened:
        yield opened


@pytest.fixture(params=["local2", "in memory"])
def either(request: pytest.FixtureRequest, service: LocalMemoryService) -> BaseMemoryService:
    """Our service and ADK's own; what is asserted of both is the contract."""
    return service if request.param == "local2" else InMemoryMemoryService()


def event(id_: str, author: str, *parts: types.Part | str) -> Event:
    role = "user" if author == "user" else "model"
    whole = [types.Part(text=part) if isinstance(part, str) else part for part in parts]
    return Event(id=id_, author=author, content=types.Content(role=role, parts=whole))


def session_of(user: str, *events: Event, id_: str = "monday", app: str = APP) -> Session:
    return Session(id=id_, app_name=app, user_id=user, events=list(events))


async def texts(service: BaseMemoryService, user: str, query: str) -> list[str]:
    found = await service.search_memory(app_name=APP, user_id=user, query=query)
    return [
        "".join(part.text or "" for part in memory.content.parts or []) for memory in found.memories
    ]


async def test_an_added_session_is_found(either: BaseMemoryService, user: str) -> None:
    events = event("e1", "user", UMBRELLA), event("e2", "assistant", "I see.")
    await either.add_session_to_memory(session_of(user, *events))

    found = await either.search_memory(app_name=APP, user_id=user, query="green umbrella")

    (memory,) = [one for one in found.memories if "umbrella" in str(one.content)]
    assert memory.content == types.Content(role="user", parts=[types.Part(text=UMBRELLA)])
    assert memory.author == "user"
    assert memory.timestamp
    assert memory.id


async def test_an_unrelated_query_finds_nothing(either: BaseMemoryService, user: str) -> None:
    assert await texts(either, user, "green umbrella") == []
    assert await texts(either, user, "") == []


async def test_a_session_added_again_is_found_once_with_its_new_events(
    either: BaseMemoryService, user: str
) -> None:
    first, second = event("e1", "user", UMBRELLA), event("e2", "user", KETTLE)
    await either.add_session_to_memory(session_of(user, first))
    await either.add_session_to_memory(session_of(user, first))
    await either.add_session_to_memory(session_of(user, first, second))

    assert (await texts(either, user, "umbrella")).count(UMBRELLA) == 1
    assert (await texts(either, user, "kettle")).count(KETTLE) == 1


async def test_events_are_added_to_a_stored_session(either: BaseMemoryService, user: str) -> None:
    await either.add_session_to_memory(session_of(user, event("e1", "user", UMBRELLA)))
    for _ in range(2):
        await either.add_events_to_memory(
            app_name=APP, user_id=user, events=[event("e2", "user", KETTLE)], session_id="monday"
        )

    assert (await texts(either, user, "umbrella")).count(UMBRELLA) == 1
    assert (await texts(either, user, "kettle")).count(KETTLE) == 1


async def test_events_without_a_session_are_found(either: BaseMemoryService, user: str) -> None:
    await either.add_events_to_memory(
        app_name=APP, user_id=user, events=[event("e1", "user", UMBRELLA)]
    )

    assert await texts(either, user, "umbrella") == [UMBRELLA]


async def test_users_find_only_their_own_sessions(either: BaseMemoryService, user: str) -> None:
    await either.add_session_to_memory(session_of(user, event("e1", "user", UMBRELLA)))

    assert await texts(either, f"not {user}", "green umbrella") == []


async def test_events_without_text_are_not_remembered(either: BaseMemoryService, user: str) -> None:
    image = types.Part.from_bytes(data=b"green umbrella", mime_type="image/png")
    await either.add_session_to_memory(
        session_of(user, event("e1", "user", image), Event(id="e2", author="user"))
    )

    assert await texts(either, user, "green umbrella") == []


async def test_a_deleted_session_stays_deleted(either: BaseMemoryService, user: str) -> None:
    session = session_of(user, event("e1", "user", UMBRELLA), event("e2", "user", KETTLE))
    await either.add_session_to_memory(session)
    found = await either.search_memory(app_name=APP, user_id=user, query="umbrella")
    (umbrella,) = [one for one in found.memories if UMBRELLA in str(one.content)]

    for memory_id in (umbrella.id, umbrella.id, None, "unknown"):
        await either.delete_memory(app_name=APP, user_id=user, memory_id=memory_id)
    await either.add_session_to_memory(session)

    assert UMBRELLA not in await texts(either, user, "green umbrella")
    assert KETTLE in await texts(either, user, "whistling kettle")


async def test_a_user_cannot_delete_another_users_session(
    either: BaseMemoryService, user: str
) -> None:
    await either.add_session_to_memory(session_of(user, event("e1", "user", UMBRELLA)))
    found = await either.search_memory(app_name=APP, user_id=user, query="umbrella")

    await either.delete_memory(app_name=APP, user_id=f"not {user}", memory_id=found.memories[0].id)

    assert await texts(either, user, "green umbrella") == [UMBRELLA]


async def test_an_agent_receives_messages_of_an_earlier_session(
    either: BaseMemoryService, user: str
) -> None:
    sessions = InMemorySessionService()
    await run_and_add(sessions, either, user, UMBRELLA, ["Noted."])
    call = types.FunctionCall(id="c1", name="load_memory", args={"query": "umbrella"})
    model = Scripted.answering(types.Part(function_call=call), types.Part(text="In the hall."))
    agent = LlmAgent(name="assistant", model=model, tools=[load_memory_tool])

    later = await run(sessions, either, user, agent, "Where is my umbrella?")
    await either.add_session_to_memory(later)

    assert UMBRELLA in model.requests[1].model_dump_json()
    assert later.events[-1].content == types.Content(
        role="model", parts=[types.Part(text="In the hall.")]
    )


async def test_a_question_preloads_earlier_messages(either: BaseMemoryService, user: str) -> None:
    sessions = InMemorySessionService()
    await run_and_add(sessions, either, user, UMBRELLA, ["Noted."])
    model = Scripted.answering(types.Part(text="In the hall."))
    agent = LlmAgent(name="assistant", model=model, tools=[preload_memory_tool])

    await run(sessions, either, user, agent, "Where is my umbrella?")

    assert UMBRELLA in str(model.requests[0].config.system_instruction) + str(
        model.requests[0].contents
    )


async def test_calls_and_results_are_remembered_but_not_the_memorys_own_answers(
    home: Path, service: LocalMemoryService, user: str
) -> None:
    weather = types.FunctionCall(id="c1", name="weather", args={"city": "Oslo"})
    sunny = types.FunctionResponse(id="c1", name="weather", response={"sky": "a clear sky"})
    recalled = types.FunctionResponse(id="c2", name="load_memory", response={"m": "a clear lie"})
    await service.add_session_to_memory(
        session_of(
            user,
            event("e1", "assistant", types.Part(function_call=weather)),
            event("e2", "user", types.Part(function_response=sunny)),
            event("e3", "user", types.Part(function_response=recalled)),
            event("e4", "assistant", types.Part(text="a clear thought", thought=True)),
        )
    )

    found = await found_by(home, user, "is it clear?")

    assert [(item.source_kind, item.label) for item in found] == [("tool_output", "weather")]
    assert "a clear sky" in found[0].content


async def test_facts_can_be_added(home: Path, service: LocalMemoryService, user: str) -> None:
    await service.add_memory(
        app_name=APP,
        user_id=user,
        memories=[
            MemoryEntry(
                content=types.Content(parts=[types.Part(text="Tea, no coffee.")]),
                custom_metadata={"topic": "user.drink"},
            )
        ],
        custom_metadata={"memory_type": "preference"},
    )

    (fact,) = await found_by(home, user, "tea or coffee?")

    assert (fact.topic, fact.memory_type, fact.content) == (
        "user.drink",
        "preference",
        "Tea, no coffee.",
    )
    with pytest.raises(InvalidArgumentsError, match="colour"):
        await service.add_memory(
            app_name=APP,
            user_id=user,
            memories=[MemoryEntry(content=types.Content(parts=[types.Part(text="Tea.")]))],
            custom_metadata={"colour": "green"},
        )


async def test_a_long_session_is_added_completely(
    home: Path, service: LocalMemoryService, user: str
) -> None:
    events = [event(f"e{number}", "user", f"Shelf {number}.") for number in range(1_001)]
    await service.add_session_to_memory(session_of(user, *events))

    assert "Shelf 1000." in {item.content for item in await found_by(home, user, "Shelf 1000")}


async def test_an_application_is_one_agent_of_its_user(
    service: LocalMemoryService, user: str
) -> None:
    """ADK's own service separates applications instead: see the page of the docs."""
    await service.add_session_to_memory(
        session_of(user, event("e1", "user", UMBRELLA), app="another app")
    )

    found = await service.search_memory(app_name=APP, user_id=user, query="umbrella")

    (memory,) = found.memories
    assert memory.custom_metadata["agent"] == "another app"


class Scripted(BaseLlm):
    """A model that gives scripted answers and stores its requests."""

    _answers: list[types.Part] = PrivateAttr()
    _requests: list[LlmRequest] = PrivateAttr(default_factory=list)

    @classmethod
    def answering(cls, *answers: types.Part) -> "Scripted":
        scripted = cls(model="scripted")
        scripted._answers = list(answers)
        return scripted

    @property
    def requests(self) -> list[LlmRequest]:
        return self._requests

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: ARG002
    ) -> AsyncGenerator[LlmResponse, None]:
        self._requests.append(llm_request.model_copy(deep=True))
        parts = [self._answers.pop(0)]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


async def run_and_add(
    sessions: InMemorySessionService,
    memory: BaseMemoryService,
    user: str,
    text: str,
    answers: list[str],
) -> None:
    """Run a session in which a user sends a text, and add the session to the memory."""
    model = Scripted.answering(*(types.Part(text=answer) for answer in answers))
    agent = LlmAgent(name="assistant", model=model)
    await memory.add_session_to_memory(await run(sessions, memory, user, agent, text))


async def run(
    sessions: InMemorySessionService,
    memory: BaseMemoryService,
    user: str,
    agent: LlmAgent,
    text: str,
) -> Session:
    """Run a session of one question, and return it."""
    runner = Runner(app_name=APP, agent=agent, session_service=sessions, memory_service=memory)
    session = await sessions.create_session(app_name=APP, user_id=user)
    question = types.Content(role="user", parts=[types.Part(text=text)])
    async for _ in runner.run_async(user_id=user, session_id=session.id, new_message=question):
        pass
    after = await sessions.get_session(app_name=APP, user_id=user, session_id=session.id)
    assert after is not None
    return after
