"""With accounts, a person's token opens the page of that tenant, with the rights of the role."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import httpx
import msgspec
import pytest
from anyio.from_thread import start_blocking_portal
from playwright.sync_api import Browser, Page, expect

from browsers import Reader, in_another_thread
from commands import Served, local2, served
from http_servers import HttpServer, call
from local2.cli.page import page_beside
from local2.errors import ConfigError
from local2.settings import HttpSettings, Settings
from tenant_agents import ACCOUNTS, token_for, with_tenants
from waiting import wait_until


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("accounts")
    tenants = in_another_thread(with_tenants, folder, "acme", "beta")
    return msgspec.structs.replace(tenants, http=HttpSettings(port=0, web=True))


@pytest.fixture(scope="module")
def stack(settings: Settings) -> Iterator[Served]:
    with served(settings) as running:
        yield running


class Tokens(NamedTuple):
    ada: str
    ada_reads: str
    bob: str
    boss: str
    foreign: str


@pytest.fixture(scope="module")
def tokens(stack: Served) -> Tokens:
    def token(tenant: str, user: str, *options: str) -> str:
        return in_another_thread(token_for, stack.folder, tenant, user, *options)

    return Tokens(
        ada=token("acme", "ada", "--role", "writer"),
        ada_reads=token("acme", "ada", "--role", "reader"),
        bob=token("acme", "bob"),
        boss=token("acme", "boss", "--role", "admin"),
        foreign=token("beta", "ada"),
    )


@pytest.fixture(scope="module")
def tenant_pages(settings: Settings, stack: Served, tokens: Tokens) -> Iterator[HttpServer]:
    """The page that the stack starts beside itself, with an agent of the tenant."""
    agent = ("tenants", "add", "acme", "--agent", "web", "--role", "admin")
    added = in_another_thread(local2, stack.folder, *agent)
    assert added.returncode == 0, added.stderr
    credentials = stack.folder / ACCOUNTS / "acme" / "web.nk"
    bus = msgspec.structs.replace(settings.bus, credentials=credentials)
    with_agent = msgspec.structs.replace(settings, bus=bus)
    beside = page_beside(with_agent, by_tenant=True, log_folder=None)
    with (
        without_signs_of_a_test(),
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(beside) as page,
    ):
        running = HttpServer(page.removesuffix("/"), "", page)
        with running.client(tokens.ada) as ada:
            # It starts, and the bus refuses everybody while it reads its accounts again.
            wait_until(lambda: answers(ada))
            call(ada, "remember_fact", content="Ada skis.", scope="user")
        with running.client(tokens.bob) as bob:
            call(bob, "remember_fact", content="Bob swims.", scope="user")
        yield running


@contextmanager
def without_signs_of_a_test() -> Iterator[None]:
    """NiceGUI behaves differently in tests of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTEST_CURRENT_TEST", raising=False)
        yield


def answers(client: httpx.Client) -> bool:
    with suppress(httpx.ConnectError):
        return client.post("/v1/tools/top_memories").status_code == 200
    return False


@pytest.fixture(scope="module")
def tenant_window(browser: Browser) -> Iterator[Page]:
    with browser.new_context() as context:
        yield context.new_page()


@pytest.fixture
def page(tenant_pages: HttpServer, tenant_window: Page) -> Iterator[Page]:
    """The page, of which nobody has signed in."""
    tenant_window.goto(str(tenant_pages.page))
    yield tenant_window
    tenant_window.context.clear_cookies()


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Your token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def look_at_memories(page: Page, token: str) -> None:
    sign_in(page, token)
    page.get_by_role("link", name="Memories").click()


def test_without_an_agent_of_its_own_there_is_no_page(settings: Settings) -> None:
    with start_blocking_portal() as portal:
        beside = page_beside(settings, by_tenant=True, log_folder=None)
        opening = portal.wrap_async_context_manager(beside)
        with pytest.raises(ConfigError, match="needs an agent") as raised, opening:
            pass
    assert "local2 tenants add" in str(raised.value.remedy)


