"""A conversation makes the same records whole and in pieces, as `local2 ingest` sends it."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from local2.ledger.records import NewRecord
from local2.memory.intake.conversations import Conversation, records_of
from local2.protocol.conversation import ConversationMessage, numbered
from local2.protocol.payloads import ToolCallRecord
from recalling import DAY, chat_message

NAMES = st.sampled_from([None, "Ann"])
CALL = ToolCallRecord(id="c1", name="weather")
MESSAGES = st.one_of(
    st.builds(
        chat_message,
        st.sampled_from(["Yes.", "No.", None]),
        st.sampled_from(["user", "assistant"]),
        name=NAMES,
        id=st.sampled_from([None, ""]),
    ),
    st.just(chat_message(None, "assistant", tool_calls=[CALL])),
    st.just(chat_message(None, "assistant", tool_calls=[ToolCallRecord(name="dice", content="6")])),
    st.just(chat_message("Rain.", "tool", tool_call_id="c1")),
    st.just(chat_message("Wind.", "tool", name="sea", tool_call_id="c1")),
    st.just(chat_message("Nothing.", "tool")),
)


def records(messages: Sequence[ConversationMessage]) -> list[NewRecord]:
    conversation = Conversation(
        messages=messages, owner="richard", agent="cli", session_id="s1", now=DAY
    )
    return list(records_of(conversation))


@given(st.lists(MESSAGES, max_size=12), st.integers(1, 12))
def test_a_conversation_makes_the_same_records_wherever_it_is_cut(
    messages: list[ConversationMessage], size: int
) -> None:
    whole = list(numbered(messages))
    pieces = [whole[start : start + size] for start in range(0, len(whole), size)]

    in_pieces = {record.id: record for piece in pieces for record in records(piece)}

    assert in_pieces == {record.id: record for record in records(messages)}


@given(st.lists(MESSAGES, max_size=12))
def test_messages_added_at_the_end_leave_the_earlier_records_unchanged(
    messages: list[ConversationMessage],
) -> None:
    ids = [record.id for record in records(messages)]

    longer = [record.id for record in records([*messages, chat_message("Yes.", name="Ann")])]

    assert longer[: len(ids)] == ids


def test_empty_ids_are_ignored() -> None:
    first, second = records([chat_message("alpha", id=""), chat_message("beta", id="")])

    assert first.id != second.id
    assert (first.source_ref, second.source_ref) == (None, None)
