"""A memory of facts as triplets; each fact is a message that states it in a sentence.

Because facts are messages, they can be looked up, changed, removed and saved like a conversation.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from local2.conversation.conversation import ConversationMemory
from local2.conversation.message import ROLES, Message, Role
from local2.errors import ConversationError
from local2.language.triplets import extract_facts
from local2.llm.models import StructuredModel
from local2.protocol.memories import Triplet
from local2.protocol.memory_tools import MAX_PART

PIECE_CHARACTERS = 6_000
"""Maximum characters of text that a model reads per request. With its answer they are well within
8,192 tokens."""
PIECE_TIMEOUT = 60.0
"""Seconds that a model has for one piece of a text."""
MAX_NAMES = 100
"""Maximum number of known names given to a model with each text, newest first. They let it call one
thing by one name; each takes a few tokens of the context."""

INSTRUCTION = """\
Extract from the text the facts worth remembering, as triplets that read as short sentences: \
subject "Ada", predicate "works for", object "Northwind". The predicate is a verb phrase in the \
present or past tense. Subject and object are names or short descriptions, never pronouns: \
"I", "me" and "my" are those of `speaker`, for every other pronoun give who or what it stands for, \
and leave the fact out if you cannot tell. Call whoever is among `known_names` by that name, and \
everything by one name only. One fact a triplet. Leave out questions, wishes, guesses and what is \
denied. Without such facts give an empty list."""


class _Passage(msgspec.Struct, frozen=True, kw_only=True):
    speaker: str
    known_names: list[str]
    text: str


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    facts: list[Triplet]


class KGMemory(ConversationMemory):
    """A conversation whose messages may be facts.

    A message whose text was changed is no longer a fact.
    """

    def __init__(
        self,
        model: StructuredModel | None = None,
        description: str | None = None,
    ) -> None:
        """Extract facts with `model`, or without one by rules."""
        self._model = model
        self._ids_by_key: dict[tuple[str, str, str], str] | None = None
        super().__init__(description)

    @property
    def triplets(self) -> Sequence[Triplet]:
        """The facts in the order in which they were added."""
        return [triplet for _, triplet in self._facts()]

    def add_fact(self, role: str, subject: str, predicate: str, obj: str) -> str:
        """Add a fact that `role` stated; return its message's id, which a known fact keeps.

        Raises:
            ConversationError: There is no such role, or a part is blank.
        """
        author = _checked_role(role)
        triplet = Triplet(subject=subject, predicate=predicate, object=obj).normalised()
        parts: Mapping[str, str] = msgspec.structs.asdict(triplet)
        if blank := [name for name, part in parts.items() if not part]:
            raise ConversationError(f"The {blank[0]} of the fact is blank.")
        if self._ids_by_key is None:
            self._ids_by_key = {}
            for id_, known in self._facts():
                self._ids_by_key.setdefault(known.key(), id_)
        if (known_id := self._ids_by_key.get(triplet.key())) is not None:
            return known_id
        return self.add(
            Message(role=author, content=triplet.sentence(), structured_data=dict(parts))
        )

    async def extract_and_update_from_text(
        self, input_text: str, role: str = "user"
    ) -> Sequence[Triplet]:
        """Add all facts that the text states, or none if extraction fails; return the new ones.

        Raises:
            ConversationError: There is no such role.
            ModelError: The model did not answer in time; trying again may help.
            ModelRefusedError: The model has no answer to this text.
        """
        speaker = f"the {_checked_role(role)}"
        if self._model is None:
            found = await asyncio.to_thread(lambda: list(extract_facts(input_text, speaker)))
        else:
            newest = (
                name for fact in reversed(self.triplets) for name in (fact.subject, fact.object)
            )
            names = list(islice(dict.fromkeys(newest), MAX_NAMES))
            found = []
            for piece in _pieces(input_text):
                answer = await self._model.answer_as(
                    _Facts,
                    instruction=INSTRUCTION,
                    material=_Passage(speaker=speaker, known_names=names, text=piece),
                    within=PIECE_TIMEOUT,
                )
                found += answer.facts
        known_count = len(self.triplets)
        for triplet in found:
            parts = msgspec.structs.astuple(triplet.normalised())
            # None is blank, or too long for a name or a verb phrase (and for `add_knowledge`).
            if all(0 < len(part) <= MAX_PART for part in parts):
                self.add_fact(role, triplet.subject, triplet.predicate, triplet.object)
        return self.triplets[known_count:]

    def _facts(self) -> Iterator[tuple[str, Triplet]]:
        for message in self.messages:
            if (triplet := _triplet_of(message)) is not None:
                yield message.message_id, triplet

    def _on_change(self, event: str, message: Message | None = None) -> None:
        if event == "add" and message is not None:
            triplet = _triplet_of(message)
            if triplet is not None and self._ids_by_key is not None:
                self._ids_by_key.setdefault(triplet.key(), message.message_id)
        elif event != "get_messages":
            self._ids_by_key = None
        super()._on_change(event, message)


def _checked_role(name: str) -> Role:
    for role in ROLES:
        if role == name:
            return role
    raise ConversationError(f"{name!r} is not a role.", remedy=f"One of: {', '.join(ROLES)}.")


def _triplet_of(message: Message) -> Triplet | None:
    parts = message.structured_data or {}
    if parts.keys() != set(Triplet.__struct_fields__):
        return None
    triplet = Triplet(**{name: str(part) for name, part in parts.items()})
    return triplet if triplet.sentence() == message.content else None


def _pieces(text: str) -> Iterator[str]:
    """Yield the text in pieces that end between sentences, or else between words."""
    rest = text.strip()
    while len(rest) > PIECE_CHARACTERS:
        cut = max(rest.rfind("\n", 0, PIECE_CHARACTERS), rest.rfind(". ", 0, PIECE_CHARACTERS) + 1)
        cut = cut if cut > 0 else rest.rfind(" ", 0, PIECE_CHARACTERS)
        cut = cut if cut > 0 else PIECE_CHARACTERS
        yield rest[:cut]
        rest = rest[cut:].lstrip()
    if rest:
        yield rest
