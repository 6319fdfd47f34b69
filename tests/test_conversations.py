"""Long conversations on the whole stack answer every turn and remember early ones."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from local2.client.queries import QueryClient
from local2.settings import GeneratorSettings, Settings
from local2.stack.app import open_stack
from stacks import CALLER, in_step, settings_in

pytestmark = pytest.mark.usefixtures("worker_here")
TURNS = 40
"""Enough turns to fill the context, and that the third is long gone from it."""
TEAPOT = "The blue teapot stands in the cellar."
QUESTION = "What do you remember about the blue teapot?"
SMALL = 3_700
"""Tokens of a context that the tools and a few turns fill."""


def small(folder: Path) -> Settings:
    generator = GeneratorSettings(chat="rules", context_size=SMALL)
    return replace(settings_in(folder), generator=generator)


def line(number: int) -> str:
    """Return the text of a turn: about fifty tokens."""
    return TEAPOT if number == 3 else f"In turn {number} somebody says {'this and that, ' * 10}."


async def test_turn_three_is_known_after_many_turns_answered_by_rules(tmp_path: Path) -> None:
    """With a model, the story `long_conversation` has many turns."""
    async with open_stack(small(tmp_path)) as stack, QueryClient(stack.bus) as client:
        for number in range(TURNS):
            turn = await client.ask(line(number), caller=CALLER)
            assert turn.error is None

        answer = await client.ask(QUESTION, caller=CALLER)

    assert TEAPOT in answer.answer


async def test_a_question_asked_again_gets_the_same_answer_with_what_was_said_later(
    tmp_path: Path,
) -> None:
    cats, gone = "we got two cats, Miso and Tofu", "Tofu ran away, we only have Miso now"
    async with open_stack(small(tmp_path)) as stack, QueryClient(stack.bus) as client:
        for text in (cats, "It rains today.", "I bake bread.", "I work at night.", gone):
            await client.ask(text, caller=CALLER)
        await in_step(stack.bus)

        answers = []
        for _ in range(3):
            answer = await client.ask("How many cats do we have?", caller=CALLER)
            answers.append(answer.answer)
            await in_step(stack.bus)

    assert gone in answers[0]
    assert len(set(answers)) == 1
