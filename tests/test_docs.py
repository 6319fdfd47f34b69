"""What the docs name exists, and what is declared is in them; decisions are numbered."""

import re
from itertools import count
from pathlib import Path

import command_page
import tool_page
from local2.errors import CODES
from local2.protocol import subjects

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "local2"
DOCS = ROOT / "docs"
DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))
STATUS = re.compile(r"Accepted · \d{4}-\d\d-\d\d(?: · changed \d{4}-\d\d-\d\d)?")
SUBJECT = re.compile(r"[a-z]+(\.[a-z_]+)+")
PARTS = ["**Context.**", "**Decision.**", "**Rejected.**", "**Consequences.**"]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]


def test_every_link_points_to_a_file() -> None:
    links = [
        (page, link)
        for page in PAGES
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    ]

    assert links
    assert [link for page, link in links if not (page.parent / link).exists()] == []


def test_every_module_named_in_the_architecture_exists() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    table = text[text.index("| to find |") : text.index("## One save")]

    missing = []
    for row in table.splitlines():
        folder = SOURCE
        for name in re.findall(r"`([\w/.]+)`", row.rpartition(" | ")[2]):
            found = next(
                (p for p in (SOURCE / name, folder / name, ROOT / name) if p.exists()), None
            )
            folder = found.parent if found and "/" in name else folder
            missing += [] if found else [name]

    assert missing == []


def test_the_page_of_the_tools_says_what_the_tools_declare() -> None:
    assert tool_page.PAGE.read_text(encoding="utf-8") == tool_page.page()


def test_the_page_of_the_commands_says_what_they_declare() -> None:
    assert command_page.PAGE.read_text(encoding="utf-8") == command_page.page()


def test_the_protocol_names_every_subject_and_every_error_code() -> None:
    text = (DOCS / "protocol.md").read_text(encoding="utf-8")
    named = [subject for subject in vars(subjects).values() if isinstance(subject, str)]
    wanted = [name for name in named if SUBJECT.fullmatch(name) and name != subjects.RESPONSES]
    # A row may shorten the further subjects of a group: `vector.search`, `.upsert`.
    missing = [
        name
        for name in wanted
        if f"`{name}`" not in text and f"`.{name.rpartition('.')[2]}`" not in text
    ]
    assert wanted
    assert missing == []
    assert [code for code in CODES if f"| `{code}` |" not in text] == []


def test_decisions_are_numbered_without_gaps_or_duplicates() -> None:
    numbers = sorted(int(page.name[:4]) for page in DECISIONS)

    assert numbers == [number for number, _ in zip(count(1), numbers, strict=False)]


def test_every_decision_has_a_status_and_all_parts_and_is_in_the_index() -> None:
    index = (DOCS / "decisions" / "README.md").read_text(encoding="utf-8").splitlines()
    for page in DECISIONS:
        title, _, status, *lines = page.read_text(encoding="utf-8").splitlines()
        assert STATUS.fullmatch(status), f"{page.name}: {status}"
        starts = [part for line in lines for part in PARTS if line.startswith(part)]
        assert starts == PARTS, f"{page.name}: {starts}"
        entry = f"- {page.name[:4]} [{title.removeprefix('# ')}]({page.name})"
        assert index.count(entry) == 1, entry
