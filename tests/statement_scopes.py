"""The tables that an SQL statement reads or writes, and whether each is filtered by tenant.

It understands only the SQL in the ledger's files: SQL that it cannot read counts as unfiltered.
"""

import re
from collections.abc import Iterator
from itertools import chain

import msgspec

WITH_TENANT = {
    "record", "task", "relation", "feedback", "note", "tool_output", "audit", "audit_name",
    "access", "tombstone", "consolidation", "usage", "item", "showing", "shown", "work", "delivery",
    "large_place", "embedder",
}  # fmt: skip
ONLY_POSTGRES = {"work", "delivery", "large_place", "embedder"}
BY_RECORD = {"vector": "record", "feature": "record", "record_text": "rowid"}
"""Tables without a tenant, and the column with the row number of the record they belong to."""
TABLES = WITH_TENANT | set(BY_RECORD)

TOKEN = re.compile(r"'(?:[^']|'')*'|:\w+|\w+\.\w+|\w+|[^\s\w+]")
COMPOUNDS = {"UNION", "EXCEPT", "INTERSECT"}
INTRODUCING = {"FROM", "JOIN", "UPDATE", "INTO"}
INSERTION = re.compile(
    r"INSERT (?:OR IGNORE )?INTO (\w+) \(([^)]*)\)\s+(?:VALUES \(|SELECT )(.*)", re.DOTALL
)


class Scope(msgspec.Struct, kw_only=True):
    """A SELECT, or a statement that writes; `tokens` exclude those in brackets, maybe with an OR.

    `within`: the scopes nested in it, by the positions of their opening brackets.
    """

    outer: "Scope | None"
    tokens: list[str]
    within: dict[int, list["Scope"]]

    def unfiltered(self, *, alone: bool = False) -> list[str]:
        """Return the tables, by alias, of which rows of other tenants may be read or written.

        `alone`: ignore the conditions of the enclosing scope.
        """
        filtered = self._filtered(alone=alone)
        return [alias for alias in self._tables() if alias not in filtered]

    def _tables(self) -> dict[str, str]:
        """Return the tables by their aliases."""
        found = {}
        for number, (token, name) in enumerate(zip(self.tokens, self.tokens[1:], strict=False)):
            if token in INTRODUCING and name in TABLES:
                behind = self.tokens[number + 2 : number + 4]
                found[behind[1] if behind[:1] == ["AS"] else name] = name
        return found

    def _conditions(self) -> list[tuple[str, str]]:
        """Return the required equalities, both ways; none if an OR offers an alternative."""
        starts = [n for n, token in enumerate(self.tokens) if token in {"FROM", "WHERE"}]
        tokens = self.tokens[min(starts, default=0) :]
        if self.tokens[:1] == ["UPDATE"]:
            tokens = self.tokens[self.tokens.index("WHERE") :] if "WHERE" in self.tokens else []
        if "OR" in tokens:
            return []
        equal = [
            (a, b)
            for a, sign, b in zip(tokens, tokens[1:], tokens[2:], strict=False)
            if sign == "="
        ]
        return [
            pair
            for a, b in equal
            for pair in ((self._full(a), self._full(b)), (self._full(b), self._full(a)))
        ]

    def _full(self, column: str) -> str:
        """Return the column with its table, if only one table is possible."""
        tables = self._tables()
        having = [a for a, table in tables.items() if column != "tenant" or table in WITH_TENANT]
        return f"{having[0]}.{column}" if len(having) == 1 and column.isidentifier() else column

    def _filtered(self, *, alone: bool = False) -> set[str]:
        known = self.outer._filtered() if self.outer and not alone else set()
        equal, tables = self._conditions(), self._tables()
        found: set[str] = set()
        while more := {
            alias
            for alias, table in tables.items()
            if alias not in found and self._is_own(alias, table, equal, known | found)
        }:
            found |= more
        return found

    def _is_own(self, alias: str, table: str, equal: list[tuple[str, str]], own: set[str]) -> bool:
        if (f"{alias}.tenant", ":tenant") in equal:
            return True
        if table in WITH_TENANT:
            column, ours = f"{alias}.tenant", {":tenant", *(f"{one}.tenant" for one in own)}
        else:
            column, ours = f"{alias}.{BY_RECORD[table]}", {f"{one}.row" for one in own}
        if any(one == column and other in ours for one, other in equal):
            return True
        return table in BY_RECORD and (self._is_among(table) or self._is_of_an_own(alias, table))

    def _is_among(self, table: str) -> bool:
        """Whether `column IN (SELECT row FROM …)` holds, with rows of the tenant."""
        return any(
            self.tokens[number - 2 : number] == [BY_RECORD[table], "IN"]
            and all(each.tokens[1] == "row" and not each.unfiltered(alone=True) for each in scopes)
            for number, scopes in self.within.items()
        )

    def _is_of_an_own(self, alias: str, table: str) -> bool:
        """Whether `EXISTS (SELECT 1 FROM record WHERE record.row = …)` holds for the tenant."""
        names = {f"{alias}.{BY_RECORD[table]}"}
        names |= {other for one, other in self._conditions() if one in names}
        return any(
            self.tokens[number - 1] == "EXISTS"
            and not scope.unfiltered(alone=True)
            and any(one == "record.row" and other in names for one, other in scope._conditions())
            for number, scopes in self.within.items()
            for scope in scopes
        )


