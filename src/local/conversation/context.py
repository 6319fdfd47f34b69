"""The messages that a model is given, in their order, with the sum of their tokens."""

from collections.abc import Iterable

from local.conversation.message import Message
from local.conversation.tokens import TokenCounter


class Context:
    """Adding, changing and removing a message takes the same time at any length."""

    def __init__(self, count: TokenCounter) -> None:
        self.tokens = 0
        self._count = count
        self._messages: dict[str, Message] = {}
        self._tokens: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def messages(self) -> list[Message]:
        return list(self._messages.values())

    def count(self, message: Message) -> int:
        """Its tokens; those of a message that is here are known."""
        key = message.message_id
        return self._tokens[key] if self._messages.get(key) is message else self._count(message)

    def append(self, message: Message, tokens: int | None = None) -> None:
        """Append a message; its tokens are counted where they are not given."""
        key = message.message_id
        if tokens is None:
            tokens = self._count(message)
        self._messages[key] = message
        self._tokens[key] = tokens
        self.tokens += tokens

    def replace(self, message_id: str, message: Message) -> None:
        """Nothing where it is not there: it may be summarised by now."""
        if message_id not in self._messages:
            return
        if message_id == message.message_id:
            self.tokens -= self._tokens[message_id]
            self.append(message)
        else:
            self.replace_all(
                message if each.message_id == message_id else each for each in self.messages
            )

    def remove(self, message_id: str) -> None:
        """Nothing where it is not there, as of `replace`."""
        if self._messages.pop(message_id, None) is not None:
            self.tokens -= self._tokens.pop(message_id)

    def replace_all(self, messages: Iterable[Message]) -> None:
        self.tokens, self._messages, self._tokens = 0, {}, {}
        for message in messages:
            self.append(message)

    def recount(self) -> None:
        """Count anew: the counter may have learned since."""
        self.replace_all(self.messages)
