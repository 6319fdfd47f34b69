"""`local2 add-document`, `recall`, `history` and `relations` store documents and query memories."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from commands import TALK, Served, answer, lines, local2, recalled, remember
from local2.cli.answers import SHOWN_LINES
from local2.cli.output import Output
from local2.cli.recall import show_recalled
from local2.protocol.memory_tools import Answer, Explanation, RecalledItem, RecalledItems
from waiting import wait_until

PLANTS = "# Plants\n\nWater the ficus on Mondays.\n"


@pytest.mark.parametrize("command", ["ingest", "add-document"])
def test_a_file_that_cannot_be_read_is_named(running: Served, tmp_path: Path, command: str) -> None:
    missing = answer(running.folder, command, "missing.txt", str(tmp_path))

    assert [one["file"] for one in missing] == ["missing.txt", str(tmp_path)]
    assert all("cannot be read" in one["error"] for one in missing)


def test_documents_are_stored_and_invalid_files_are_named(running: Served, tmp_path: Path) -> None:
    guide, image = tmp_path / "guide.md", tmp_path / "image.png"
    guide.write_bytes(b"\xef\xbb\xbf" + PLANTS.encode())
    image.write_bytes(b"\x89PNG\r\n\x1a\n\x00")
    nul, empty = tmp_path / "nul.txt", tmp_path / "empty.txt"
    nul.write_bytes(b"a\x00b")
    empty.write_text("\n")
    large = tmp_path / "large.txt"
    large.write_text("x" * 900_001)

    words = [str(file) for file in (image, nul, empty, large, guide)]
    failed = local2(running.folder, "add-document", *words)

    assert failed.returncode == 1
    for file, problem in {
        image: "It is not UTF-8 text.",
        nul: "It is not UTF-8 text.",
        empty: "It is empty.",
        large: "The document has more than the maximum of 900,000 bytes",
    }.items():
        assert f"{file}: {problem}" in failed.stderr
    assert failed.stdout.startswith(f"{guide}: Document stored in 1 chunk: ")
    found = recalled(running.folder, "ficus", "--source-kinds", "document_chunk")
    (chunk,) = [item for item in found if item["content"] == PLANTS.strip()]
    assert chunk["label"] == "guide › Plants"  # noqa: RUF001 - the separator of labels
    assert chunk["source_ref"] == f"{guide}#1"


def test_a_document_added_again_is_unchanged_or_replaced(running: Served, tmp_path: Path) -> None:
    file = tmp_path / "guide.md"
    words = ("add-document", str(file), "--title", "Green guide", "--source", "guide")
    file.write_text("The palm is watered on Mondays.")
    (first,) = answer(running.folder, *words)
    (again,) = answer(running.folder, *words)
    file.write_text("The palm is watered on Fridays.")
    (changed,) = answer(running.folder, *words)

    assert first["data"]["source"] == "guide"
    assert [done["data"]["added"] for done in (first, again, changed)] == [1, 0, 0]
    assert again["data"]["unchanged"] == 1
    assert changed["data"]["replaced"] == 1
    found = recalled(running.folder, "palm", "--source-kinds", "document_chunk")
    palms = [(item["label"], item["content"]) for item in found if "palm" in item["content"]]
    assert palms == [("Green guide", "The palm is watered on Fridays.")]


def test_a_question_needs_no_quotes(running: Served) -> None:
    options = "--top-k", "1", "--json"
    quoted = "recall", "which unheard-of city", *options
    wait_until(lambda: not answer(running.folder, *quoted[:-1])["degraded"])

    asked = local2(running.folder, "recall", "which", "unheard-of", "city", *options)

    assert asked.returncode == 0
    assert asked.stdout == local2(running.folder, *quoted).stdout
    assert local2(running.folder, "ask", "thank", "you").stdout == "You are welcome.\n"


@pytest.mark.parametrize("option", ["--title", "--source"])
def test_a_title_or_source_for_several_documents_is_refused(running: Served, option: str) -> None:
    failed = local2(running.folder, "add-document", "a.md", "b.md", option, "guide")

    assert failed.returncode == 1
    assert "apply to a single document" in failed.stderr


def test_recall_lists_the_results(running: Served, tmp_path: Path, user: str) -> None:
    long = {**TALK[0], "name": "Ann", "content": "The osmium \x1b[31m\nring " + "glows " * 200}
    local2(
        running.folder,
        "ingest",
        lines(tmp_path / "talk.jsonl", [TALK[1], long]),
        *("--session", "talk", "--user", user),
    )

    words = ("--user", user, "--source-kinds", "chat_message")
    listed = local2(running.folder, "recall", "osmium", *words).stdout

    numbers = [line.split()[0] for line in listed.splitlines() if not line.startswith("   ")]
    assert numbers[:2] == ["1.", "2."]
    assert "  2023-05-08 13:57  chat_message  session talk\n   Osmium.\n" in listed
    assert "  2023-05-08 13:56  chat_message  Ann  session talk\n   The osmium [31m ring " in listed
    glowing = [line for line in listed.splitlines() if "glows" in line]
    assert len(glowing) == SHOWN_LINES
    assert glowing[-1].endswith("glows …")
    assert max(map(len, glowing)) <= 80


def test_recall_applies_its_options(running: Served, tmp_path: Path, user: str) -> None:
    file = lines(tmp_path / "talk.jsonl", TALK)
    local2(running.folder, "ingest", file, "--session", "talk", "--user", user)

    def found(*words: str) -> list[str]:
        return [item["content"] for item in recalled(running.folder, "densest osmium yes", *words)]

    own = ("--user", user, "--source-kinds", "chat_message")
    on_the_8th = {TALK[0]["content"], TALK[1]["content"]}
    assert set(found(*own)) == {*on_the_8th, "yes"}
    assert set(found(*own, "--until", "2023-05-08")) == on_the_8th
    assert found(*own, "--since", "2023-05-09") == ["yes"]
    assert found(*own, "--since", "2023-05-08T13:57", "--until", "2023-05-08T16:57+03:00") == [
        "Osmium."
    ]
    assert set(found(*own, "--as-of", "2023-05-08")) == on_the_8th
    assert found(*own, "--min-relevance", "1") == [found(*own)[0]]
    assert found(*own, "--scope", "session", "--session", "other") == []
    assert found("--user", user, "--source-kinds", "fact", "--source-kinds", "tool_output") == []
    assert found("--user", f"not {user}", "--source-kinds", "chat_message") == []


@pytest.mark.parametrize(
    ("words", "exit_code", "message"),
    [
        pytest.param(["--since", "noon"], 1, "since: 'noon' is not a date", id="since"),
        pytest.param(
            ["--since", "2023-05-09", "--until", "2023-05-08"],
            1,
            "since (2023-05-09 00:00 UTC) is after until (2023-05-08 23:59 UTC)",
            id="since-after-until",
        ),
        pytest.param(["--as-of", "noon"], 1, "as_of: 'noon'", id="as-of"),
        pytest.param(["--min-relevance", "2"], 1, "min_relevance", id="min-relevance"),
        pytest.param(["--source-kinds", "episode"], 2, "episode", id="kind"),
        pytest.param(["--scope", "user", "--user", ""], 1, "user", id="a scope without a user"),
    ],
)
def test_invalid_options_are_named(
    running: Served, words: list[str], exit_code: int, message: str
) -> None:
    failed = local2(running.folder, "recall", "osmium", *words)

    assert failed.returncode == exit_code
    assert message in failed.stderr


def test_an_error_of_the_tool_is_json_with_the_json_option(running: Served) -> None:
    assert answer(running.folder, "recall", " ")["error"]["code"] == "invalid_arguments"
    assert answer(running.folder, "recall", "x", "--since", "?")["error"]["code"] == (
        "invalid_arguments"
    )


def test_explain_shows_the_components_of_the_score(
    running: Served, tmp_path: Path, user: str
) -> None:
    file = lines(tmp_path / "talk.jsonl", TALK)
    local2(running.folder, "ingest", file, "--user", user)
    words = ("recall", "osmium", "--user", user, "--top-k", "1")
    # Until it has its vector, components of its score are missing.
    wait_until(lambda: not answer(running.folder, *words)["degraded"])

    plain = local2(running.folder, *words).stdout
    explained = local2(running.folder, *words, "--explain").stdout
    (item,) = answer(running.folder, *words, "--explain")["items"]

    names = re.findall(r"(\w+)=", "".join(explained.splitlines()[2:]))
    assert names == [
        *(name for name, share in item["explanation"]["shares"].items() if share),
        "weight",
    ]
    assert "words" in names
    assert "weight" not in plain


def test_history_shows_which_version_is_active(running: Served, user: str) -> None:
    for value in ("Vim", "Emacs"):
        words = ("topic=user.editor", f"content={value}")
        local2(running.folder, "call", "save_topic", *words, "--user", user)

    by_topic = local2(running.folder, "history", "user.editor", "--user", user).stdout
    versions = answer(running.folder, "history", "user.editor", "--user", user)["versions"]
    by_id = answer(running.folder, "history", versions[1]["id"], "--user", user)["versions"]

    assert [line.split()[0] for line in by_topic.splitlines()] == [
        "active",
        "Emacs",
        "replaced",
        "Vim",
    ]
    assert [version["content"] for version in versions] == ["Emacs", "Vim"]
    assert by_id == versions


@pytest.mark.parametrize(
    "words",
    [
        ("history", "user.nosuch"),
        ("explain", "gold", "nosuch"),
        ("relations", "nosuch"),
        ("tasks", "retry", "nosuch"),
    ],
)
def test_naming_what_is_not_there_is_an_error(
    running: Served, user: str, words: tuple[str, ...]
) -> None:
    of = () if "tasks" in words else ("--user", user)
    failed = local2(running.folder, *words, *of)

    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("Error: ")
    assert answer(running.folder, *words, *of)["error"]["code"] == "invalid_arguments"


def test_a_search_or_a_list_that_finds_nothing_succeeds(running: Served, user: str) -> None:
    for words in (("recall", "osmium"), ("list", "osmium"), ("audit", "nosuch")):
        found = local2(running.folder, *words, "--user", user)
        assert (found.returncode, found.stderr) == (0, "")
        assert found.stdout.startswith("No")


def test_without_a_stack_nothing_is_read_or_written(tmp_path: Path) -> None:
    file = lines(tmp_path / "talk.jsonl", TALK)
    for words in (
        ["recall", "x"],
        ["history", "user.x"],
        ["ingest", file],
        ["add-document", file],
        ["call", "recall_topic", "topic=user.x"],
    ):
        failed = local2(tmp_path, *words)
        assert failed.returncode == 1
        assert "No stack is running" in failed.stderr
        assert "local2 up" in failed.stderr


def printed_recall(capsys: pytest.CaptureFixture[str], **fields: Any) -> str:
    """Return the output for a recall that found one item."""
    item = RecalledItem(
        id="1",
        source_kind="fact",
        source_ref=None,
        content="Osmium is the densest metal.",
        event_time=datetime(2023, 5, 8, 13, 57, tzinfo=UTC),
        score=0.5,
        topic="project.metal",
        memory_type="fact",
        label=None,
        session_id=None,
        explanation=fields.pop("explanation", None),
    )
    usual = {"degraded": False, "rerank_used": False, "reason": None, "answer": None}
    show_recalled(Output(), RecalledItems(**{"items": [item], "total": 1, **usual, **fields}))
    return capsys.readouterr().out


def test_an_incomplete_search_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed_recall(capsys) == (
        "1. 0.50  2023-05-08 13:57  fact  project.metal\n   Osmium is the densest metal.\n"
    )
    degraded = printed_recall(capsys, degraded=True, reason="No worker [yet].")
    assert degraded.endswith("Some memories were searched by words only: No worker [yet].\n")
    assert printed_recall(capsys, rerank_used=True).endswith("A reranker determined this order.\n")
    assert printed_recall(capsys, items=[]) == "No memories found.\n"
    unsure = printed_recall(capsys, items=[], degraded=True, reason="No worker [yet].")
    assert unsure.startswith("No memories found.\n(Not everything could be searched, ")
    assert "No worker [yet]." in " ".join(unsure.split())


def test_what_does_not_hold_any_more_is_marked(running: Served, user: str) -> None:
    for city in ("Oslo", "Rome"):
        saved = ("call", "save_topic", "topic=user.city", f"content=In {city}")
        local2(running.folder, *saved, "--user", user)

    question = "recall", "In which city did I live?", "--user", user
    found = local2(running.folder, *question).stdout

    present, former = found.split("In Oslo")[0].split("In Rome")
    assert "outdated" not in present
    assert "user.city  outdated by 1" in former


def test_an_answer_names_its_sources(capsys: pytest.CaptureFixture[str]) -> None:
    answered = Answer(text="It is osmium.", ids=("1",), by_model=True)
    nothing = Answer(by_model=True)
    extract = Answer(text="Osmium is the densest metal.", ids=("1",))

    expected = "It is osmium.\nThe answer is based on 1.\n1. 0.50"
    assert printed_recall(capsys, answer=answered).startswith(expected)
    assert printed_recall(capsys, answer=nothing).startswith(
        "These results do not answer the question."
    )
    no_model = "No model wrote an answer from these results.\n1"
    assert printed_recall(capsys, answer=extract).startswith(no_model)
    assert printed_recall(capsys, answer=Answer(), items=[]) == "No memories found.\n"


def test_score_components_of_zero_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    shares = {"meaning": 0.7, "words": 0.0, "echo": -0.2}

    explained = printed_recall(capsys, explanation=Explanation(shares=shares, weight=0.8))

    assert explained.splitlines()[2] == "   meaning=+0.70 echo=-0.20 weight=0.8"


def test_relations_of_a_memory_are_listed_from_either_side(running: Served, user: str) -> None:
    own = ("--user", user)
    pump = remember(running.folder, "The pump broke.", user)
    oil = remember(running.folder, "The oil ran out.", user)
    edge = (f"source={pump}", "type=caused_by", f"target={oil}")
    local2(running.folder, "call", "relate", *edge, *own)

    (one,) = answer(running.folder, "relations", pump, *own)["relations"]
    assert (one["type"], one["id"], one["incoming"]) == ("caused_by", oil, False)
    listed = local2(running.folder, "relations", oil, *own).stdout
    assert listed.startswith("it caused_by this")
    assert pump in listed
    assert "The pump broke." in listed
    refused = local2(running.folder, "relations", oil, "--user", f"not {user}")
    assert refused.returncode == 1
    assert "no memory with this id" in refused.stderr


def test_a_command_explains_places_and_what_is_left_out(running: Served) -> None:
    stored = [
        answer(running.folder, "call", "remember_fact", f"content={content}")["data"]["id"]
        for content in ("The yacht is moored in Genoa.", "A yacht needs a harbour.")
    ]
    question = "Where is the yacht moored?"

    explained = answer(running.folder, "explain", question, stored[1], "--top-k", "1")
    shown = local2(running.folder, "explain", question, "--top-k", "1").stdout
    shown = " ".join(shown.split())

    assert explained["memories"][0]["id"] == stored[0]
    assert (explained["asked"]["outcome"], explained["asked"]["rank"]) == ("beyond_top_k", 2)
    assert "The yacht is moored in Genoa." in shown
    assert "took the places. It ranks as number 2." in shown
    assert "meaning=" in shown