def unfiltered(statement: str) -> list[str]:
    """Return the tables of which a statement may read or write rows of other tenants."""
    tokens = TOKEN.findall(re.sub(r"--[^\n]*", "", statement).replace(";", ""))
    every = _read(iter(tokens), None)
    inserted = INSERTION.match(statement)
    found = [alias for scope in every for alias in scope.unfiltered()]
    if inserted and _inserts_own(inserted) and inserted[1] in found:
        found.remove(inserted[1])
    return found


def _inserts_own(insertion: re.Match[str]) -> bool:
    """Whether inserted rows get the tenant, or belong to a record that was read here."""
    columns = re.split(r",\s*", insertion[2])
    values = re.split(r",\s*", insertion[3])
    if insertion[1] in WITH_TENANT:
        return values[columns.index("tenant")] in {":tenant", "tenant"}
    column = BY_RECORD[insertion[1]]
    return column in columns and values[columns.index(column)] == "row"


def _read(tokens: Iterator[str], outer: Scope | None) -> list[Scope]:
    """Return the scopes up to a closing bracket, with everything nested in them."""
    scope = Scope(outer=outer, tokens=[], within={})
    every = [scope]
    for token in tokens:
        if token == ")":  # noqa: S105 - a sign
            break
        if token == "(":  # noqa: S105 - a sign
            inner = _bracket(tokens, scope)
            scope.within[len(scope.tokens)] = inner
            every += inner
        if token in COMPOUNDS or (token == "SELECT" and scope.tokens[:1] == ["INSERT"]):  # noqa: S105
            scope = Scope(outer=outer, tokens=[], within={})
            every.append(scope)
        if token not in COMPOUNDS and token != "ALL":  # noqa: S105 - of UNION ALL
            scope.tokens.append(token)
    return every


def _bracket(tokens: Iterator[str], scope: Scope) -> list[Scope]:
    """Return the scopes in brackets, or skip values and conditions."""
    first = next(tokens)
    if first in {"SELECT", "WITH"}:
        return _read(chain((first,), tokens), scope)
    if first == "(":
        inner = _bracket(tokens, scope)
    elif first == ")":
        return []
    else:
        inner = []
    for token in tokens:
        if token == ")":  # noqa: S105 - a sign
            break
        if token == "(":  # noqa: S105 - a sign
            inner += _bracket(tokens, scope)
    return inner
