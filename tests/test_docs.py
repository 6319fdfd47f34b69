"""What the docs name exists, and what is declared is in them."""

import re
from pathlib import Path

import command_page
import tool_page
from local2.errors import CODES
from local2.protocol import subjects

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "local2"
DOCS = ROOT / "docs"
SUBJECT = re.compile(r"[a-z]+(\.[a-z_]+)+")
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


def test_every_module_named_in_a_module_exists() -> None:
    folders = (SOURCE, ROOT / "tests", ROOT / "benchmarks")
    modules = [path for folder in folders for path in folder.rglob("*.py")]
    known = [path.as_posix() for path in (*modules, *ROOT.glob("*.py"))]

    missing = [
        (path.name, name)
        for path in modules
        for name in re.findall(r"`([\w/]+\.py)`", path.read_text(encoding="utf-8"))
        if not any(other.endswith(f"/{name}") for other in known)
    ]

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
