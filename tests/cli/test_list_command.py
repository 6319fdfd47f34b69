"""`local2 list` shows what is remembered as a table, or as JSON."""

from pathlib import Path

from commands import Served, answer, local2, remember, served
from stacks import settings_in


def test_memories_are_listed_the_newest_first_and_filtered(running: Served, user: str) -> None:
    folder = running.folder
    for content in ("Ada likes green tea.", "Ada lives in Rome.", "Ada drinks tea at five."):
        remember(running.folder, content, user)

    def listed(*words: str) -> list[str]:
        page = answer(folder, "list", "--scope", "user", *words, "--user", user)
        return [memory["content"] for memory in page["memories"]]

    assert listed() == ["Ada drinks tea at five.", "Ada lives in Rome.", "Ada likes green tea."]
    assert listed("tea", "green") == ["Ada likes green tea."]
    assert listed("--limit", "1") == ["Ada drinks tea at five."]
    assert listed("--since", "2999-01-01") == []
    assert listed("--of", user, "rome") == ["Ada lives in Rome."]
    shown = local2(folder, "list", "tea", "--scope", "user", "--user", user)
    assert "Ada likes green tea." in shown.stdout
    assert "Rome" not in shown.stdout
    (memory,) = answer(folder, "list", "green", "--scope", "user", "--user", user)["memories"]
    assert memory["id"] in shown.stdout


def test_a_list_says_that_there_are_more_and_continues(running: Served, user: str) -> None:
    folder = running.folder
    for number in range(3):
        remember(running.folder, f"Metal {number} is dense.", user)
    words = ("list", "--scope", "user", "--limit", "2", "--user", user)

    shown = local2(folder, *words)
    first = answer(folder, *words)
    rest = answer(folder, *words, "--after", first["next"])

    assert "There are more" in shown.stdout
    assert [memory["content"] for memory in rest["memories"]] == ["Metal 0 is dense."]
    assert "next" not in rest


def test_an_empty_list_and_a_wrong_condition_are_reported(running: Served, user: str) -> None:
    empty = local2(running.folder, "list", "--scope", "user", "--user", user)
    refused = local2(running.folder, "list", "--since", "tomorrow", "--user", user)

    assert "No memories." in empty.stdout
    assert refused.returncode == 1
    assert "since" in refused.stderr


def test_an_overview_counts_memories_and_names_users(running: Served, user: str) -> None:
    remember(running.folder, "Ada likes green tea.", user)

    own = answer(running.folder, "overview", "--user", user)
    shown = local2(running.folder, "overview", "--everybody", "--user", user)

    assert {"scope": "user", "kind": "fact", "active": 1, "past": 0} in [
        {name: one[name] for name in ("scope", "kind", "active", "past")} for one in own["counts"]
    ]
    assert user[:20] in shown.stdout  # a long name is folded


def test_an_overview_of_an_empty_memory_says_so(tmp_path: Path) -> None:
    with served(settings_in(tmp_path)) as empty:
        shown = local2(empty.folder, "overview")

    assert (shown.returncode, shown.stdout) == (0, "No memories.\n")
