"""`local2 dead-letters` lists, shows, republishes and drops messages that could not be stored."""

import json
import time
from typing import Any

from commands import Served, answer, local2
from failing import UNREADABLE, publish_turns


def wait_for_letters(running: Served, count: int) -> list[dict[str, Any]]:
    """Wait until there are `count` dead letters, and return them."""
    deadline = time.monotonic() + 20
    while True:
        found: list[dict[str, Any]] = answer(running.folder, "dead-letters", "list")
        if len(found) == count:
            return found
        assert time.monotonic() < deadline, found


def test_dead_letters_are_listed_shown_published_again_and_dropped(running: Served) -> None:
    assert wait_for_letters(running, 0) == []
    assert "no dead letters" in local2(running.folder, "dead-letters", "list").stdout
    publish_turns(running, UNREADABLE, {**UNREADABLE, "source": "[red]\x1b[31mevil"})
    first, second = wait_for_letters(running, 2)

    assert (first["subject"], first["source"], first["cut"]) == (
        "response.generation",
        "critic",
        False,
    )
    assert first["reason"].startswith("answer: expected text, got null at payload.answer.")
    assert "message" not in first
    table = local2(running.folder, "dead-letters", "list").stdout
    assert "response.generation" in table.replace("\n", "")
    assert "[red]" in table
    assert "\x1b" not in table

    number = str(first["number"])
    shown = local2(running.folder, "dead-letters", "show", number).stdout
    assert json.dumps(UNREADABLE) in shown
    assert "response.generation from critic" in shown
    whole = answer(running.folder, "dead-letters", "show", number)
    assert json.loads(whole["letter"]["message"]) == UNREADABLE

    findings = {one["name"]: one for one in answer(running.folder, "doctor")}
    assert findings["dead letters"]["verdict"] == "note"
    assert findings["dead letters"]["detail"] == "2 messages could not be stored"
    assert "dead-letters list" in findings["dead letters"]["remedy"]

    # The message is still unreadable: its letter is dropped, and it becomes a new one.
    done = local2(running.folder, "dead-letters", "retry", number)
    assert (done.returncode, done.stdout) == (0, f"{number}: published again\n")
    numbers = [letter["number"] for letter in wait_for_letters(running, 2)]
    assert numbers[0] == second["number"]
    assert numbers[1] > second["number"]

    done = local2(running.folder, "dead-letters", "drop", str(numbers[0]), number)
    assert done.returncode == 1
    assert f"{numbers[0]}: dropped" in done.stdout
    assert f"There is no dead letter {number}." in done.stderr.replace("\n", " ")
    dropped = answer(running.folder, "dead-letters", "drop", "--all")
    assert dropped == [{"number": numbers[1], "done": "dropped"}]
    assert wait_for_letters(running, 0) == []
    findings = {one["name"]: one for one in answer(running.folder, "doctor")}
    assert findings["dead letters"]["verdict"] == "ok"


def test_retry_and_drop_need_either_numbers_or_all(running: Served) -> None:
    for words in (["retry"], ["drop"], ["drop", "1", "--all"]):
        done = local2(running.folder, "dead-letters", *words)

        assert done.returncode == 1
        assert "--all" in done.stderr
