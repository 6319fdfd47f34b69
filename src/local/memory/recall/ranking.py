"""The order of the results. Every item's score is the sum of shares that can be shown.

Measured on three kinds of conversations, short talk, long technical chats and plans made with an
assistant, with one setting for all (docs/performance.md). How good a hit is counts more than its
rank, so scores are blended and not ranks. The neighbours of a short message are part of its
meaning. A turn that continues a conversation wants something else than a question about one: the
latest messages, of whichever speaker.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, get_args

import msgspec
import numpy as np

from local.ledger.columns import View
from local.ledger.entries import Array, Flags, Names
from local.ledger.search import Choice, DetailRequest, Echo, Matches, WordMatches
from local.memory.recall.closer import UNMARKED, Hops, Mark, Variants, look_closer
from local.memory.recall.likeness import Likeness, Wording
from local.memory.recall.precedence import Echoes, StandingFacts, in_order, weighed
from local.memory.recall.query import Query
from local.memory.recall.replies import Replies
from local.memory.scopes import Reach
from local.protocol.memories import Owning

SPEAKER = 0.1
FIRSTHAND, NAMED_FIRSTHAND = 0.06, 0.15
"""People's statements about themselves; more if the question names them, in proportion."""
TIMED, TIMED_WHEN = 0.06, 0.12
"""Such statements with a time; any statement with one, if the question asks when."""
DENSITY = 0.35
WISH = 0.3
"""A standing wish, addressed to an assistant: it counts wherever it applies."""
RECENT, RECENT_SESSIONS = 0.4, 10
"""In a continued conversation: the newest session's gain, and how far back it is half."""
TIME = 0.25
TOPIC = 1.0
ENDED = 0.5
"""The weight of a task outside its session."""
RELATED, STATED = 0.6, 0.8
"""How far a record is lifted towards the best hit that leads to it: by a common name, which many
may share, and by a stated relation."""
LEADING = 100
"""The number of best hits that may lead."""
IMPORTANCE = 0.2
NEW, NEW_DAYS = 0.02, 30.0
FADING = {"standard": (0.05, 365.0), "ephemeral": (0.3, 14.0)}
"""The loss by age in the end, and the days after which half of it is reached."""
FULL_SCORE = 2.5
"""The sum of shares that is shown as a score of 1."""
DAY = 86_400.0


