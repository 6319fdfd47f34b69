"""`local2 tasks` lists what failed, tries it again and discards it; `growth`, `retention` count."""

import sqlite3
from contextlib import closing

from commands import Served, answer, local2


def set_aside(running: Served, content: str, user: str) -> str:
    """Store a fact whose task `judge` was refused; return its id."""
    remembered = answer(
        running.folder, "call", "remember_fact", f"content={content}", "scope=user", "--user", user
    )
    id_ = str(remembered["data"]["id"])
    ledger = running.folder / ".local2" / "ledger.sqlite3"
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute(
            "INSERT INTO task (tenant, kind, record, place, state, attempts, error)"
            " SELECT tenant, 'judge', row, place, 'aside', 4, 'It was refused.'"
            " FROM record WHERE id = ?",
            (id_,),
        )
    return id_


def test_failed_tasks_are_listed_tried_again_and_discarded(running: Served, user: str) -> None:
    ids = {set_aside(running, f"Ada likes tea {number}.", user) for number in range(3)}
    words = ("tasks", "list", "--kind", "judge")

    listed = answer(running.folder, *words)
    shown = local2(running.folder, *words).stdout
    first, *others = sorted(ids)
    tried = local2(running.folder, "tasks", "retry", first)
    left = answer(running.folder, *words)
    discarded = answer(running.folder, "tasks", "discard", *others)
    refused = local2(running.folder, "tasks", "discard")

    assert {task["id"] for task in listed["failed"]} == ids
    assert "It was refused." in shown
    assert tried.stdout == "1 tasks are tried again.\n"
    assert {task["id"] for task in left["failed"]} == set(others)
    assert discarded["changed"] == 2
    assert not discarded.get("failed")
    assert (refused.returncode, "--all" in refused.stderr) == (1, True)


def test_growth_and_the_dry_run_of_retention_are_shown(running: Served, user: str) -> None:
    for city in ("Rome", "Paris"):
        local2(
            running.folder, "call", "save_topic", "topic=user.city", f"content={city}",
            "--user", user,
        )  # fmt: skip

    (today,) = answer(running.folder, "growth", "--days", "1", "--user", user)["days"]
    report = answer(running.folder, "retention")

    assert (today["kind"], today["added"]) == ("fact", 2)
    assert (report["anonymise"], report["due"], report["records"]) == ("dry_run", 0, [])
    assert "0 memories" in local2(running.folder, "retention").stdout
