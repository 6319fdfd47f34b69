"""Answers are based on the items found, or are the best item itself."""

import threading
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from calling import caller_named
from local2.language import passages
from local2.ledger.records import Fact, Record
from local2.llm.models import StructuredModel
from local2.memory.recall.recaller import RecallRequest
from local2.memory.recall.results import RecallItem
from local2.memory.recall.synthesis import (
    ALL_CHARACTERS,
    ITEM_CHARACTERS,
    Synthesis,
)
from local2.memory.tenant import Memory
from local2.protocol.memory_tools import Answer
from local2.protocol.payloads import ToolCallRecord
from recalling import chat_message, recalled_item
from stand_ins.ollama_server import OllamaStandIn

QUESTION = "Where does Ada live?"


SAID_AT = datetime(2026, 5, 1, tzinfo=UTC)


def item(id_: str, content: str, speaker: str | None = None) -> RecallItem:
    record = Record(id=id_, kind="fact", content=content, event_time=SAID_AT, label=speaker)
    return recalled_item(record)


ITEMS = [
    item("berlin", "Ada lives in Berlin.", "Bob"),
    item("tea", "Ada likes tea."),
    item("flat", "The flat is in Mitte."),
]
BEST = Answer(text="Ada lives in Berlin.", ids=("berlin",), by_model=False)


@pytest.fixture
def synthesis(model: StructuredModel) -> Synthesis:
    return Synthesis(model, within=10)


async def test_the_answer_names_the_items_that_support_it(
    ollama: OllamaStandIn, synthesis: Synthesis
) -> None:
    ollama.script_json({"answer": " In Berlin, in Mitte.\n", "numbers": [3, 1, 3]})

    answer = await synthesis.answer(QUESTION, ITEMS)

    assert answer == Answer(text="In Berlin, in Mitte.", ids=("berlin", "flat"), by_model=True)


async def test_the_model_sees_the_question_and_the_items_with_time_and_speaker(
    ollama: OllamaStandIn, synthesis: Synthesis
) -> None:
    ollama.script_json({"answer": "", "numbers": []})

    await synthesis.answer(QUESTION, ITEMS[:2])

    spoken_at = "2026-05-01T00:00:00Z"
    assert ollama.materials() == [
        {
            "question": QUESTION,
            "items": [
                {
                    "number": 1,
                    "said": spoken_at,
                    "speaker": "Bob",
                    "source": "asserted",
                    "text": "Ada lives in Berlin.",
                },
                {
                    "number": 2,
                    "said": spoken_at,
                    "source": "asserted",
                    "text": "Ada likes tea.",
                },
            ],
        }
    ]


async def test_the_model_sees_the_speaker_or_topic_of_each_item(
    ollama: OllamaStandIn, synthesis: Synthesis, memory: Memory
) -> None:
    memory._shared = msgspec.structs.replace(memory._shared, synthesis=synthesis)
    calls = [ToolCallRecord(name="atlas", content="Ada: Berlin.")]
    service = memory.of(caller_named("richard"))
    await service.intake.store_conversation(
        [chat_message("Ada lives in Berlin.", name="Bob"), chat_message("And Ada?")]
    )
    await service.intake.store_conversation(
        [chat_message("Ada does.", "assistant", tool_calls=calls)]
    )
    await service.facts.store(Fact(content="Ada is a cat.", scope="user"))
    await service.facts.store_topic("user.friend", "Ada")
    ollama.script_json({"answer": "", "numbers": []})

    await service.synthesize(QUESTION, await service.recall(RecallRequest(query="Ada", top_k=9)))

    (material,) = ollama.materials()
    authors = {item["text"]: item.get("speaker", item.get("topic")) for item in material["items"]}
    assert authors == {
        "Ada lives in Berlin.": "Bob",
        "And Ada?": "user",
        "Ada does.": "assistant",
        "Ada: Berlin.": "atlas",
        "Ada is a cat.": None,
        "Ada": "user.friend",
    }


async def test_numbers_that_match_no_item_are_left_out(
    ollama: OllamaStandIn, synthesis: Synthesis
) -> None:
    ollama.script_json({"answer": "In Berlin.", "numbers": [0, -1, 1, 4]})

    assert (await synthesis.answer(QUESTION, ITEMS)).ids == ("berlin",)


