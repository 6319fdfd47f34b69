"""What others wrote inside a prompt: in lines that it cannot leave, each with who stated it.

Nothing that comes out of a memory is the system's own word. Square brackets are ours alone: what
stands in them was not written by whoever wrote the line.
"""

import unicodedata

LONGEST = 1_000
"""Characters of a line."""
INSET = "   "
WHO = {"self": "the user", "other": "somebody else"}
JOINERS = "\u200c\u200d"
"""Invisible, and part of words in Persian, Hindi and others."""

_BRACKETS = str.maketrans("<>[]", "\u2039\u203a()")


def visible(text: str) -> str:
    """The text without control characters, and without those that turn or hide what follows."""
    if text.isprintable():
        return text
    return "".join(c for c in text if c in JOINERS or c == "\t" or not _is_hidden(c))


def inset(text: str) -> str:
    """The text with its lines set in but for the first, so that none looks like one of ours."""
    return f"\n{INSET}".join(map(visible, text.splitlines()))


def line(text: str, most: int = LONGEST) -> str:
    """The text as one line without brackets, and its beginning if it is longer."""
    beginning, rest = text[: 2 * most], len(text) - 2 * most
    one = visible(" ".join(beginning.split())).translate(_BRACKETS)
    if (left_out := len(one) - most + max(rest, 0)) > 0:
        one = f"{one[:most]} [… {left_out:,} characters left out …]"
    return one


def fact_line(content: str, topic: str | None, by: str | None) -> str:
    """A fact, with who stated it, as far as that is known."""
    said = f"{topic}: {content}" if topic else content
    return f"- {line(said)} [stated by {WHO.get(by or '', 'somebody')}]"


def note_line(role: str, content: str, *, merged: bool) -> str:
    """A note; of one that stands for several each of their lines."""
    lines = content.splitlines() if merged else [content]
    return "\n".join([f"{line(role)}: {line(lines[0], 2 * LONGEST)}", *map(line, lines[1:])])


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
