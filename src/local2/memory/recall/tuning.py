"""All numbers of the ranking: the shares of the score, and the limits of its rules.

They were measured on short talk, long technical chats and plans made with an assistant, one setting
for all (docs/performance.md). docs/recall.md lists the shares.
"""

# How similar a record is to the question

MEANING, MAX_MEANING = 0.2, 1.5
"""Share of a record for each standard deviation by which its cosine is above the average, and its
maximum."""
ASSUMED = 100
"""Number of unrelated texts that are assumed beside the searched records, with the cosines that are
known of the embedder: a few records do not show which cosine is high."""
WORDS, WORDS_STATING = 0.35, 1.1
"""Share of BM25, relative to the best record, and what is added if the query states something: its
one vector stands for several sentences, of which some greet or thank, but its rare words name what
it is about."""
FEW_WORDS = 0.5
"""Minimum BM25 of the best record, as a fraction of what a text with all words of the question has.
If the best record has less, all records have less than the full share."""
COVERAGE = 0.6
"""Share of a message that, with its neighbours, has all words of the question; rare words count
more."""
NEIGHBOUR_WORD, NEIGHBOUR_WORD_DECAY = 0.6, 0.8
"""Weight of a word that only an adjacent message has, and the factor for each step further away."""
PASSAGE_COVERAGE, MAX_PASSAGED = 0.8, 100
"""Weight of the words that stand together further on in a long text, and the number of long texts
that are looked at, those with most of the question first: with 1, a long answer of an assistant
covers too much by chance."""
AROUND, AROUND_DECAY = 0.4, 0.7
"""Fraction of the best neighbour's meaning, words and coverage that counts, and the factor for each
step further away."""
AROUND_STATING = 0.5
"""How much `AROUND` is reduced if the query states something, as a fraction."""
HALVING_LENGTH = 1_200.0
"""Length in characters at which neighbours count half: long messages need no context."""
SESSION = 0.15
"""Share of the session that covers most of the question."""
SESSION_BEST = 0.3
"""Fraction of the meaning, words and coverage of a session's best message that all its messages
gain if the query states something: what it refers to often stands further away than the neighbours
of what it resembles."""
STRETCH = 8
"""Number of consecutive messages of a session that make a stretch: of the words of a statement,
those count less that are in many stretches, as what a speaker always says is."""
BM25_K1 = 1.2
"""There is no b: a match in a short text is not better."""
WEAK = 0.5
"""Minimum cosine of records that follow the hits, as a fraction of `min_score`: with MiniLM, the
average cosine of unrelated texts."""

# What a record is, whatever was asked

SPEAKER = 0.1
"""Share of a message whose speaker the question names."""
FIRSTHAND, NAMED_FIRSTHAND = 0.06, 0.15
"""Shares of people's statements about themselves: of any speaker, and of one whom the question
names. The second grows with the number of such statements in the text."""
TIMED, TIMED_WHEN = 0.06, 0.12
"""Shares of statements with a time: of speakers about themselves, and of any statement if the
question asks when."""
DENSITY, DENSITY_OF_TOOLS = 0.35, 0.3
"""Shares of a text in which every word is informative: of a person's words, and of a tool's output,
which otherwise ranks below the request for it and the talk about it. An assistant has none."""
WISH, WISH_MEANING = 0.3, 0.4
"""Share of a standing wish addressed to an assistant, such as "always answer in grams", and its
share for meaning from which all of it counts."""
RECENT, RECENT_SESSIONS = 0.6, 10
"""Share of the newest session where the query continues a conversation, and the number of sessions
back at which it is halved."""
TIME = 0.25
"""Share of a record from the time that the question names."""
TOPIC = 1.0
"""Share of a fact whose topic key is in the question."""
ENDED = 0.5
"""Factor for the weight of a task outside its session."""
RELATED, STATED = 0.6, 0.8
"""Fractions of the gap to a better hit that a linked record gains: by a common name, by a stated
relation."""
MAX_LEADING = 100
"""Maximum number of hits whose links are followed."""
IMPORTANCE = 0.2
"""Share for importance: importance 1 gains half of it, importance 0 loses half of it."""
NEW, NEW_DAYS = 0.02, 30.0
"""Share of a new record, and its half-life in days."""
FADING = {"standard": (0.05, 365.0), "ephemeral": (0.3, 14.0)}
"""By durability: the maximum loss through age, and the days until half of it is lost."""
HALF_SCORE = 1.2
"""The weighted sum of shares that is shown as a score of 0.5. No sum is shown as 1."""

# Rules of precedence

