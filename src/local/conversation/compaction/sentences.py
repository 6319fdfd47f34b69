"""A summary without a model: the sentences that say most, word for word."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct

from local.conversation.contents import is_summary, text_of
from local.conversation.message import Message

LONGEST = 300
"""Characters quoted of a sentence."""
MOST_SENTENCES = 20
"""Of one message: a pasted page does not crowd out what others said."""
FRAGMENT = 4
"""Words; what has fewer says little, however rare they are."""
WEIGHTS = {"user": 3.0, "assistant": 1.0, "tool": 0.5}
"""By role: users say what counts; most of what tools return does not."""

_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")  # noqa: RUF001 - CJK ends
_WORD = re.compile(r"\w+")


class Sentence(Struct, frozen=True):
    line: str
    words: frozenset[str]
    weight: float


def extract(messages: Sequence[Message], room: int) -> str:
    """Lines such as `user: The report is due on Friday.`, in their order.

    Preferred are sentences with words that few others have: names, numbers, what came up once.

    Args:
        messages: An earlier summary among them is taken by its sentences, too.
        room: Characters.
    """
    sentences = list(dict.fromkeys(s for message in messages for s in _sentences(message)))
    found_in = Counter(word for sentence in sentences for word in sentence.words)

    def worth(sentence: Sentence) -> float:
        rarity = sum(1 / found_in[word] for word in sentence.words)
        return sentence.weight * rarity / (len(sentence.words) + FRAGMENT)

    chosen = set()
    for index in sorted(range(len(sentences)), key=lambda i: -worth(sentences[i])):
        if len(sentences[index].line) < room:
            room -= len(sentences[index].line) + 1
            chosen.add(index)
    return "\n".join(sentences[index].line for index in sorted(chosen))


def _sentences(message: Message) -> Iterator[Sentence]:
    """Of an earlier summary all but its heading, as they are."""
    if is_summary(message):
        text = text_of(message).partition("\n")[2]
        lines = filter(None, map(str.strip, pieces(_BETWEEN_SENTENCES, text)))
        spoken = [(line.partition(": ")[0], line) for line in lines]
    else:
        speaker = message.name or message.role
        said = map(str.strip, pieces(_BETWEEN_SENTENCES, text_of(message)))
        first = islice(filter(None, said), MOST_SENTENCES)
        spoken = [(message.role, f"{speaker}: {piece[:LONGEST]}") for piece in first]
    for role, line in spoken:
        words = frozenset(_WORD.findall(line.lower()))
        yield Sentence(line, words, WEIGHTS.get(role, 1.0))


def pieces(separator: re.Pattern[str], text: str) -> Iterator[str]:
    """What a separator splits a text into, one by one: of a long text the first may be enough."""
    begin = 0
    for between in separator.finditer(text):
        yield text[begin : between.start()]
        begin = between.end()
    yield text[begin:]