def test_a_token_shows_what_its_user_may_see_until_signing_out(page: Page, tokens: Tokens) -> None:
    look_at_memories(page, tokens.ada)
    rows = page.locator("[data-row]")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Ada skis.")
    rows.click()
    expect(page.get_by_role("button", name="Edit")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Your token")).to_be_visible()


def test_a_reader_can_change_nothing(page: Page, tokens: Tokens) -> None:
    look_at_memories(page, tokens.ada_reads)
    page.locator("[data-row]").click()
    expect(page.get_by_role("checkbox")).to_have_count(0)
    expect(page.locator(".drawer .facts")).to_be_visible()
    expect(page.locator(".drawer button")).to_have_count(1)  # it closes


@pytest.mark.parametrize(("named", "role"), [("ada_reads", "reader"), ("boss", "admin")])
def test_the_stack_says_what_a_token_permits(
    tenant_pages: HttpServer, tokens: Tokens, named: str, role: str
) -> None:
    with tenant_pages.client(getattr(tokens, named)) as client:
        rights = client.post("/v1/services/memory.rights").json()

    assert (rights["tenant"], rights["role"]) == ("acme", role)
    assert "recall" in rights["actions"]
    assert ("browse_all" in rights["actions"]) is (role == "admin")


def test_an_admin_sees_the_tenants_users(page: Page, tokens: Tokens) -> None:
    look_at_memories(page, tokens.boss)
    expect(page.locator("[data-row]")).to_have_count(2)
    page.locator("[data-row]", has_text="Ada skis.").click()
    expect(page.locator(".drawer")).to_contain_text("Only ada sees its versions and relations")
    expect(page.locator(".drawer button")).to_have_count(1)  # it closes


def test_a_page_whose_token_has_expired_says_so_where_one_signs_in(
    page: Page, tenant_pages: HttpServer
) -> None:
    page.goto(f"{tenant_pages.url}/sign-in?expired")
    expect(page.get_by_role("alert")).to_contain_text("Your token has expired")
    expect(page.get_by_label("Your token")).to_be_visible()


@pytest.mark.parametrize("of", ["another tenant", "nobody"])
def test_a_token_of_nobody_here_is_refused(page: Page, tokens: Tokens, of: str) -> None:
    sign_in(page, tokens.foreign if of == "another tenant" else "e30.e30.e30")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Your token")).to_be_visible()


def test_an_admin_sees_agents_and_quotas_and_rotates_the_key_of_tokens(
    page: Page, tenant_pages: HttpServer, tokens: Tokens
) -> None:
    sign_in(page, tokens.boss)
    page.get_by_role("link", name="Accounts").click()

    expect(page.locator("tr", has_text="web")).to_contain_text("admin")
    expect(page.locator("dl", has_text="Records")).to_contain_text("acme")
    Reader(page, str(tenant_pages.page)).check_accessibility()
    signing = page.locator("dt", has_text="Signed with").locator("+ dd")
    before = signing.inner_text()
    page.get_by_role("button", name="Rotate").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Rotate").click()

    expect(page.get_by_text("signed with another key.")).to_be_visible()
    expect(signing).not_to_have_text(before)
    expect(page.locator("dt", has_text="Also accepted").locator("+ dd")).to_have_text(before)
    page.reload()  # tokens of the former key are accepted
    expect(page.locator("tr", has_text="web")).to_be_visible()


def test_a_writer_has_no_page_of_accounts(page: Page, tokens: Tokens) -> None:
    sign_in(page, tokens.ada)

    expect(page.get_by_role("link", name="Memories")).to_be_visible()
    for name in ("Accounts", "Live", "Upkeep"):
        expect(page.get_by_role("link", name=name)).to_have_count(0)


@pytest.mark.parametrize("path", ["/live", "/upkeep", "/accounts"])
def test_the_address_of_a_page_that_the_role_does_not_permit_shows_nothing_of_it(
    page: Page, tenant_pages: HttpServer, tokens: Tokens, path: str
) -> None:
    look_at_memories(page, tokens.ada_reads)
    expect(page.locator("[data-row]").first).to_be_visible()

    page.goto(f"{tenant_pages.url}{path}")

    expect(page.locator(".page-content")).to_contain_text("Your role does not permit this page.")
    expect(page.locator(".page-content")).to_contain_text("sign in with a token of a higher one")
    expect(page.get_by_label("Filter")).to_have_count(0)


def test_what_others_stated_for_everybody_cannot_be_changed(
    page: Page, tenant_pages: HttpServer, tokens: Tokens
) -> None:
    content = "All of acme ski."
    with tenant_pages.client(tokens.boss) as boss:
        call(boss, "remember_fact", content=content, scope="tenant")
    look_at_memories(page, tokens.ada)
    row = page.locator("[data-row]", has_text=content)
    expect(row).to_be_visible()
    expect(row.get_by_role("checkbox")).to_have_count(0)
    expect(page.locator("[data-row]", has_text="Ada skis.").get_by_role("checkbox")).to_be_visible()
    row.click()
    expect(page.locator(".drawer .facts")).to_be_visible()
    expect(page.locator(".drawer button")).to_have_count(1)  # it closes
