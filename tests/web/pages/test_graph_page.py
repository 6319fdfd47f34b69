"""Graph: what is around a thing or a memory, opened by clicking."""

import re
from collections.abc import Iterator
from typing import get_args

import httpx
import pytest
from playwright.sync_api import expect

from browsers import WIDE, Reader, Theme
from http_servers import HttpServer, call
from local2.web.pages.graph import MAX_NODES

RECORD_NOTICES = """
() => {
  window.notices = [];
  const observer = new MutationObserver(() => notices.push(
    ...[...document.querySelectorAll(".notices > *")].map((notice) => notice.innerText)));
  observer.observe(document.querySelector(".notices"), { childList: true, subtree: true });
}
"""
"""A notice is there for some seconds only, for which 300 nodes may keep a browser busy."""
OF_PICTURE = """
frame => {
  const boxes = (selector) =>
    [...frame.querySelectorAll(selector)].map((element) => element.getBoundingClientRect());
  const whole = frame.getBoundingClientRect();
  const isInside = box => box.left >= whole.left && box.right <= whole.right
    && box.top >= whole.top && box.bottom <= whole.bottom;
  const names = boxes(".name");
  const cover = (one, other) => one.left < other.right && other.left < one.right
    && one.top < other.bottom && other.top < one.bottom;
  const covering = names.filter(
    (name, number) => names.slice(number + 1).some((other) => cover(name, other)));
  return [boxes(".node circle").filter(box => !isInside(box)).length, covering.length];
}
"""
"""Counts nodes outside of the frame, and names that cover another one."""
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module", autouse=True)
def knowledge(ada: httpx.Client) -> dict[str, str]:
    """Facts about ships, one of them related to another fact; the ids by content."""
    facts = [
        {"subject": "Calypso", "predicate": "belongs to", "object": "Cousteau"},
        {"subject": "Cousteau", "predicate": "was born in", "object": HOSTILE},
        {"subject": "Beagle", "predicate": "carried", "object": "Darwin"},
    ]
    call(ada, "add_knowledge", facts=facts)
    ids = {
        content: str(call(ada, "remember_fact", content=content, scope="user")["data"]["id"])
        for content in ("Calypso needs a new engine.", "The engine costs too much.")
    }
    source, target = ids.values()
    call(ada, "relate", source=source, type="depends_on", target=target)
    return ids


def test_a_graph_is_opened_from_one_thing_to_the_next(reader: Reader) -> None:
    reader.open("/graph?thing=calypso")
    edges = reader.page.locator(".edges li")
    expect(edges).to_have_count(1)
    names = reader.page.locator(".graph .name")
    expect(names.filter(has_text="Cousteau")).to_be_visible()

    edges.get_by_role("button", name="Cousteau").click()

    expect(reader.page.get_by_role("heading", name="Around Cousteau")).to_be_visible()
    expect(edges).to_have_count(2)
    expect(edges.first.get_by_role("button").first).to_be_focused()
    expect(edges.first).to_contain_text(f"was born in{HOSTILE[:20]}")
    expect(reader.page.get_by_text("3 nodes and 2 relations")).to_be_visible()
    reader.check_accessibility()
    edges.last.get_by_role("button", name="Open").click()
    expect(reader.page.get_by_role("dialog")).to_contain_text("Calypso belongs to Cousteau.")


def test_a_node_of_the_picture_is_opened_by_a_click(reader: Reader) -> None:
    reader.open("/graph?thing=calypso")

    reader.page.locator(".graph .node", has_text="Cousteau").click()

    expect(reader.page.get_by_role("heading", name="Around Cousteau")).to_be_visible()
    expect(reader.page.locator(".graph .node")).to_have_count(3)


def test_a_picture_is_made_larger_and_seen_whole_again(reader: Reader) -> None:
    reader.open("/graph?thing=calypso")
    node = reader.page.locator(".graph .node", has_text="Cousteau").locator("circle")
    whole = node.get_attribute("cx")

    reader.page.get_by_role("button", name="Larger").click()
    expect(node).not_to_have_attribute("cx", str(whole))
    reader.page.get_by_role("button", name="Whole").click()

    expect(node).to_have_attribute("cx", str(whole))


