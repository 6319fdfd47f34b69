"""What the docs name is there: modules, pages, decisions in their order."""

import re
from itertools import count
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "local"
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]


def test_every_link_leads_to_a_file() -> None:
    links = [
        (page, link)
        for page in PAGES
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    ]

    assert links
    assert [link for page, link in links if not (page.parent / link).exists()] == []


def test_every_module_that_the_architecture_names_is_there() -> None:
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


def test_decisions_are_numbered_without_gaps_and_doubles() -> None:
    numbers = sorted(int(page.name[:4]) for page in (DOCS / "decisions").glob("*.md"))

    assert numbers == [number for number, _ in zip(count(1), numbers, strict=False)]