BELOW_SOURCE, BELOW_ECHO, MAX_BELOW = 0.01, 0.05, 0.3
"""Gaps in weighted score: between an echo and the best of its sources, what each earlier echo of
the same source adds, since a memory that is asked for often has many, and the maximum."""
NO_ANSWER = -3.0
"""Share of a question without an answer, and of the refusal."""
MAX_ECHOES, MAX_READ = 300, 40
"""Maximum number of echoes examined, best first, since the others are not among the best results,
and of those among them whose texts are read."""
ANSWER_COVERAGE = 0.5
"""Minimum fraction of the question that a fact must cover to count as an answer."""
ANSWER_COSINE = 0.15
"""Minimum cosine above `min_score` of the user's nearest fact to count as an answer to a question
of the user about himself or herself."""
SAME = 0.95
"""Minimum cosine of a message that repeats the question, or minimum coverage of a short one."""
SAME_LENGTH = 1.25
"""Maximum length of such a short message, relative to the question."""
MAX_PROMOTED = 3
"""Maximum number of facts that are promoted, those most similar to the question first."""
UNASKED = 0.2
"""How much less similar a fact counts for each word of its key that is not in the question."""
RANK_GAP = 0.01
"""Gap between a promoted or demoted record and its rival, in weighted score."""
NEW_SESSION, SURE, SPREAD = 0.2, 10, 20
"""Score that a session without a result gains, and the places where it does: after the first
`SURE`, up to `SPREAD`."""

# Messages as parts of a conversation

MAX_QUESTIONS = 5
"""Maximum number of recorded questions whose texts are read, best first."""
MAX_NODS = 40
"""Maximum number of short replies whose texts are read, best first."""
NOD_CHARACTERS, NOD_LENGTH, NOD_WORDS = 60, 2.0, 2
"""Maximum length of a nod, or its length relative to the statement before it, which it may repeat,
and maximum number of its informative words that the statement lacks."""
NOD = -3.0
"""Share of a nod."""

# Several steps, and updates

MAX_LEADS = 8
"""Maximum number of best hits whose names are followed per step."""
MAX_STEPS = 2
"""Maximum number of steps."""
ANSWER_COVERED = 0.8
"""If the best hit has this fraction of the question's words, it is the answer: nothing is
followed."""
MAX_LEAD_STEMS = 8
"""Maximum number of stems in a record whose names are followed."""
COMMON_STEM = 0.03
"""A stem in a larger fraction of the records names nothing."""
MIN_NAMED = 0.5
"""Minimum fraction of a lead's new stems, weighted by rarity, that a record needs to be raised."""
LEAD_GAIN = 0.8
"""Gain of a record with all new stems of the lead, as a fraction of the lead's similarity."""
UNRELATED_FACTOR = 0.5
"""Factor for a record that has no word of the question beyond those of the lead."""
RELATED_COVERAGE = 0.1
"""Fraction of the question, beyond the words of the lead, from which the whole gain applies."""
BELOW_LEAD = 0.01
"""Minimum gap between a lead and the records that it raises, in weighted score."""
SHORT = 200
"""Maximum characters of a message with one value; with 300, answers from long talks got worse."""
MAX_COMPARED = 20
"""Number of best hits whose statements are compared with one another."""

# Answers

FORMER = 0.5
"""Minimum score of a fact below which its former values stand, as a fraction of the best one."""
QUOTED = 0.2
"""Minimum score of an item that is the answer where no model writes one: what merely comes nearest
to "Who won the World Cup?" in one's life has 0.15 at most."""

# Later statements beside an item

MAX_LATER, MAX_READ_LATER = 3, 6
"""Maximum number of statements beside an item, and of those that are read to find them: some only
ask."""
COMMON = 2.4
"""Rarity below which a word that two statements share does not count: what stands in a tenth of the
records is a little word of any language, or what this memory is always about."""
NOTHING_SAID = 30
"""Maximum characters of a statement without a number, for it to stand beside nothing with which it
shares no word."""
DATE_NUMBERS = 2
"""How many of each record's stems are numbers of its date: the day and the year."""
ASKING = 0.5
"""Minimum fraction of a message's sentences that ask, for its reply to stand beside it."""
LATER_CANDIDATES, LATER_SAMPLE = 40, 150
"""Number of best statements that may be later ones, and of statements that show how close to each
other a speaker's statements usually are."""
MAX_SHARERS = 6
"""Maximum number of records with a word that makes those of them later ones that do not match the
question."""
LATER_OVERLAP, LATER_RELEVANCE = 0.25, 0.7
"""Weights of the rarity of common words, and of the later one's score relative to the first item's;
the closeness in standard deviations has the weight 1."""
LATER_ASSUMED = 6
"""Number of unrelated statements that are assumed beside those."""
MIN_LATER, MIN_CLOSENESS, MIN_RELEVANCE = 2.6, 1.2, 0.1
"""Minimum of the weighted sum, of the closeness, and of the relative score."""
MAX_RESTATED = 5
"""Number of first items for which is sought what an assistant or the same tool said later."""
RESTATED_NEEDS = 2.0, 3.0
"""Minimum closeness, and minimum rarity of a common word, of what is found so."""
OTHER_ITEMS_NEED = 2.5, 3.5
"""Minimum closeness or, instead, minimum rarity of a common word, for a statement to stand beside
another item than the first: a word in 3 % of the records has 3.5. Without this, half of what stood
there was about something else."""
