"""`local2 tasks` lists what failed, tries it again and discards it; `growth`, `retention` count."""

from commands import Served, answer, local2, remember
from failing import fail_to_judge


def test_failed_tasks_are_listed_tried_again_and_discarded(
    running_alone: Served, user: str
) -> None:
    ids = {remember(running_alone.folder, f"Ada likes tea {n}.", user) for n in range(3)}
    for id_ in ids:
        fail_to_judge(running_alone, id_)
    listing = ("tasks", "list", "--kind", "judge")

    listed = answer(running_alone.folder, *listing)
    shown = local2(running_alone.folder, *listing).stdout
    first, *others = sorted(ids)
    tried = local2(running_alone.folder, "tasks", "retry", first)
    left = answer(running_alone.folder, *listing)
    discarded = answer(running_alone.folder, "tasks", "discard", *others)
    refused = local2(running_alone.folder, "tasks", "discard")

    assert {task["id"] for task in listed["failed"]} == ids
    assert "It was refused." in shown
    assert tried.stdout == "1 task is tried again.\n"
    assert {task["id"] for task in left["failed"]} == set(others)
    assert discarded["changed"] == 2
    assert not discarded.get("failed")
    assert (refused.returncode, "--all" in refused.stderr) == (1, True)


def test_growth_and_the_dry_run_of_retention_are_shown(running_alone: Served, user: str) -> None:
    for city in ("Rome", "Paris"):
        local2(
            running_alone.folder, "call", "save_topic", "topic=user.city", f"content={city}",
            "--user", user,
        )  # fmt: skip

    (today,) = answer(running_alone.folder, "growth", "--days", "1", "--user", user)["days"]
    report = answer(running_alone.folder, "retention")

    assert (today["kind"], today["added"]) == ("fact", 2)
    assert (report["anonymise"], report["due"], report["records"]) == ("dry_run", 0, [])
    assert "0 memories" in local2(running_alone.folder, "retention").stdout
