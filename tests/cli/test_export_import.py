"""`local2 export` and `import` copy a memory, or a part, from one stack to another."""

import json
import tracemalloc
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from commands import TALK, Served, answer, lines, local2, recalled, served
from local2.protocol.portable import (
    FORMAT,
    MAX_LINE_BYTES,
    MAX_LINES_PER_MESSAGE,
    MESSAGE_LINE_BYTES,
)
from stacks import settings_in

USER = ("--user", "ada")


def stack_in(folder: Path) -> AbstractContextManager[Served]:
    """Run a stack that embeds nothing: that would take longer than the imports."""
    return served(settings_in(folder, embedder="ollama"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with stack_in(tmp_path_factory.mktemp("source")) as stack:
        yield stack


@pytest.fixture(scope="module")
def other_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Run another stack without any records of the first."""
    with stack_in(tmp_path_factory.mktemp("other_stack")) as stack:
        yield stack


@pytest.fixture
def empty_stack(tmp_path: Path) -> Iterator[Served]:
    with stack_in(tmp_path / "empty") as stack:
        yield stack


@pytest.fixture(scope="module")
def exported(source: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export a stack with facts and a talk; one message is too large for one request."""
    folder = tmp_path_factory.mktemp("exported")
    long = {"role": "user", "content": "Ő\n" * (MESSAGE_LINE_BYTES // 3)}
    many = [
        {"role": "user", "content": f"Message {number}."}
        for number in range(MAX_LINES_PER_MESSAGE + 20)
    ]
    talk = lines(folder / "talk.jsonl", [*TALK, long, *many])
    assert local2(source.folder, "ingest", talk, "--session", "s1", *USER).returncode == 0
    for value in ("Elixir", "Gleam"):
        local2(
            source.folder,
            "call",
            "save_topic",
            "topic=user.language",
            f"content={value}",
            *USER,
        )
    file = folder / "all.jsonl"
    done = local2(source.folder, "export", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{file}: ")
    return file


def parsed_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def stored_lines(file: Path) -> list[str]:
    """Return the record lines of a file, sorted."""
    return sorted(file.read_text().splitlines()[1:-1])


def test_a_file_has_a_header_and_ends_with_its_counts(exported: Path) -> None:
    header, *rest, end = parsed_lines(exported)

    assert (header["type"], header["format"]) == ("header", FORMAT)
    types = [line["type"] for line in rest]
    assert end == {"type": "end", "counts": {name: types.count(name) for name in end["counts"]}}
    assert set(end["counts"]) >= {"record", "audit"}
    assert (
        header["records"]
        == end["counts"]["record"]
        == MAX_LINES_PER_MESSAGE + 20 + len(TALK) + 1 + 2
    )
    assert not exported.with_name("all.jsonl.part").exists()


def test_an_export_file_that_cannot_be_written_is_named_with_a_remedy(
    source: Served, tmp_path: Path
) -> None:
    failed = local2(source.folder, "export", str(tmp_path / "missing" / "all.jsonl"))

    assert failed.returncode == 1
    assert "cannot be written to: No such file or directory." in failed.stderr
    assert "Create the folder, or name another file." in failed.stderr


def test_an_export_that_fails_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    failed = local2(tmp_path, "export", str(tmp_path / "all.jsonl"))

    assert failed.returncode == 1
    assert "No stack is running" in failed.stderr
    assert not list(tmp_path.glob("all.jsonl*"))


def test_an_import_restores_everything_and_a_second_one_changes_nothing(
    exported: Path, empty_stack: Served, tmp_path: Path
) -> None:
    (dry,) = answer(empty_stack.folder, "import", str(exported), "--dry-run")
    (first,) = answer(empty_stack.folder, "import", str(exported))
    again = local2(empty_stack.folder, "import", str(exported))

    counts = parsed_lines(exported)[-1]["counts"]
    assert dry["data"] == first["data"] == {"new": counts}
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == f"{exported}: 0 imported, {sum(counts.values())} already known.\n"
    assert recalled(empty_stack.folder, "densest metal", *USER)
    history = answer(empty_stack.folder, "history", "user.language", *USER)
    assert [one["content"] for one in history["versions"]] == ["Gleam", "Elixir"]
    exported_again = tmp_path / "back.jsonl"
    local2(empty_stack.folder, "export", str(exported_again))
    assert stored_lines(exported_again) == stored_lines(exported)


def test_an_invalid_line_is_named_and_nothing_of_its_file_is_imported(
    exported: Path, other_stack: Served, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.jsonl"
    good_lines = exported.read_text().splitlines()
    for number, line, message in (
        (3, "{", "truncated"),
        (4, '{"type": "record", "id": "new"}', "missing required field `kind`"),
        (5, '{"type": "relation", "source": "a", "relation": "b", "target": "c", "d": 1}', "`d`"),
        (6, good_lines[0], "out of place"),
    ):
        fresh = json.dumps({**json.loads(good_lines[1]), "id": f"wrong {number}"})
        lines_ = [good_lines[0], fresh, *good_lines[1:]]
        lines_[number - 1] = line
        wrong.write_text("\n".join(lines_))

        failed = local2(other_stack.folder, "import", str(wrong))

        assert failed.returncode == 1
        assert f"Line {number} " in failed.stderr
        assert message in failed.stderr
        assert failed.stderr.startswith(f"{wrong}: Line {number} ")
        assert failed.stderr.rstrip().endswith("Nothing was imported.")


def test_lines_that_break_a_rule_are_refused_by_name_and_the_others_imported(
    exported: Path, other_stack: Served, tmp_path: Path
) -> None:
    header, record, *_, end = exported.read_text().splitlines()
    new = {**json.loads(record), "id": "kept", "content": "Kept."}
    relation = {"type": "relation", "source": "kept", "relation": "befriends", "target": "kept"}
    counts = {"counts": {"record": 2, "relation": 1}}
    long = {**new, "id": "x" * 10_000}
    lines_ = [json.loads(header), new, long, relation, {**json.loads(end), **counts}]
    file = tmp_path / "refused.jsonl"
    file.write_text("\n".join(map(json.dumps, lines_)))

    done = local2(other_stack.folder, "import", str(file))
    (again,) = answer(other_stack.folder, "import", str(file))

    assert done.returncode == 1
    assert "1 record imported, 0 already known, 2 refused." in done.stdout
    assert "Line 3 was refused: id: expected at most 256 characters" in done.stdout
    assert "Line 4 was refused: relation: expected one of" in done.stdout
    assert [one["line"] for one in again["data"]["refused"]] == [3, 4]


@pytest.mark.parametrize(
    "words", [("import", "--as", "local2"), ("ingest",)], ids=["import", "ingest"]
)
def test_a_line_that_never_ends_is_refused_without_being_read_whole(
    other_stack: Served, tmp_path: Path, words: tuple[str, ...]
) -> None:
    file = tmp_path / "endless.jsonl"
    with file.open("wb") as sparse:
        sparse.truncate(20 * MAX_LINE_BYTES)
    tracemalloc.start()
    try:
        failed = local2(other_stack.folder, *words, str(file))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert failed.returncode == 1
    assert "Line 1 has more than 32,000,000 bytes." in failed.stdout + failed.stderr
    assert peak < 4 * MAX_LINE_BYTES


def test_a_file_with_too_few_or_many_lines_or_of_a_newer_local2_is_refused(
    exported: Path, other_stack: Served, tmp_path: Path
) -> None:
    good_lines = exported.read_text().splitlines()
    header = {**json.loads(good_lines[0]), "format": FORMAT + 1, "local2": "9.0"}
    for text, message in (
        ("\n".join(good_lines[:-1]), "cut short"),
        ("\n".join([*good_lines[:5], good_lines[-1]]), "says that there are"),
        ("\n".join([*good_lines, good_lines[1]]), "follows the last line of the export"),
        ("\n".join([json.dumps(header), *good_lines[1:]]), "Update local2."),
        ("", "is empty"),
    ):
        (tmp_path / "bad.jsonl").write_text(text)
        failed = local2(other_stack.folder, "import", str(tmp_path / "bad.jsonl"))
        assert failed.returncode == 1
        assert message in failed.stderr


def test_an_interrupted_import_reports_its_progress_and_a_piped_export_completes_it(
    source: Served, exported: Path, tmp_path: Path
) -> None:
    """Standard input is stored as it arrives."""
    with stack_in(tmp_path) as stack:
        good_lines = exported.read_text().splitlines()
        broken = "\n".join([*good_lines[: MAX_LINES_PER_MESSAGE + 2], "{"])

        failed = local2(stack.folder, "import", "-", given=broken)
        piped = local2(source.folder, "export", "-", "--scope", "user", *USER)
        completed = local2(stack.folder, "import", "-", "--json", given=piped.stdout)
        (done,) = json.loads(completed.stdout)

        counts = parsed_lines(exported)[-1]["counts"]
        assert failed.returncode == 1
        assert "-: 5 records imported" in failed.stderr, "up to the record that is sent in pieces"
        assert f"Line {MAX_LINES_PER_MESSAGE + 3} " in failed.stderr
        assert "Import it again" in failed.stderr
        assert piped.stderr.endswith("exported.\n")
        assert done["data"]["known"] == {"record": 5}
        assert done["data"]["new"]["record"] == counts["record"] - 5
        exported_again = tmp_path / "back.jsonl"
        local2(stack.folder, "export", str(exported_again))
        assert stored_lines(exported_again) == stored_lines(exported)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--scope", "user", "--user", ""), "--user"),
        (("--scope", "session"), "--session"),
    ],
)
def test_a_scope_needs_its_user_or_session(
    source: Served, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    file = tmp_path / "none.jsonl"
    file.write_text("A backup.")

    failed = local2(source.folder, "export", str(file), *words)

    assert failed.returncode == 1
    assert message in failed.stderr
    assert file.read_text() == "A backup.", "the existing file is unchanged"
