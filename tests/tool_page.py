"""Write docs/tools.md from the declarations of the tools; run this file for it."""

from pathlib import Path

import msgspec

from local2.protocol.memory_tools import TOOLS, Arguments, MemoryTool
from local2.protocol.payloads import Json
from local2.protocol.tool import answer_schema, parameters_of
from local2.tenants.directory import OTHER_ACTIONS, ROLES

PAGE = Path(__file__).parents[1] / "docs" / "tools.md"
HEAD = """\
# The memory's tools

`uv run --group dev tests/tool_page.py` writes this page from `protocol/memory_tools.py`.

With accounts, a [role](security.md#roles) may use what is listed for it and for the roles before
it, unless `config/roles.yaml` says otherwise. MCP clients are offered the tools marked *MCP* in the
profile [`default`](mcp.md), chat models those marked *models*; the others are for programs.
"""


def page() -> str:
    """Return the text of the page."""
    lines = [HEAD, "| tool | role | MCP | models | |", "|---|---|---|---|---|"]
    for tool in TOOLS:
        marks = ["✓" if marked else "" for marked in (tool.offered_over_mcp, tool.for_models)]
        cells = [f"[`{tool.name}`](#{tool.name})", tool.role, *marks, tool.title]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "Services that are not tools, and what else a role permits:", ""]
    for role in ROLES:
        actions = [f"`{action}`" for action, least in OTHER_ACTIONS.items() if least == role]
        if actions:
            lines.append(f"- {role}: {', '.join(actions)}")
    for tool in TOOLS:
        lines += ["", *_section(tool)]
    return "\n".join(lines) + "\n"


def _section(tool: MemoryTool[Arguments, msgspec.Struct]) -> list[str]:
    lines = [f"## {tool.name}", "", _in_a_cell(tool.description), ""]
    parameters = parameters_of(tool.args)
    if parameters["properties"]:
        lines += ["| argument | type | default | |", "|---|---|---|---|"]
    for name, schema in parameters["properties"].items():
        default = "required" if name in parameters["required"] else _value(schema.get("default"))
        meaning = _in_a_cell(schema.get("description", ""))
        lines.append(f"| `{name}` | {_type(schema)} | {default} | {meaning} |")
    if parameters["properties"]:
        lines.append("")
    return [*lines, f"Answer: `{_form(answer_schema(tool.answer))}`"]


def _in_a_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def _value(default: object) -> str:
    if default is None or default == []:
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _type(schema: Json) -> str:
    if "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    words = [schema.get("type", "any")]
    if "minimum" in schema and "maximum" in schema:
        words.append(f"from {schema['minimum']} to {schema['maximum']}")
    if "maxLength" in schema:
        words.append(f"of at most {schema['maxLength']:,} characters")
    return " ".join(words)


def _form(schema: Json) -> str:
    """Return the names in an answer; those that may be missing or null have a question mark."""
    if "anyOf" in schema:
        forms = [_form(choice) for choice in schema["anyOf"] if choice != {"type": "null"}]
        return next((form for form in forms if form), "")
    if schema.get("type") == "array" and "items" in schema:
        return f"[{_form(schema['items'])}]"
    if schema.get("type") != "object" or "properties" not in schema:
        return ""
    fields = []
    for name, field in schema["properties"].items():
        optional = name not in schema.get("required", [])
        form = _form(field)
        fields.append(f"{name}{'?' if optional else ''}{f': {form}' if form.strip('[]') else ''}")
    return f"{{{', '.join(fields)}}}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
