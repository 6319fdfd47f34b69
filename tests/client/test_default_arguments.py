"""The methods of `local2.connect` have the defaults of the tools that they call."""

from inspect import signature

import msgspec
import pytest

from local2.client.memory import Memory
from local2.protocol.memory_tools import (
    Arguments,
    Forget,
    Ingest,
    LoadSession,
    MakeNote,
    Recall,
    RememberFact,
    SaveMemory,
    SearchMemory,
)

METHODS = [
    (Memory.remember, RememberFact),
    (Memory.recall, Recall),
    (Memory.save, SaveMemory),
    (Memory.search, SearchMemory),
    (Memory.ingest, Ingest),
    (Memory.load_session, LoadSession),
    (Memory.note, MakeNote),
    (Memory.forget, Forget),
]


@pytest.mark.parametrize(
    ("method", "arguments"), METHODS, ids=[method.__name__ for method, _ in METHODS]
)
def test_a_method_has_the_defaults_of_its_tool(method: object, arguments: type[Arguments]) -> None:
    assert callable(method)
    fields = {field.name: field for field in msgspec.structs.fields(arguments)}
    for name, parameter in list(signature(method).parameters.items())[1:]:
        field = fields["session_id" if name == "session" else name]
        expected = parameter.empty if field.required else field.default
        assert parameter.default == expected, name


def test_only_what_differs_from_the_defaults_is_sent() -> None:
    assert Recall(query="gold", top_k=5, since=None).given() == {"query": "gold"}
    assert Recall(query="gold", top_k=3).given() == {"query": "gold", "top_k": 3}
