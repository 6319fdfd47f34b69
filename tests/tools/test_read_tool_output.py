"""The tool that continues reading where a preview ends."""

import msgspec
import pytest

from calling import RICHARD, run_tool
from local2.errors import InvalidArgumentsError
from local2.memory.tenant import Memory
from local2.protocol.memory_tools import ReadToolOutput
from local2.protocol.payloads import Json, OutputPart
from local2.protocol.tool import ToolOutput, parameters_of

KEY = "tout_" + "a" * 24
PARTS = ("\x00" * 5_000, "b" * 10_000, "🎻" * 5_000)
WHOLE = "".join(PARTS)


@pytest.fixture(autouse=True)
async def stored_output(memory: Memory) -> None:
    """An output that was stored in three parts."""
    outputs, offset = memory.of(RICHARD).outputs, 0
    for text in PARTS:
        await outputs.store_part(
            OutputPart(key=KEY, offset=offset, text=text, last=text is PARTS[-1])
        )
        offset += len(text)


async def read(memory: Memory, **args: object) -> ToolOutput:
    return await run_tool(memory, "read_tool_output", {"tool_output_key": KEY, **args})


async def test_the_first_piece_says_how_to_continue(memory: Memory) -> None:
    output = await read(memory)

    assert output.content == (
        f"{WHOLE[:8_000]}\n[Characters 0 to 8000 of 20000; offset=8000 reads on.]"
    )
    assert msgspec.to_builtins(output.data) == {
        "tool_output_key": KEY,
        "offset": 0,
        "total_chars": 20_000,
        "next_offset": 8_000,
        "content": WHOLE[:8_000],
    }


async def test_the_last_piece_says_that_it_is_the_last(memory: Memory) -> None:
    output = await read(memory, offset=19_000)

    data = msgspec.to_builtins(output.data)
    assert output.content.endswith("\n[Characters 19000 to 20000 of 20000; this is the end.]")
    assert (data["content"], data["next_offset"]) == ("🎻" * 1_000, None)


@pytest.mark.parametrize("limit", [1, 5_000, 64_000])
async def test_a_piece_is_the_text_between_its_offsets(memory: Memory, limit: int) -> None:
    for offset in (0, 4_999, 5_000, 5_001, 14_999, 15_000, 19_999):
        output = await read(memory, offset=offset, limit=limit)

        assert msgspec.to_builtins(output.data)["content"] == WHOLE[offset : offset + limit]


@pytest.mark.parametrize("offset", [20_000, 2**52])
async def test_past_the_end_there_is_nothing_to_read(memory: Memory, offset: int) -> None:
    with pytest.raises(InvalidArgumentsError, match="ends at 20000"):
        await read(memory, offset=offset)


@pytest.mark.parametrize(
    "args",
    [
        {"offset": -1},
        {"offset": 2**64},
        {"limit": 0},
        {"limit": 64_001},
        {"tool_output_key": ""},
        {"tool_output_key": "x" * 101},
        {"user": "eve"},
    ],
)
async def test_arguments_out_of_bounds_are_refused(memory: Memory, args: Json) -> None:
    with pytest.raises(InvalidArgumentsError):
        await read(memory, **args)


async def test_an_unknown_key_is_refused_with_a_remedy(memory: Memory) -> None:
    with pytest.raises(InvalidArgumentsError, match="exactly as the preview names it"):
        await read(memory, tool_output_key="tout_abc")


def test_a_model_may_omit_everything_but_the_key() -> None:
    assert parameters_of(ReadToolOutput)["required"] == ["tool_output_key"]
