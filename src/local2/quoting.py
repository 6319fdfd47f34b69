"""Quotes other people's texts in prompts, as lines that they cannot break out of.

Anybody may have written the text of a memory, so it must not pass for the system's instructions.
Square brackets are reserved: their content is never the quoted author's (decision 0050).
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

from local2.protocol.memories import SourceClass
from local2.protocol.memory_tools import LaterStatement, Note, TopMemory

MAX_LINE = 1_000
"""Maximum number of characters in a quoted line: enough for a fact, but ten of them still leave
room for the conversation."""
INSET = "   "
"""Indentation of the further lines of a quoted text."""
AUTHORS = {"self": "the user", "other": "somebody else"}
SOURCES: dict[SourceClass, str] = {
    "stated": "said by the user",
    "answered": "said by an assistant",
    "observed": "from a tool's output",
    "document": "from a document",
    "asserted": "noted by an agent",
}
STATED: frozenset[SourceClass | None] = frozenset({"stated", "asserted", None})
"""Source classes for which the author is shown; None means unknown."""
JOINERS = "\u200c\u200d"
"""Invisible characters that are part of words in Persian, Hindi and other languages."""
LATER_CHARACTERS = 300
"""Maximum characters of a later statement beside an item, wherever a model reads it."""
TOP_MEMORIES_SECTION = "pre-seeded-memories"
"""Name of the section with the facts that matter most."""

_BRACKETS = str.maketrans(
    "<>[]\uff1c\uff1e\uff3b\uff3d\ufe64\ufe65\ufe47\ufe48", "\u2039\u203a()" * 3
)
"""Also those that only look different: NFKC makes the ASCII ones of them."""
_SELECTORS = re.compile("[\ufe00-\ufe0d\U000e0100-\U000e01ef]")
"""Marks that are not shown, of which any number may follow a letter: a text can be hidden in them.
The last two of the first sixteen, which emoji need, stay."""


def visible(text: str) -> str:
    """Remove control characters, and characters that reverse or hide other text."""
    text = _SELECTORS.sub("", text)
    if text.isprintable():
        return text
    return "".join(
        c
        for c in text
        if c in JOINERS
        or c == "\t"
        or unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    )


def inset(text: str) -> str:
    """Indent all lines except the first, so that none looks like a line of the prompt itself."""
    return f"\n{INSET}".join(map(visible, text.splitlines()))


def quoted_line(text: str, max_characters: int = MAX_LINE) -> str:
    """A text as one line without brackets; longer texts are cut after `max_characters`."""
    beginning, rest = text[: 2 * max_characters], len(text) - 2 * max_characters
    one = visible(" ".join(beginning.split())).translate(_BRACKETS)
    if (left_out := len(one) - max_characters + max(rest, 0)) > 0:
        one = f"{one[:max_characters]} [… {left_out:,} characters left out …]"
    return one


def quoted_passage(text: str, question: str, max_characters: int) -> str:
    """A text as one line; of a longer one, the passage that has most of the question's words."""
    if len(text) <= max_characters:
        return quoted_line(text, max_characters)
    from local2.language.passages import passage  # noqa: PLC0415 - a tenth of a hook's start

    part = passage(text, question, max_characters)
    if part.start == 0:
        return quoted_line(text, max_characters)
    before = f"[… {part.start:,} characters left out …] "
    after = (
        f" [… {left_out:,} characters left out …]" if (left_out := len(text) - part.stop) else ""
    )
    return f"{before}{quoted_line(text[part])}{after}"


def fact_line(
    content: str,
    topic: str | None,
    by: str | None,
    source_class: SourceClass | None = None,
    *,
    question: str = "",
) -> str:
    """Quote a fact, with its author or its source, if known.

    Of a long one, the line has the passage that has most of a question's words.
    """
    named = f"{quoted_line(topic)}: " if topic else ""
    said = quoted_passage(content, question, MAX_LINE - len(named))
    stated = f"stated by {AUTHORS.get(by or '', 'somebody')}"
    source = SOURCES[source_class] if source_class and source_class not in STATED else stated
    return f"- {named}{said} [{source}]"


def memory_line(memory: TopMemory) -> str:
    """Quote one of the top memories."""
    return fact_line(memory.content, memory.topic, memory.by, memory.source_class)


def said_by_others(source_class: SourceClass | None) -> str:
    """Words for whose words stand beside an item, unless they are a user's own."""
    return f", {SOURCES[source_class]}" if source_class and source_class not in STATED else ""


def with_later(line: str, later: Iterable[LaterStatement]) -> str:
    """A quoted line with the reply that it got, or what its author said later about the same."""
    statements = (
        f" (later, {one.event_time:%Y-%m-%d}{said_by_others(one.source_class)}: "
        f"{quoted_line(one.content, LATER_CHARACTERS)})"
        for one in later
    )
    return f"{line}{''.join(statements)}"


def section(name: str, lines: Sequence[str]) -> str:
    """Quoted lines in a named section; quoting ensures that no line can end the section."""
    return "\n".join((f"<{name}>", *lines, f"</{name}>"))


def note_line(note: Note) -> str:
    """Quote a note; each line of a merged note is quoted separately."""
    first, *others = note.content.splitlines() if note.merges else [note.content]
    quoted = f"{quoted_line(note.role)}: {quoted_line(first, 2 * MAX_LINE)}"
    return "\n".join([quoted, *map(quoted_line, others)])