class Shares(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The shares of each channel and signal in an item's score, before its scope's weight."""

    meaning: float = 0.0
    words: float = 0.0
    coverage: float = 0.0
    around: float = 0.0
    session: float = 0.0
    speaker: float = 0.0
    firsthand: float = 0.0
    timed: float = 0.0
    density: float = 0.0
    wish: float = 0.0
    recent: float = 0.0
    time: float = 0.0
    topic: float = 0.0
    related: float = 0.0
    importance: float = 0.0
    age: float = 0.0
    feedback: float = 0.0
    echo: float = 0.0
    reply: float = 0.0
    standing: float = 0.0
    named: float = 0.0
    update: float = 0.0


class RankedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record with its score, from 0 to 1, and the parts of the score.

    `compared`: its meaning could be compared with the question's; `covered`: the share of the
    question's words that it has. `echo`: the record that it gives way to.
    """

    row: int
    score: float
    shares: Shares
    weight: float
    compared: bool
    covered: float
    echo: Echo | None
    mark: Mark = UNMARKED


class Draft:
    """The part of the scores that needs no vector; made while the question is embedded."""

    def __init__(
        self, query: Query, reach: Reach, now: datetime, feedback_weight: float, worded: WordMatches
    ) -> None:
        view = worded.view
        self.query = query
        self.caller = reach.caller
        self.wording = Wording(worded, query)
        self.topics: Flags = np.zeros(view.size, bool)
        self.topics[view.positions(worded.topics)] = True
        self.weights = _weights(view, reach)
        self.shares: dict[str, Array] = {
            **self.wording.shares,
            **_by_form(view, query),
            **_by_record(view, query, now),
            "topic": np.where(self.topics, TOPIC, 0.0),
            "feedback": feedback_weight * view.column["feedback"],
        }
        self.sums = sum(self.shares.values(), np.zeros(view.size))


def rank(found: Matches, draft: Draft, *, min_score: float) -> Choice[Iterator[RankedRecord]]:
    """Yield the records that have to do with the question, best first, as they are requested.

    These are near enough in meaning, have a word of it, are asked for by key, or are related to
    such records; and where meaning cannot be compared, they are next to a record with a word of it.
    """
    view, wording = found.view, draft.wording
    if not view.size:
        return iter(())
    like = Likeness(found, wording, draft.query)
    hit = wording.shares_a_word | draft.topics | (like.compared & (like.meaning >= min_score))
    hit |= ~like.compared & (wording.shares["coverage"] > 0)
    led, related = yield from _led(view, like, hit)
    late = {**like.shares, "related": related}
    sums = sum(late.values(), draft.sums)
    echoes = Echoes(view, draft.query, sums, draft.weights)
    if echoes.rows:
        echoes.give_way((yield DetailRequest(sources=echoes.rows)).sources)
    relevant = hit | led
    relevant[view.positions(echoes.sources(hit))] = True
    relevant[echoes.covered_by_sources()] = False
    sums = sums + echoes.share
    replies = Replies(wording, like, sums, draft.weights)
    yield from replies.give_way(draft.query, relevant)
    sums = sums + replies.share
    standing = StandingFacts(view, sums, draft.weights)
    standing.give_way(relevant)
    standing.lift(draft.query, wording, like, min_score)
    sums = sums + standing.share
    variants = Variants(view, draft.caller)
    hops = Hops(wording, like, sums, draft.weights)
    yield from look_closer(view, relevant, variants, hops)
    sums += hops.share
    update = variants.share(sums, draft.weights)
    scores = weighed(sums + update, draft.weights)
    shares = {
        **draft.shares,
        **late,
        "echo": echoes.share,
        "reply": replies.share,
        "standing": standing.share,
        "named": hops.share,
        "update": update,
    }
    made = _Ranked(view, like, wording.covered, shares, scores, draft.weights, echoes, variants)
    ordered = in_order(scores, np.flatnonzero(relevant), view.column)
    return chain.from_iterable(map(made.of, ordered))


class _Ranked(NamedTuple):
    """Makes the ranked records of the chosen positions."""

    view: View
    like: Likeness
    covered: Array
    shares: Mapping[str, Array]
    scores: Array
    weights: Array
    echoes: Echoes
    variants: Variants

    def of(self, chosen: list[int]) -> Iterator[RankedRecord]:
        shown = np.clip(self.scores[chosen] / FULL_SCORE, 0.0, 1.0).round(4).tolist()
        summands = np.array([of[chosen] for of in self.shares.values()]).round(4).T.tolist()
        for place, position in enumerate(chosen):
            yield RankedRecord(
                row=int(self.view.column["row"][position]),
                score=shown[place],
                shares=Shares(**dict(zip(self.shares, summands[place], strict=True))),
                weight=float(self.weights[position]),
                compared=bool(self.like.compared[position]),
                covered=float(self.covered[position]),
                echo=self.echoes.of(position),
                mark=self.variants.marks.get(position, UNMARKED),
            )


def _weights(view: View, reach: Reach) -> Array:
    """Return the weight of each record's scope; in the current session, that of another one's."""
    column, names = view.column, view.names
    weights = names.scopes.each(partial(reach.weight, session_id=None))[column["scope"]]
    ended = column["type"] == names.types.of("task")
    current = reach.caller.session_id
    if current is not None:
        here = column["session"] == names.sessions.of(("session", current))
        weights = np.where(here, reach.weight("session", current), weights)
        begun_here = [names.sessions.of((scope, current)) for scope in get_args(Owning)]
        ended &= ~np.isin(column["session"], begun_here)
    return np.asarray(np.where(ended, ENDED * weights, weights))


def _by_form(view: View, query: Query) -> dict[str, Array]:
    """Return the shares of a text's form; the more the question states itself, the less."""
    column, names = view.column, view.names
    asks = 1.0 - query.stating
    person = asks * ~column["machine"]
    named = names.labels.each(partial(_is_named, frozenset(query.terms)))[column["label"]]
    firsthand = column["firsthand"]
    first = firsthand > 0
    timed = TIMED * first + TIMED_WHEN * query.asks_when
    return {
        "speaker": SPEAKER * named,
        "firsthand": person * (FIRSTHAND * first + NAMED_FIRSTHAND * named * firsthand / 4),
        "timed": person * column["timed"] * timed,
        "density": DENSITY * person * column["density"],
        "wish": WISH * person * column["wish"] * view.with_assistant,
        "recent": RECENT * query.stating / (1 + view.sessions_back / RECENT_SESSIONS),
    }


def _is_named(terms: frozenset[str], label: str | None) -> bool:
    return label is not None and not terms.isdisjoint(label.lower().split())


def _by_record(view: View, query: Query, now: datetime) -> dict[str, Array]:
    """Return the shares of what is known about a record, whatever its text."""
    column = view.column
    return {
        "time": TIME * _in_window(query, column["time"]),
        "importance": IMPORTANCE * (column["importance"] - 0.5),
        "age": _ageing(view.names, column, (now.timestamp() - column["time"]) / DAY),
    }


def _led(view: View, like: Likeness, hit: Flags) -> Choice[tuple[Flags, Array]]:
    """Return what hits lead to, by a common name or a relation, and the share of this."""
    good = np.where(hit, like.own, 0.0)
    best = (
        np.argpartition(-good, LEADING)[:LEADING] if view.size > LEADING else np.arange(view.size)
    )
    leading = {int(view.column["row"][i]): float(good[i]) for i in best[good[best] > 0]}
    led = np.zeros((2, view.size))
    related = (yield DetailRequest(related=list(leading))).related
    for row, others in related.items():
        for stated in (False, True):
            rows = [other.row for other in others if other.stated is stated]
            for position in view.positions(rows):
                led[int(stated), position] = max(led[int(stated), position], leading[row])
    lifted = np.array([[RELATED], [STATED]]) * np.maximum(led - like.own, 0.0)
    return np.asarray(led.any(axis=0)), lifted.max(axis=0)


def _in_window(query: Query, times: Array) -> Array:
    """Return whether a record is of the time that the question names."""
    if query.window is None:
        return np.zeros(len(times))
    since, until = query.window.since, query.window.until
    after = times >= since.timestamp() if since else np.ones(len(times), bool)
    before = times < until.timestamp() if until else np.ones(len(times), bool)
    return (after & before).astype(np.float64)


def _ageing(names: Names, column: Mapping[str, Any], days: Array) -> Array:
    """Return the shares of age: new records gain a little; those not made to last fade."""
    days = np.maximum(days, 0.0)
    lost = names.durabilities.each(lambda name: FADING.get(name, (0.0, 1.0))[0])
    half = names.durabilities.each(lambda name: FADING.get(name, (0.0, 1.0))[1])
    durability = column["durability"]
    fading = lost[durability] * (1 - np.exp2(-days / half[durability]))
    return np.asarray(NEW * np.exp2(-days / NEW_DAYS) - fading)
