"""Accounts: who has access to the tenant's memory, what it may store, and the key of its tokens."""

from nicegui import ui

from local2.protocol.maintenance import TenantReport, size_in_units
from local2.protocol.payloads import Empty
from local2.protocol.services import ROTATE_TOKEN_KEY, TENANT
from local2.web.pages.frame import (
    Table,
    Viewer,
    confirmed,
    facts,
    notify,
    prose,
    section,
    text,
)

COLUMNS = ("Agent", "Role", "Answers queries")
ROWS = """
<tr>
  <td>{{ row.key }}</td>
  <td><span class="tag">{{ row.role }}</span></td>
  <td class="quiet" data-label="Answers queries">{{ row.answers }}</td>
</tr>
"""


async def show(viewer: Viewer) -> None:
    place = ui.element("div").classes("page-content")

    async def rotate() -> None:
        explanation = (
            "New tokens are signed with another key. Tokens of the present key stay valid until "
            "they expire, those of the key before it no longer."
        )
        if await confirmed("Rotate the key of tokens?", explanation, "Rotate"):
            report = await viewer.calls.ask_service(ROTATE_TOKEN_KEY, Empty())
            notify("From now on, tokens are signed with another key.")
            build(report)

    def build(report: TenantReport) -> None:
        place.clear()
        with place:
            with section("Stored"):
                records = f"{report.records:,}"
                if report.max_records:
                    records += f" of {report.max_records:,}"
                texts = size_in_units(report.bytes)
                if report.max_bytes:
                    texts += f" of {size_in_units(report.max_bytes)}"
                facts({"Tenant": report.tenant, "Records": records, "Texts": texts})
            if report.agents is None:
                with section("Accounts"):
                    has_none = (
                        "This memory has no accounts: whoever reaches its bus may do everything."
                    )
                    text("p", has_none)
                    hint = "`local2 tenants init` creates them; docs/security.md says more."
                    prose(hint).classes("quiet")
                return
            with section("Agents"):
                rows = [
                    {
                        "key": agent.name,
                        "role": agent.role,
                        "answers": "yes" if agent.answers else "no",
                    }
                    for agent in report.agents
                ]
                Table(COLUMNS, ROWS, rows)
                prose(
                    "`local2 tenants` on the machine of the memory adds and removes agents, and "
                    "replaces their keys.",
                ).classes("quiet")
            with section("Tokens"):
                keys = report.token_keys or []
                facts({"Signed with": keys[-1], "Also accepted": ", ".join(keys[:-1]) or "none"})
                with ui.row():
                    ui.button("Rotate", on_click=rotate).props("outline")
            if report.shares:
                with section("Shared tools"):
                    facts({tool: ", ".join(others) for tool, others in report.shares.items()})

    build(await viewer.calls.ask_service(TENANT, Empty()))