def test_names_in_the_picture_are_as_readable_as_the_page(reader: Reader) -> None:
    colours = set()
    for theme in get_args(Theme):
        reader.show(theme, WIDE)
        reader.open("/graph?thing=calypso")
        name = reader.page.locator(".graph .name", has_text="Cousteau")
        ink = reader.page.locator("body").evaluate("body => getComputedStyle(body).color")
        expect(name).to_have_css("fill", ink)
        colours.add(ink)
    assert len(colours) == 2, "light and dark look the same"


def test_the_memories_related_to_one_are_around_it(
    reader: Reader, knowledge: dict[str, str]
) -> None:
    reader.open(f"/graph?id={knowledge['Calypso needs a new engine.']}")

    expect(reader.page.locator(".edges li")).to_contain_text(
        re.compile("Calypso needs a new engine.*depends on.*The engine costs too much")
    )


def test_a_memory_leads_to_what_it_is_related_to(reader: Reader, pages: HttpServer) -> None:
    with pages.client(**{"Local2-User": "eve"}) as eve:
        ids = [
            call(eve, "remember_fact", content=content, scope="user")["data"]["id"]
            for content in ("Eve sails on Sundays.", "Eve has a boat.")
        ]
        call(eve, "relate", source=ids[0], type="depends_on", target=ids[1])

    reader.open("/memories?words=sails&of=eve")
    reader.page.locator("[data-row]").click()
    reader.page.get_by_role("link", name="Show them in the graph").click()

    expect(reader.page.get_by_role("heading", name="Around Eve sails")).to_be_visible()
    reader.page.reload()
    expect(reader.page.locator(".edges li")).to_contain_text("depends onEve has a boat.")


def test_without_a_name_it_is_around_what_was_stated_last(reader: Reader) -> None:
    reader.open("/graph")
    expect(reader.page.get_by_role("heading", name="Stated last")).to_be_visible()
    expect(reader.page.locator(".edges")).to_contain_text("Darwin")
    entry = reader.page.get_by_label("Around a thing or person")

    entry.fill("Nobody at all")
    entry.press("Enter")

    expect(reader.page.locator(".empty")).to_contain_text("No fact names Nobody at all.")


@pytest.fixture
def crowd(pages: HttpServer) -> Iterator[httpx.Client]:
    """A user whose facts name more things than a picture shows."""
    with pages.client(**{"Local2-User": "ada"}) as client:
        for start in range(0, MAX_NODES + 60, 60):
            facts = [
                {"subject": f"Fleet {start}", "predicate": "has", "object": f"Ship {number}"}
                for number in range(start, start + 60)
            ]
            facts.append({"subject": "Navy", "predicate": "has", "object": f"Fleet {start}"})
            call(client, "add_knowledge", facts=facts)
        yield client


@pytest.mark.usefixtures("crowd")
def test_a_picture_has_a_limit(reader: Reader) -> None:
    reader.open("/graph?thing=Navy")
    edges = reader.page.locator(".edges")
    for start in range(0, MAX_NODES - 60, 60):
        edges.get_by_role("button", name=f"Fleet {start}", exact=True).first.click()
        expect(reader.page.get_by_role("heading", name=f"Around Fleet {start}")).to_be_visible()
        edges.get_by_role("button", name="Navy", exact=True).first.click()
        expect(reader.page.get_by_role("heading", name="Around Navy")).to_be_visible()
    reader.page.evaluate(RECORD_NOTICES)
    edges.get_by_role("button", name=f"Fleet {MAX_NODES - 60}", exact=True).first.click()

    expect(reader.page.get_by_text("300 nodes and")).to_be_visible()
    reader.page.wait_for_function("() => notices.some((text) => text.includes('Begin anew'))")
    frame = reader.page.locator(".graph")
    expect(frame.locator(".node")).to_have_count(MAX_NODES)
    outside, covering = frame.evaluate(OF_PICTURE)
    assert outside == 0
    assert covering == 0
