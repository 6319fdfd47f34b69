"""Echoes: which memories a turn repeats, and what it adds."""

import pytest

from local2.language.questions import without_questions
from local2.ledger.records import Shown
from local2.memory.intake.echoes import find_echo

CANBERRA = Shown(id="canberra", content="The capital of Australia is Canberra, not Sydney.")
BREAD = Shown(id="bread", content="Richard bakes sourdough bread every Saturday morning.")
QUESTION = "What do you remember about Australian geography?"
RESULT = "[Memory recall — 2026-11-20]\n1. (relevance: 0.88) 2026-11-01\n   " + CANBERRA.content


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(f"Here is what I remember: {RESULT}", id="quoted"),
        pytest.param("Canberra is the capital of Australia, rather than Sydney.", id="paraphrased"),
        pytest.param("You said that Australia's capital is Canberra.", id="in part"),
    ],
)
def test_an_answers_sources_are_exactly_the_memories_it_repeats(answer: str) -> None:
    reading = find_echo(QUESTION, answer, [BREAD, CANBERRA], [RESULT])

    assert reading.sources == ("canberra",)
    assert reading.of_question == {"recalled": True}
    assert "unanswered" not in reading.of_episode


def test_a_value_of_one_word_can_be_a_source() -> None:
    fact = Shown(id="language", content="Elixir")

    reading = find_echo("What language do I prefer?", "I remember: Elixir.", [fact], [])

    assert reading.sources == ("language",)
    assert reading.of_answer == {"recalled": True}


def test_a_users_statement_is_no_echo_whatever_was_shown_before() -> None:
    query = f"My new dog is called Rex. {QUESTION}"

    reading = find_echo(query, "The capital is Canberra, not Sydney.", [CANBERRA], [RESULT])

    assert reading.of_answer == {"recalled": True}
    assert reading.of_question == reading.of_episode == {}


@pytest.mark.parametrize(
    "answer",
    [
        "I remember nothing about that.",
        "I'm sorry, I don't have any information about that in my memory.",
        "I don\u2019t know. Could you tell me?",
        "Unfortunately I couldn't find anything in our earlier conversations.",
        "I have no record of Australian geography.",
    ],
)
def test_a_refusal_to_a_bare_question_answers_nothing(answer: str) -> None:
    reading = find_echo(QUESTION, answer, [BREAD], [])

    assert reading.sources == ()
    assert reading.of_question == reading.of_answer == reading.of_episode == {"unanswered": True}


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("What is the capital of France?", "Paris."),
        ("Why is the sky blue?", "I am not sure, but Rayleigh scattering explains most of it."),
        ("The capital of Australia is Canberra.", "Understood."),
        ("Is it safe?", "No, never mix bleach with ammonia: you must know that chlorine is toxic."),
    ],
)
def test_an_answer_without_sources_is_an_ordinary_memory(query: str, answer: str) -> None:
    reading = find_echo(query, answer, [BREAD], [])

    assert (reading.sources, reading.of_episode, reading.of_answer) == ((), {}, {})


def test_a_statement_beside_an_unanswered_question_is_an_ordinary_memory() -> None:
    query = "My sister cannot eat peanuts. What do you know about her?"

    reading = find_echo(query, "I remember nothing about that.", [], [])

    assert reading.of_answer == {"unanswered": True}
    assert reading.of_question == reading.of_episode == {}


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("What is it? I like tea.", "I like tea."),
        ("Could you remember that I like tea?", "Could you remember that I like tea?"),
        ("Tell me about tea.", ""),
        ("お茶は好きですか\uff1f", ""),
        ("Nothing but words", "Nothing but words"),
    ],
)
def test_statements_are_the_sentences_that_are_not_questions(text: str, stated: str) -> None:
    assert without_questions(text) == stated
