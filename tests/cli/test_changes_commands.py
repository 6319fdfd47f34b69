"""`local2 consolidate`, `undo` and `audit` preview, list and undo changes."""

import pytest

from commands import Served, answer, local2, remember


@pytest.fixture
def duplicates(running_alone: Served, user: str) -> Served:
    remember(running_alone.folder, "Ada likes green tea.", user)
    remember(running_alone.folder, "ada likes green tea", user)
    return running_alone


def test_a_dry_run_lists_the_changes_that_a_run_makes_and_undo_reverts(
    duplicates: Served, user: str
) -> None:
    folder = duplicates.folder
    preview = local2(folder, "consolidate", "--dry-run", "--user", user)
    assert preview.returncode == 0
    assert "merge" in preview.stdout
    assert "Facts checked: 2. Would change: 1 merged." in preview.stdout
    assert answer(folder, "audit", "--user", user)["entries"] == []

    report = answer(folder, "consolidate", "--user", user)
    run = report["run"]
    (change,) = report["changes"]
    assert (change["action"], change["content"]) == ("merged", "Ada likes green tea.")

    shown = local2(folder, "audit", change["id"], "--user", user).stdout
    assert "merged" in shown
    lines = [line.strip() for line in shown.splitlines()]
    assert {change["id"], f"→ {change['superseded_by']}", f"run {run}"} <= {*lines}
    assert "…" not in shown
    assert "green" not in shown
    (entry,) = answer(folder, "audit", "--run", run, "--user", user)["entries"]
    assert (entry["id"], entry["run"], entry["by"]) == (change["id"], run, "self")
    versions = local2(folder, "history", change["id"], "--user", user).stdout
    assert "merged" in versions

    undone = local2(folder, "undo", run, "--user", user)
    assert undone.returncode == 0
    assert f"1 memory is as it was before run {run}." in undone.stdout
    entries = answer(folder, "audit", "--user", user, "--limit", "1")["entries"]
    assert [one["action"] for one in entries] == ["undone"]
    again = local2(folder, "undo", run, "--user", user)
    assert f"Not done: {change['id']}; it has changed since." in again.stdout


def test_consolidate_and_audit_say_if_there_is_nothing_to_do(
    running_alone: Served, user: str
) -> None:
    folder = running_alone.folder

    done = local2(folder, "consolidate", "--user", user)
    empty = local2(folder, "audit", "--user", user)

    assert "Nothing to change." in done.stdout
    assert "local2 undo" not in done.stdout
    assert "Nothing was changed." in empty.stdout


def test_a_memory_is_edited_retired_and_hidden_by_its_id_and_each_is_undone(
    running_alone: Served, user: str
) -> None:
    folder = running_alone.folder
    remember(running_alone.folder, "Ada likes green tea.", user)

    def listed(state: str = "active") -> list[str]:
        page = answer(folder, "list", "--scope", "user", "--state", state, "--user", user)
        return [memory["content"] for memory in page["memories"]]

    def id_of_active() -> str:
        (memory,) = answer(folder, "list", "--scope", "user", "--user", user)["memories"]
        return str(memory["id"])

    why = ("--reason", "A mistake.", "--user", user)
    edited = answer(folder, "edit", id_of_active(), "Ada likes black tea.", *why)
    assert (listed(), listed("replaced")) == (["Ada likes black tea."], ["Ada likes green tea."])
    for command, state in (("retire", "retired"), ("hide", "hidden")):
        id_ = id_of_active()
        shown = local2(folder, command, id_, *why)
        assert shown.returncode == 0, shown.stderr
        assert (listed(), listed(state)) == ([], ["Ada likes black tea."])
        run = answer(folder, "audit", id_, "--user", user)["entries"][0]["run"]
        assert f"`local2 undo {run} --user {user}` undoes it." in " ".join(shown.stdout.split())
        assert local2(folder, "undo", run, "--user", user).returncode == 0
        assert listed() == ["Ada likes black tea."]
    assert local2(folder, "undo", edited["run"], "--user", user).returncode == 0
    assert listed() == ["Ada likes green tea."]


def test_a_wrong_id_is_refused_in_words_for_people(running_alone: Served, user: str) -> None:
    def refused(id_: str) -> str:
        edited = local2(
            running_alone.folder, "edit", id_, "Ada.", "--reason", "Wrong.", "--user", user
        )
        assert edited.returncode == 1
        return edited.stderr

    assert refused("") == "Error: The text is empty - at `id`.\n"
    assert refused("nonsense").startswith("Error: id: there is no fact or note with this id")
    assert "`related`" not in refused("nonsense")


def test_an_unknown_run_is_refused(running_alone: Served, user: str) -> None:
    refused = local2(running_alone.folder, "undo", "nonsense", "--user", user)

    assert refused.returncode == 1
    assert "there is no run 'nonsense'" in refused.stderr
