"""Markdown taken apart: into chunks, and into what stands under which heading.

Both look at a part of a text at a time. The splitter takes the square of the time for text without
structure, and while the interpreter collects the garbage of a parser, nobody else has a turn.
"""

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.front_matter import front_matter_plugin
from semantic_text_splitter import MarkdownSplitter

CHUNK = (600, 900)
"""Characters of one chunk where its text allows: with its label as many as its vector reads."""
SHORT = 100
"""Fewer are a heading or the like, and go with the chunk after them."""
SPLIT = 10_000
"""Characters that are split at once."""
ENDS = ("\n#", "\n\n", "\n", " ")
"""What is best split at."""
PARSED = 20_000
"""Characters that are parsed at once; more where they are a single block without others in it."""
LEAVES = frozenset({"fence", "code_block", "html_block", "paragraph_open", "front_matter"})


class Heading(NamedTuple):
    """`begin` counts characters of the text."""

    level: int
    begin: int
    text: str


class _Block(NamedTuple):
    """An outermost block; `is_leaf`: there are no others in it."""

    begin: int
    heading: Heading | None
    is_leaf: bool


def chunks(text: str) -> Iterator[tuple[int, str]]:
    """Where each chunk begins, and what it says."""
    begin = end = 0
    for start, content in _split(text):
        begin = start if begin == end else begin
        end = start + len(content)
        if end - begin >= SHORT:
            yield begin, text[begin:end]
            begin = end
    if begin < end:
        yield begin, text[begin:end]


def headings(text: str) -> Iterator[Heading]:
    """Every heading that stands in no quote or list.

    The last block of a part may go on behind it, and is parsed again with what follows.
    """
    begin, size = 0, PARSED
    while begin < len(text):
        end = text.find("\n", begin + size) + 1 or len(text)
        blocks = list(_blocks(text[begin:end], begin))
        last = blocks[-1].begin if blocks else begin
        if end < len(text) and last == begin and blocks and blocks[-1].is_leaf:
            size *= 2
            continue
        until = last if begin < last and end < len(text) else end
        yield from (block.heading for block in blocks if block.heading and block.begin < until)
        begin, size = until, PARSED


def _split(text: str) -> Iterator[tuple[int, str]]:
    splitter, begin = MarkdownSplitter(CHUNK), 0
    while begin < len(text):
        end = begin + SPLIT
        if end < len(text):
            found = (text.rfind(mark, begin, end) + 1 for mark in ENDS)
            end = next((cut for cut in found if cut > begin), end)
        for start, content in splitter.chunk_indices(text[begin:end]):
            yield begin + start, content
        begin = end


def _blocks(part: str, offset: int) -> Iterator[_Block]:
    """The outermost blocks of a part."""
    parser = MarkdownIt().disable("inline")
    if offset == 0:
        parser.use(front_matter_plugin)
    begins = list(accumulate((len(line) + 1 for line in part.split("\n")), initial=offset))
    for token, inside in pairwise([*parser.parse(part), Token("", "", 0)]):
        if token.level == 0 and token.map:
            begin, heading = begins[token.map[0]], None
            if token.type == "heading_open":
                heading = Heading(int(token.tag[1:]), begin, " ".join(inside.content.split()))
            yield _Block(begin, heading, is_leaf=token.type in LEAVES)
