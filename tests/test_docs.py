"""Modules, pages and decisions named in the docs exist; decisions are numbered, with a status."""

import re
from itertools import count
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "local2"
DOCS = ROOT / "docs"
DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))
NUMBER = re.compile(r"\d{4}")
STATUS = re.compile(
    r"(Accepted|Superseded(?: in part)? by (\d{4}(?: and \d{4})*))"
    r" · \d{4}-\d\d-\d\d(?: · supersedes (.+))?"
)
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


def test_decisions_are_numbered_without_gaps_or_duplicates() -> None:
    numbers = sorted(int(page.name[:4]) for page in DECISIONS)

    assert numbers == [number for number, _ in zip(count(1), numbers, strict=False)]


def test_every_decision_has_a_status_that_the_index_repeats() -> None:
    index = (DOCS / "decisions" / "README.md").read_text(encoding="utf-8").splitlines()
    superseded, superseding = set(), set()
    for page in DECISIONS:
        number, (title, _, line, *_) = page.name[:4], page.read_text(encoding="utf-8").splitlines()
        found = STATUS.fullmatch(re.sub(r"\[(\d{4})\]\([^)]*\)", r"\1", line))
        assert found, f"{page.name}: {line}"
        status, news, olds = found.groups()
        superseded |= {(number, new) for new in NUMBER.findall(news or "")}
        superseding |= {(old, number) for old in NUMBER.findall(olds or "")}
        entry = f"- {number} [{title.removeprefix('# ')}]({page.name}): {status.lower()}"
        assert index.count(entry) == 1, entry

    assert superseded == superseding