@pytest.mark.parametrize("numbers", [[], [0, 4]])
async def test_an_answer_that_no_item_supports_is_not_given(
    ollama: OllamaStandIn, synthesis: Synthesis, numbers: list[int]
) -> None:
    ollama.script_json({"answer": "On the moon.", "numbers": numbers})

    assert await synthesis.answer(QUESTION, ITEMS) == BEST


async def test_a_question_that_the_items_do_not_answer_stays_unanswered(
    ollama: OllamaStandIn, synthesis: Synthesis
) -> None:
    ollama.script_json({"answer": " ", "numbers": [1]})

    assert await synthesis.answer(QUESTION, ITEMS) == Answer(text="", ids=(), by_model=True)


async def test_without_items_the_answer_is_empty_and_the_model_is_not_called(
    ollama: OllamaStandIn, synthesis: Synthesis
) -> None:
    assert await synthesis.answer(QUESTION, []) == Answer(text="", ids=(), by_model=False)
    assert await Synthesis(None, within=10).answer(QUESTION, []) == Answer()
    assert ollama.materials() == []


async def test_the_model_sees_as_much_text_as_fits_best_items_first(
    ollama: OllamaStandIn, synthesis: Synthesis
) -> None:
    many = [item(str(n), f"{n} " * ITEM_CHARACTERS) for n in range(20)]
    ollama.script_json({"answer": "Zero.", "numbers": [1, 20]})

    answer = await synthesis.answer(QUESTION, many)

    shown = [item["text"] for item in ollama.materials()[0]["items"]]
    assert sum(len(text) for text in shown) == ALL_CHARACTERS
    assert {len(text) for text in shown} == {ITEM_CHARACTERS}
    assert [text[0] for text in shown] == list("012345")
    assert answer.ids == ("0",)


async def test_without_a_model_the_beginning_of_a_long_item_is_the_answer() -> None:
    answer = await Synthesis(None, within=1).answer(QUESTION, [item("long", "word " * 200_000)])

    assert len(answer.text) < ITEM_CHARACTERS + 10
    assert answer.text.endswith("…")


@pytest.mark.parametrize("by_model", [True, False])
async def test_the_passages_of_long_items_are_found_beside_the_event_loop(
    synthesis: Synthesis, monkeypatch: pytest.MonkeyPatch, *, by_model: bool
) -> None:
    name = "passage" if by_model else "cut_to_passage"
    find, threads = getattr(passages, name), list[threading.Thread]()

    def record_thread(text: str, question: str, limit: int) -> Any:
        threads.append(threading.current_thread())
        return find(text, question, limit)

    monkeypatch.setattr(f"local2.memory.recall.synthesis.{name}", record_thread)
    used = synthesis if by_model else Synthesis(None, within=1)

    await used.answer(QUESTION, [item("long", "word " * 10_000)])

    assert [thread is threading.main_thread() for thread in threads] == [False]


async def test_what_was_said_later_belongs_to_an_item(
    ollama: OllamaStandIn, synthesis: Synthesis
) -> None:
    said_at = datetime(2026, 5, 11, tzinfo=UTC)
    moved = Record(id="moved", kind="fact", content="Ada has moved to Rome.", event_time=said_at)
    berlin = msgspec.structs.replace(ITEMS[0], later=(moved,))
    ollama.script_json({"answer": "In Rome.", "numbers": [1]})

    answer = await synthesis.answer(QUESTION, [berlin])
    quoted = await Synthesis(None, within=1).answer(QUESTION, [berlin])

    (material,) = ollama.materials()
    assert material["items"][0]["later"] == [
        {"said": "2026-05-11T00:00:00Z", "text": moved.content, "source": "asserted"}
    ]
    assert answer.text == "In Rome."
    assert quoted.text == "Ada lives in Berlin.\n(later, 2026-05-11) Ada has moved to Rome."


@pytest.mark.parametrize(
    ("items", "ids"),
    [
        pytest.param(ITEMS, ("berlin",), id="the best"),
        pytest.param([msgspec.structs.replace(ITEMS[0], score=0.1)], (), id="that hardly matches"),
        pytest.param([item("asked", "where does Ada live"), *ITEMS], ("berlin",), id="that says"),
        pytest.param([item("asked", QUESTION)], (), id="only the question itself"),
    ],
)
async def test_without_a_model_the_answer_is_the_best_item_that_answers_or_empty(
    items: list[RecallItem], ids: tuple[str, ...]
) -> None:
    assert (await Synthesis(None, within=10).answer(QUESTION, items)).ids == ids
