"""What the collections are called, of which each tenant has one, or two while one is replaced."""

from typing import Any, Literal

from local.protocol.envelope import DEFAULT_TENANT

Slot = Literal["serving", "next"]
"""Beside the collection that serves a tenant there may be one that is filled to replace it."""


def name_of(collection: str, tenant: str, slot: Slot) -> str:
    """What a tenant's collection is called; the default tenant's is `collection` itself."""
    name = collection if slot == "serving" else _next_name(collection)
    return name if tenant == DEFAULT_TENANT else f"{name}.{tenant}"


def tenants_of(names: set[str], collection: str) -> list[str]:
    """The tenants whose collections have these names, sorted."""
    tenants = set()
    for own in (collection, _next_name(collection)):
        if own in names:
            tenants.add(DEFAULT_TENANT)
        prefix = f"{own}."
        tenants |= {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
    return sorted(tenants)


def own_collections(client: Any, collection: str) -> list[Any]:
    """Our collections; somebody else may have others in the same folder."""
    names = (collection, _next_name(collection))
    return [
        each
        for each in client.list_collections()
        if any(each.name == name or each.name.startswith(f"{name}.") for name in names)
    ]


def _next_name(collection: str) -> str:
    """What a collection is called that is filled to take the place of this one."""
    return f"{collection}-next"
