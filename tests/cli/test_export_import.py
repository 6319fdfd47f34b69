"""`local2 export` and `import`: from one running stack to another, whole, in part, and again."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from commands import COMMAND, START_SECONDS, TALK, Served, answer, lines, local2, recalled, served
from local.protocol.portable import MAX_LINES_PER_MESSAGE, MESSAGE_LINE_BYTES
from stacks import settings_in

USER = ("--user", "ada")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Another stack, which has nothing of the first."""
    with served(settings_in(tmp_path_factory.mktemp("elsewhere"))) as stack:
        yield stack


@pytest.fixture(scope="module")
def exported(running: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything of a stack: a talk, one message of which no request holds as a line, and facts."""
    folder = tmp_path_factory.mktemp("exported")
    long = {"role": "user", "content": "Ő\n" * (MESSAGE_LINE_BYTES // 3)}
    many = [
        {"role": "user", "content": f"Message {number}."}
        for number in range(MAX_LINES_PER_MESSAGE + 20)
    ]
    talk = lines(folder / "talk.jsonl", [*TALK, long, *many])
    assert local2(running.folder, "ingest", talk, "--session", "s1", *USER).returncode == 0
    for value in ("Elixir", "Gleam"):
        local2(
            running.folder, "call", "save_topic", "topic=user.language", f"content={value}", *USER
        )
    file = folder / "all.jsonl"
    done = local2(running.folder, "export", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{file}: ")
    return file


def parsed(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def stored(file: Path) -> list[str]:
    """The lines of a file that are stored, in any order."""
    return sorted(file.read_text().splitlines()[1:-1])


def test_a_file_has_a_header_and_ends_with_its_counts(exported: Path) -> None:
    header, *rest, end = parsed(exported)

    assert (header["type"], header["format"]) == ("header", 3)
    types = [line["type"] for line in rest]
    assert end == {"type": "end", "counts": {name: types.count(name) for name in end["counts"]}}
    assert set(end["counts"]) >= {"record", "audit"}
    assert (
        header["records"]
        == end["counts"]["record"]
        == MAX_LINES_PER_MESSAGE + 20 + len(TALK) + 1 + 2
    )
    assert not exported.with_name("all.jsonl.part").exists()


def test_a_file_that_cannot_be_written_is_named_with_what_to_do(
    running: Served, tmp_path: Path
) -> None:
    failed = local2(running.folder, "export", str(tmp_path / "missing" / "all.jsonl"))

    assert failed.returncode == 1
    assert "cannot be written to: No such file or directory." in failed.stderr
    assert "or name another file." in failed.stderr


def test_another_stack_has_all_of_it_and_importing_again_changes_nothing(
    exported: Path, elsewhere: Served, tmp_path: Path
) -> None:
    (dry,) = answer(elsewhere.folder, "import", str(exported), "--dry-run")
    (first,) = answer(elsewhere.folder, "import", str(exported))
    again = local2(elsewhere.folder, "import", str(exported))

    counts = parsed(exported)[-1]["counts"]
    assert dry["data"] == first["data"] == {"new": counts}
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == f"{exported}: 0 imported, {sum(counts.values())} already known.\n"
    assert recalled(elsewhere.folder, "densest metal", *USER)
    history = answer(elsewhere.folder, "history", "user.language", *USER)
    assert [one["content"] for one in history["versions"]] == ["Gleam", "Elixir"]
    back = tmp_path / "back.jsonl"
    local2(elsewhere.folder, "export", str(back))
    assert stored(back) == stored(exported)


def test_an_export_can_be_piped_into_an_import(
    running: Served, elsewhere: Served, exported: Path
) -> None:
    words = ["export", "-", "--scope", "user", *USER]
    done = _run(running.folder, *words)
    piped = _run(elsewhere.folder, "import", "-", "--json", given=done.stdout)

    assert done.stderr.endswith(b"exported.\n")
    report = json.loads(piped.stdout)[0]["data"]
    there = parsed(exported)[-1]["counts"]["record"]
    assert report.get("new", {}).get("record", 0) + report.get("known", {})["record"] == there


def test_a_wrong_line_is_named_and_nothing_of_its_file_is_imported(
    exported: Path, elsewhere: Served, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.jsonl"
    good = exported.read_text().splitlines()
    for number, line, says in (
        (3, "{", "truncated"),
        (4, '{"type": "record", "id": "new"}', "missing required field `kind`"),
        (5, '{"type": "relation", "source": "a", "relation": "b", "target": "c", "d": 1}', "`d`"),
        (6, good[0], "out of place"),
    ):
        fresh = json.dumps({**json.loads(good[1]), "id": f"wrong {number}"})
        lines_ = [good[0], fresh, *good[1:]]
        lines_[number - 1] = line
        wrong.write_text("\n".join(lines_))

        failed = local2(elsewhere.folder, "import", str(wrong))

        assert failed.returncode == 1
        assert f"Line {number} " in failed.stderr
        assert says in failed.stderr
        assert failed.stderr.startswith(f"{wrong}: Line {number} ")
        assert failed.stderr.rstrip().endswith("Nothing was imported.")


def test_a_file_that_was_cut_short_or_is_of_a_newer_local2_is_refused(
    exported: Path, elsewhere: Served, tmp_path: Path
) -> None:
    good = exported.read_text().splitlines()
    header = {**json.loads(good[0]), "format": 4, "local2": "9.0"}
    for text, says in (
        ("\n".join(good[:-1]), "cut short"),
        ("\n".join([*good[:5], good[-1]]), "says that there are"),
        ("\n".join([json.dumps(header), *good[1:]]), "Update local2."),
        ("", "cut short"),
    ):
        (tmp_path / "bad.jsonl").write_text(text)
        failed = local2(elsewhere.folder, "import", str(tmp_path / "bad.jsonl"))
        assert failed.returncode == 1
        assert says in failed.stderr


def test_an_import_that_broke_off_says_how_far_it_came_and_is_completed_by_another(
    exported: Path, tmp_path: Path
) -> None:
    """What comes on standard input is stored as it comes."""
    with served(settings_in(tmp_path)) as stack:
        good = exported.read_bytes().splitlines()
        broken = b"\n".join([*good[: MAX_LINES_PER_MESSAGE + 2], b"{"])

        failed = _run(stack.folder, "import", "-", given=broken)
        (done,) = answer(stack.folder, "import", str(exported))

        counts = parsed(exported)[-1]["counts"]
        assert failed.returncode == 1
        assert b"-: 5 records imported" in failed.stderr, "up to the one that comes in pieces"
        assert f"Line {MAX_LINES_PER_MESSAGE + 3} ".encode() in failed.stderr
        assert b"Import it again" in failed.stderr
        assert done["data"]["known"] == {"record": 5}
        assert done["data"]["new"]["record"] == counts["record"] - 5
        back = tmp_path / "back.jsonl"
        local2(stack.folder, "export", str(back))
        assert stored(back) == stored(exported)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--scope", "user"), "--user"),
        (("--scope", "session"), "--session"),
    ],
)
def test_a_scope_needs_to_know_whose(
    running: Served, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    file = tmp_path / "none.jsonl"
    file.write_text("A backup.")

    failed = local2(running.folder, "export", str(file), *words)

    assert failed.returncode == 1
    assert says in failed.stderr
    assert file.read_text() == "A backup.", "what was there stays"


def _run(folder: Path, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *words],
        cwd=folder,
        input=given,
        capture_output=True,
        timeout=START_SECONDS,
        check=False,
    )
