"""A memory of facts in triplets, each a message of its own that says it in a sentence."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import get_args

import msgspec

from local.conversation.conversation import ConversationMemory
from local.conversation.extraction import extract
from local.conversation.message import Message, Role
from local.errors import ConversationError
from local.llm.structured import StructuredModel
from local.protocol.memories import Triplet

PIECE = 6_000
"""Characters of a text that a model reads at once: with its answer well within 8,192 tokens."""
MOST_NAMES = 100
MAX_PART = 300
"""Characters; what is longer is no name, and the tool `add_knowledge` would refuse it."""
ROLES: tuple[Role, ...] = get_args(Role)

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
    """Facts are messages among others: found, changed, removed and saved by the same methods.

    A fact whose text is changed is one no more.
    """

    def __init__(
        self,
        model: StructuredModel | None = None,
        description: str | None = None,
        *,
        within: float = 60.0,
    ) -> None:
        """`within`: seconds that the model has for each piece of a text; without one rules do."""
        self._model = model
        self._within = within
        self._stated: dict[tuple[str, str, str], str] | None = None
        super().__init__(description)

    @property
    def triplets(self) -> Sequence[Triplet]:
        """The facts in the order in which they were told."""
        return [triplet for _, triplet in self._facts()]

    def add_fact(self, role: str, subject: str, predicate: str, obj: str) -> str:
        """Add a fact as `role` told it; returns its message's id, the same for a known fact.

        Raises:
            ConversationError: The role is none, or a part is blank.
        """
        teller = _role(role)
        triplet = Triplet(subject=subject, predicate=predicate, object=obj).tidied()
        parts: Mapping[str, str] = msgspec.structs.asdict(triplet)
        if blank := [name for name, said in parts.items() if not said]:
            raise ConversationError(f"The {blank[0]} of the fact is blank.")
        if (known := self._ids().get(triplet.key())) is not None:
            return known
        return self.add(
            Message(role=teller, content=triplet.sentence(), structured_data=dict(parts))
        )

    async def extract_and_update_from_text(
        self, input_text: str, role: str = "user"
    ) -> Sequence[Triplet]:
        """Add the facts that the text states, all or none; returns those that were not known.

        Raises:
            ConversationError: The role is none.
            ModelError: The model does not answer, or not in time; it may later.
            ModelRefusedError: It has no answer to this text.
        """
        speaker = f"the {_role(role)}"
        if self._model is None:
            found = await asyncio.to_thread(lambda: list(extract(input_text, speaker)))
        else:
            found = [
                triplet
                for piece in _pieces(input_text)
                for triplet in await self._read(self._model, piece, speaker)
            ]
        known = len(self.triplets)
        for triplet in found:
            if _is_short(triplet):
                self.add_fact(role, triplet.subject, triplet.predicate, triplet.object)
        return self.triplets[known:]

    async def _read(self, model: StructuredModel, text: str, speaker: str) -> Sequence[Triplet]:
        newest = (name for fact in reversed(self.triplets) for name in (fact.subject, fact.object))
        names = list(islice(dict.fromkeys(newest), MOST_NAMES))
        answer = await model.answer_as(
            _Facts,
            instruction=INSTRUCTION,
            material=_Passage(speaker=speaker, known_names=names, text=text),
            within=self._within,
        )
        return answer.facts

    def _ids(self) -> dict[tuple[str, str, str], str]:
        """The message of every fact, by what it states."""
        if self._stated is None:
            self._stated = {}
            for id_, triplet in self._facts():
                self._stated.setdefault(triplet.key(), id_)
        return self._stated

    def _facts(self) -> Iterator[tuple[str, Triplet]]:
        for message in self.messages:
            if (triplet := _triplet_of(message)) is not None:
                yield message.message_id, triplet

    def _changed(self, event: str, message: Message | None = None) -> None:
        if event == "add" and message is not None:
            triplet = _triplet_of(message)
            if triplet is not None and self._stated is not None:
                self._stated.setdefault(triplet.key(), message.message_id)
        elif event != "get_messages":
            self._stated = None
        super()._changed(event, message)


def _role(name: str) -> Role:
    for role in ROLES:
        if role == name:
            return role
    raise ConversationError(f"{name!r} is no role.", remedy=f"One of: {', '.join(ROLES)}.")


def _triplet_of(message: Message) -> Triplet | None:
    parts = message.structured_data or {}
    if parts.keys() != set(Triplet.__struct_fields__):
        return None
    triplet = Triplet(**{name: str(part) for name, part in parts.items()})
    return triplet if triplet.sentence() == message.content else None


def _is_short(triplet: Triplet) -> bool:
    """Whether every part says something, and is no more than a name or a verb phrase."""
    parts = msgspec.structs.astuple(triplet.tidied())
    return all(0 < len(part) <= MAX_PART for part in parts)


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces that end between words, where there is anything in it."""
    rest = text.strip()
    while len(rest) > PIECE:
        cut = max(rest.rfind("\n", 0, PIECE), rest.rfind(". ", 0, PIECE) + 1)
        cut = cut if cut > 0 else rest.rfind(" ", 0, PIECE)
        cut = cut if cut > 0 else PIECE
        yield rest[:cut]
        rest = rest[cut:].lstrip()
    if rest:
        yield rest
