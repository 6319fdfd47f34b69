"""The report shows every step, and the actual result of a failed one."""

from rich.console import Console

from local2.cli.stories import results_table
from local2.stories.checks import Problem
from local2.stories.runner import StepResult, StoryResult


def shown(*steps: StepResult) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(results_table([StoryResult.from_steps("A story", steps)]))
    return captured.get()


def test_a_failed_step_shows_the_expected_and_the_actual_result() -> None:
    problem = Problem(expected="answer_contains: Elixir", came="I remember nothing.")
    step = StepResult(session="first", step="say: Hi", status="failed", problems=(problem,))
    text = shown(step)
    assert "failed" in text
    assert "expected answer_contains: Elixir" in text
    assert "got      I remember nothing." in text


def test_a_skipped_step_shows_why() -> None:
    step = StepResult(session="first", step="restart", status="skipped", reason="not ours")
    assert "not ours" in shown(step)


def test_brackets_in_texts_are_shown_unchanged() -> None:
    step = StepResult(session="first", step="say: [red]Hi[/red]", status="passed", seconds=0.25)
    text = shown(step)
    assert "[red]Hi[/red]" in text
    assert "0.25" in text
