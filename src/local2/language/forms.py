"""The forms of statements about people, their joint work and their plans, and what each one gives."""

# ruff: noqa: E501 - a form is easier to read in one line

import re
from typing import NamedTuple

from local2.language.time import MONTH_NAME, WEEKDAYS
from local2.protocol.memories import Durability, MemoryType

WEEKDAY = rf"(?:{'|'.join(WEEKDAYS)})"
PERIOD = r"(?:night|weekend|week|month|year|spring|summer|autumn|fall|winter|semester|quarter)"
DATE = (
    rf"(?:\d{{4}}-\d\d?-\d\d?|\d\d?/\d\d?(?:/\d{{2,4}})?|{MONTH_NAME}\b|(?:19|20)\d\d\b"
    r"|\d\d?(?:st|nd|rd|th)\b)"
)
COMING_TIME = (
    rf"\b(?:tomorrow|tonight|today|(?:next|this|coming) (?:{PERIOD}|{WEEKDAY})|{WEEKDAY}|{DATE}"
    r"|in (?:\d{1,2}|an?|two|three|four|five|six|a few|a couple of) (?:day|week|month|year)s?"
    r"|(?:the )?end of (?:the )?\w+|q[1-4])\b"
)
PAST_TIME = (
    rf"\b(?:yesterday|last (?:{PERIOD}|{WEEKDAY})|this (?:morning|afternoon|evening|{PERIOD})"
    rf"|{DATE}|(?:\w+ ){{1,3}}ago|when i was \w+|as a (?:child|kid|teenager)|on {WEEKDAY}"
    r"|the other day|recently|over the (?:weekend|holidays|summer)|today|earlier)\b"
)
NAME = r"(?-i:[A-Z][\w'.-]+(?: (?:[A-Z][\w'-]+|de|von|van|del|la|al)){0,3}(?<![.']))"
BE = r"(?:'s|is|are)"
ADVERBS = (
    r"(?:(?:really|absolutely|also|do|just|totally|truly|quite|personally|generally|usually"
    r"|actually|always|still|particularly|especially|finally|recently|already|currently|mostly"
    r"|mainly|never|often|sometimes|normally|typically|have|now|both) )*"
)
_ROLE = "boss|manager|mentor|landlord|therapist|doctor"
PERSON = (
    r"(?:mother|father|mom|mum|dad|parents?|wife|husband|partner|fianc\u00e9e?|fiancee?|girlfriend"
    r"|boyfriend|ex|sons?|daughters?|kids?|child(?:ren)?|bab(?:y|ies)|twins?|brothers?|sisters?"
    r"|siblings?|cousins?|aunt|uncle|niece|nephew|grand(?:mother|father|ma|pa|parents|son|daughter"
    r"|children)|gran|(?:step|half)[- ]?(?:mother|father|brother|sister|son|daughter)"
    r"|(?:mother|father|brother|sister)-in-law|in-laws|famil(?:y|ies)|(?:best )?friend|room-?mate"
    rf"|flat-?mate|neighbou?r|colleague|co-?worker|{_ROLE})"
)
CALLED_UPON = (
    rf"(?:{_ROLE}|supervisor|team lead|landlady|coach|trainer|dentist|gp|vet|psychologist"
    r"|psychiatrist|physio(?:therapist)?|accountant|lawyer|solicitor|tax advis[eo]r|teacher|tutor"
    r"|hairdresser|barber|nanny|babysitter|cleaner|gardener)"
)
"""People of whom one usually has one at a time: a new one replaces the one before."""
ONE_PERSON = (
    r"(?:mother|father|mom|mum|dad|wife|husband|partner|fianc\u00e9e?|fiancee?|girlfriend|boyfriend"
    rf"|{_ROLE})"
)
PET = (
    r"(?:dogs?|cats?|pupp(?:y|ies)|kittens?|parrots?|budgies?|horses?|pon(?:y|ies)|rabbits?|hamsters?"
    r"|guinea pigs?|goldfish|tortoises?|turtles?|snakes?|lizards?|chickens|retrievers?|terriers?"
    r"|labradors?|poodles?|beagles?|collies?|dachshunds?|corgis?|hus(?:ky|kies)|pets?)"
)
POSSESSION = (
    r"(?:car|van|house|flat|apartment|home|cottage|cabin|garden|allotment|balcony|boat|motorbike"
    r"|motorcycle|bike|bicycle|e-bike|piano|guitar|violin|camera|farm|caf\u00e9|cafe|shop|company"
    r"|business|startup|restaurant|bakery|degree|phd|doctorate|master's|diploma|licen[cs]e|visa"
    r"|passport|mortgage|tattoos?|blog|podcast)"
)
ILLNESS = (
    r"(?:diabet\w+|asthma\w*|adhd|(?-i:ADD)|autis\w+|anxiety|depression|epilep\w+|arthritis|migraines?"
    r"|allerg\w+|c(?:o)?eliac\w*|ibs|hypertension|high blood pressure|low blood pressure|insomnia"
    r"|dyslexi\w+|eczema|psoriasis|hay fever|scoliosis|tinnitus|anemia|anaemia|cancer|ptsd|ocd"
    r"|bipolar|a bad (?:knee|back|hip|shoulder)|\w+itis|\w+phobia|\w+ intolerance|\w+ syndrome"
    r"|\w+ disorder|\w+ disease)"
)
CONDITION = (
    r"(?:(?:lactose|gluten) intolerant|diabetic|dyslexic|autistic|epileptic|asthmatic"
    r"|colou?r-?blind|deaf|(?:legally )?blind|pregnant|left-handed"
    r"|an? (?:diabetic|coeliac|celiac|type \d diabetic)"
    r"|hard of hearing|bipolar|neurodivergent|introverted|an? (?:introvert|extrovert))"
)
DIET = (
    r"(?:an? )?(?:strict |lifelong )?(?:vegetarian|vegan|pescatarian|flexitarian|on a \w+ diet"
    r"|keto|halal|kosher|gluten-free)"
)
JOB = (
    r"(?:(?!(?:beginn|memb|believ|lov|us|custom|newcom|lon|moth|fath|broth|sist|foreign|smok|own"
    r"|start|follow|should|begg|hat|quick|slow|early|late|fast|heavy|light|num|read|learn|think)er\b"
    r"|vegetarian\b|vegan\b|christian\b|humanitarian\b)\w+(?:er|or|ist|ian|eer|yst|graph|smith)"
    r"|nurse|chef|cook|student|pilot|midwife|architect|accountant|attorney|judge|dentist|vet|coach"
    r"|consultant|assistant|intern|surgeon|scientist|soldier|priest|monk|waitress|actress|model"
    r"|executive|freelancer|entrepreneur|founder|co-?founder|ceo|cto|cfo|gp|dad of \w+|mum of \w+"
    r"|mom of \w+|technician|mechanic|plumber|clerk|secretary|agent|analyst|apprentice|postdoc"
    r"|undergraduate|undergrad|realtor|nanny|au pair|barista|paramedic|firefighter|pensioner)"
)
JOB_ENDS = (
    r"(?= (?:at|in|for(?! an?\b)|from|by|with|on|working|who|and|based|speciali[sz]\w+|of|now)\b"
    r"|\W*$|,)"
)
SPORT = (
    r"(?:the )?(?:piano|guitar|violin|cello|drums|bass|flute|saxophone|trumpet|clarinet|ukulele"
    r"|harp|football|soccer|tennis|basketball|volleyball|badminton|squash|golf|chess|rugby|cricket|hockey"
    r"|handball|padel|poker|bridge|video games|board games|dungeons)"
)
PREFERRED = re.compile(r"^(?:favou?rite|preferred)_(\w+)$")
"""Parts of keys that become `…_preference`, because agents look for preferences there."""
MAX_TOPIC_CHARACTERS = 40


_OPENINGS = {
    "I": re.compile(r"(?:\(\?:)*(?:i|we)(?![a-z])", re.IGNORECASE),
    "my": re.compile(r"(?:\(\?:)*(?:my|our|the)(?![a-z])", re.IGNORECASE),
}
"""Openings of clauses. They also match the patterns of forms for clauses with that opening."""


class Form(NamedTuple):
    """A pattern of clauses, and what such clauses state.

    `topic`: may refer to groups of the pattern. The group `v` is the value, which a correction
    ("actually it's …") replaces. `negative`: clauses with a "not" match as well.
    """

    memory_type: MemoryType
    pattern: re.Pattern[str]
    topic: str | None = None
    importance: float = 0.6
    durability: Durability = "standard"
    confidence: float = 0.9
    negative: bool = False

    @property
    def opening(self) -> str | None:
        """The opening that all clauses of this form have, or None if it may be any."""
        return next(
            (kind for kind, text in _OPENINGS.items() if text.match(self.pattern.pattern)), None
        )


def form(memory_type: MemoryType, pattern: str, topic: str | None = None, **rest: object) -> Form:
    return Form(memory_type, re.compile(pattern, re.IGNORECASE), topic, **rest)  # type: ignore[arg-type]


def topic_of(form_: Form, found: re.Match[str]) -> str | None:
    """Return the topic key of a statement, or None if there can be several values."""
    if form_.topic is None:
        return None
    groups = {name: key_part(text) for name, text in found.groupdict().items() if text}
    try:
        topic = form_.topic.format(**groups)
    except KeyError:  # this statement lacks a group
        return None
    return topic if len(topic) <= MAX_TOPIC_CHARACTERS else None


def opening_of(clause: str) -> str | None:
    """Return the opening of a clause, or None if it is not one of `_OPENINGS`."""
    return next((kind for kind, text in _OPENINGS.items() if text.match(clause)), None)


def key_part(text: str) -> str:
    """Return the text as one part of a topic key."""
    word = re.sub(r"[\W_]+", "_", text.lower()).strip("_")
    return PREFERRED.sub(r"\1_preference", word)


NOT_MOMENTARY = (
    r"(?!(?:it|this|that|these|those|them|you|your|him|her|how|what|when|where|why|if|both|all"
    r"|either|neither|none|any|my|our|everything|nothing|something)\b"
    r"|to (?:see|know|bother|say|hear|ask|admit|think|break|be)\b"
    r"|(?:the|an?|option|number|version) ?(?:\w+ ){0,2}(?:idea|one|ones|way|plan|concept|look|sound"
    r"|direction|name|title|part|parts|draft|version|options?|approach|change|changes|structure"
    r"|design|image|style|tone|result|results|logo|example|examples|answer|suggestions?|list|text"
    r"|sentence|paragraph|first|second|third|last|latter|former|addition|flow|framework)\b"
    r"|\w+ing (?:this|that|it|you)\b|(?:option|version|number) \w+\W*$)"
)
LIKING = (
    r"(?:love|like|enjoy|adore|prefer|hate|dislike|detest|loathe|despise|can't stand|cannot stand"
    r"|can't bear|(?:don't|do not)(?: really| particularly)? (?:like|enjoy|love|care for))"
)
FAN_OF = (
    r"(?:not )?(?:really |very |quite |also |a |an? (?:big|huge|massive|great|avid) )*"
    r"(?:fan of|fond of|into|crazy about|obsessed with|passionate about|keen on|lover of)"
)
I_AM = r"i(?:'m| am) "
I_HAVE = r"(?:i|we)(?: have|'ve got| have got| own|'ve) "
COUNT = r"(?:an?|one|two|three|four|five|six|seven|several|\d{1,2}|no)"
PLACE = r"(?P<v>(?:(?:a|an|the|near|north|south|east|west|central|rural|downtown) )*\S.*)"

IDENTITY: tuple[Form, ...] = (
    form("fact", rf"my (?:full |first )?name ?{BE} (?P<v>{NAME})", "user.name"),
    form("fact", r"my name(?: is|'s) (?P<v>(?!not\b|spelled|hard|important|on\b|in\b)\w+)\W*$", "user.name"),
    form("fact", rf"(?:(?:please|just|you can|everyone|everybody|people|my friends) )*calls? me (?P<v>{NAME})", "user.name"),
    form("fact", rf"{I_AM}called (?P<v>{NAME})", "user.name"),
    form("fact", r"my birthday(?: is|'s) (?:on )?(?P<v>.*\d.*)", "user.birthday"),
    form("fact", rf"i was born on (?P<v>.*{DATE}.*)", "user.birthday"),
    form("fact", r"i was born in (?P<v>\d{4})\b", "user.birth_year"),
    form("fact", r"i was born (?:and raised )?in (?P<v>.+)", "user.birthplace"),
    form("fact", rf"{I_AM}(?P<v>\d{{1,2}})(?: years old| yrs old| yo)?(?: now)?\W*$", "user.age"),
    form("fact", r"i(?:'ve| have)? (?:just |recently )?turned (?P<v>\d{1,2}|\w+ty)\b(?! (?:degrees|percent|pages?)\b)", "user.age"),
    form("fact", r"(?:i|we) (?:now |currently )?live (?:in|near|on|at|outside|just outside) "
         + PLACE, "user.home"),
    form("fact", rf"(?:i|we)(?:'ve| have) (?:been living|lived)(?: \w+){{0,4}} (?:in|near|on) {PLACE}", "user.home"),
    form("fact", rf"(?:{I_AM}|we're |we are )(?:now |currently )?(?:living|based|located) (?:in|near|on|outside) {PLACE}", "user.home"),
    form("fact", rf"i(?:'ve| have)? (?:just |recently |finally )?(?:moved|relocated)(?: back)?(?: from \w+(?: \w+)?)? to (?P<v>{NAME}.*)", "user.home"),
    form("fact", rf"(?:{I_AM}|i come )(?:originally )?from (?P<v>{NAME}.*|(?!the|an?|this|that|here|there|work|home|now)\w+(?: \w+)?\W*$)", "user.origin"),
    form("fact", r"i (?:still |now )?live (?P<v>with (?!it|this|that).+|alone|by myself)"),
    form("fact", r"i (?:grew up|was raised) (?P<v>.+)"),
    form("fact", rf"{I_AM}(?:an? )?(?:(?:native|fluent) )?(?P<v>{NAME} (?:citizen|speaker|national))"),
    form("fact", rf"{I_AM}(?:currently |now )?(?P<v>{DIET})\b", "user.diet"),
    form("fact", rf"i(?:'ve| have) been (?P<v>{DIET})\b", "user.diet"),
    form("fact", rf"{I_AM}(?P<v>no longer {DIET}|not {DIET} any ?(?:more|longer))\b", "user.diet", negative=True),
    form("fact", rf"{I_AM}(?P<v>single|divorced|widowed|engaged|married\b.*)", "user.marital_status"),
    form("fact", rf"{I_AM}(?:currently |now )?an? (?P<v>(?:[\w-]+ ){{0,3}}?{JOB}){JOB_ENDS}", "user.job"),
    form("fact", r"i(?:'ve been working| have been working| work|'m working)(?: (?:full|part)[- ]time)? as (?:an?|the) (?P<v>.+)", "user.job"),
    form("fact", r"i(?:'ve worked|'ve been working|'m working| have worked| (?:currently |now )?work) (?:for|at) (?P<v>(?!home|the moment|it|best)\S.*)", "user.employer"),
    form("fact", r"i (?:currently |now )?work (?:in|from|part[- ]time|full[- ]time|night|shifts) ?(?P<v>.*)"),
    form("fact", rf"{I_AM}(?P<v>retired|unemployed|self-employed|between jobs|on (?:maternity|paternity|parental|sick) leave)\b"),
    form("fact", r"i (?:run|own|founded|co-founded|manage|lead) (?:an?|the|my own) (?P<v>(?!script|command|test|code|program|query)\S.*)"),
    form("fact", r"i(?:'m studying| study| am studying) (?P<v>(?!it|this|that)\S.*)"),
    form("fact", r"i (?:speak|teach|coach) (?P<v>(?!to|with|up|for|of|you)\S.*)"),
)  # fmt: skip

SURROUNDINGS: tuple[Form, ...] = (
    form("fact", rf"my (?:new |current )?(?P<who>{ONE_PERSON})(?:'s name)?(?: is|'s)(?: called| named)? (?P<v>{NAME})(?=,|\W*$| and\b| but\b)", "user.{who}"),
    form("fact", rf"my (?P<who>dog|cat)(?:'s name)?(?: is|'s)(?: called| named)? (?P<v>{NAME})(?=,|\W*$| and\b)", "user.{who}"),
    form("fact", rf"{I_HAVE}(?:{COUNT} )(?:[\w-]+ ){{0,3}}?(?:{PERSON}|{PET}|{POSSESSION})(?:s|es)?\b(?! (?:idea|problem|question|meeting|issue))(?P<v>.*)"),
    form("fact", rf"{I_HAVE}{COUNT} (?:[\w-]+ ){{1,4}}?(?:called|named) (?P<v>{NAME}.*)"),
    form("event", rf"(?:my|our) (?:[\w-]+ )?{PERSON},? (?:{NAME},? )?(?:has |have |'ve )?(?:just |recently |finally )?(?P<v>(?:got|had|moved|started|turned|died|passed|graduated|bought|retired|quit|lost|won|gave birth|joined|broke)\b (?!angry|mad|back|it|me\b).+)"),
    form("fact", rf"(?:my|our) (?:[\w-]+ )?{PERSON}(?:'s)?,? (?:{NAME},? )?(?P<v>(?:is (?:an?|the|called|named|allergic|from|vegan|vegetarian|married|pregnant|deaf|blind|studying|learning|starting|turning|getting|moving|expecting|\d+)|works?|lives?|has|have|loves?|likes?|hates?|studies|plays?|speaks?|owns?|runs?|teaches|collects?|are called|are named)\b(?! (?:it|this|that|to know|no)\b).*)"),
    form("fact", rf"(?:my|our) (?:[\w-]+ )?{PERSON}(?: {NAME})?'s (?:[a-z-]+ )?(?!point|idea|question|problem|opinion)[a-z-]+ (?:is|are) (?P<v>(?!not|so|too|very)\S.*)"),
    form("fact", rf"(?:my|our) (?:[\w-]+ )?{PET}(?:'s)?,? (?:{NAME},? )?(?P<v>(?:is (?:an?|called|named|\d+|allergic)|has|are called|loves?|hates?|turned|died|passed away|(?:just )?had|(?:just )?got)\b .+)"),
    form("fact", rf"{I_AM}(?:severely |very |highly |mildly )?allergic to (?P<v>.+)", importance=0.9, durability="core"),
    form("fact", rf"i(?:'ve| have|'ve got| suffer from|'ve had)(?: (?:got|an?|severe|mild|chronic|type \d|really|bad|terrible))* (?P<v>{ILLNESS}\b.*)", importance=0.9, durability="core"),
    form("fact", rf"{I_AM}(?P<v>{CONDITION}\b.*)", importance=0.8, durability="core"),
    form("fact", r"i (?:was|got|'ve been|have been)(?: recently| just)? diagnosed with (?P<v>.+)", importance=0.9, durability="core"),
    form("fact", r"i(?:'m taking| take| am taking|'m on) (?P<v>.*\b(?:medications?|medicine|pills?|tablets|\d ?mg|insulin|vitamins?|supplements?|statins|antidepressants|blood thinners)\b.*)", importance=0.8),
    form("fact", r"i (?:can't|cannot|can not|don't|do not|never|no longer) (?:eat|drink|smoke|drive|swim|tolerate|digest|own|speak|celebrate|fly|cook|ride) ?(?P<v>(?!it|this|that)\S.*)?$", negative=True),
    form("fact", rf"i(?:'ve| have) had {COUNT} (?P<v>(?:[\w-]+ ){{0,2}}(?:surger(?:y|ies)|operations?|transplants?|strokes?|heart attacks?|miscarriages?)\b.*)", importance=0.8),
    form("fact", rf"{I_AM}(?:really |very |absolutely )?(?:terrified|afraid|scared|frightened) of (?P<v>.+)"),
    form("fact", rf"{I_AM}(?:now |happily )?married (?P<v>to .+)"),
    form("fact", r"i drive (?P<v>an? .+)"),
)  # fmt: skip

LIKES: tuple[Form, ...] = (
    form("preference", r"my (?:absolute |all-time |new |current )?(?P<thing>favou?rite [a-z-]+(?: [a-z-]+){0,3}?)(?: is|'s| are|'re) (?P<v>(?!the (?:first|second|last)|this|that\b)\S.*)", "user.{thing}"),
    form("preference", rf"(?P<v>{NAME}|[\w -]{{2,40}}) (?:is|are) my (?:absolute |all-time )?(?P<thing>favou?rite (?:[a-z-]+ )?[a-z-]+)(?= |\W*$)(?! so far)", "user.{thing}"),
    form("preference", rf"i {ADVERBS}{LIKING} {NOT_MOMENTARY}(?P<v>\S.*)", negative=True, importance=0.5),
    form("preference", rf"{I_AM}{FAN_OF} {NOT_MOMENTARY}(?P<v>\S.*)", negative=True, importance=0.5),
    form("preference", rf"i(?:'ve| have) (?:never|always) (?:really )?(?:liked|loved|enjoyed|hated|disliked) {NOT_MOMENTARY}(?P<v>\S.*)", negative=True, importance=0.5),
    form("preference", rf"i find {NOT_MOMENTARY}(?P<v>.+ (?:exhausting|boring|annoying|relaxing|calming|fascinating|stressful|tiring|soothing|overwhelming|disgusting|irritating))\b", importance=0.5),
    form("preference", rf"i(?:'m| am) (?:more )?(?:interested in) {NOT_MOMENTARY}(?P<v>\S.*)", importance=0.5),
)  # fmt: skip

HABITS: tuple[Form, ...] = (
    form("fact", rf"i {ADVERBS}(?:play|practi[cs]e) (?P<v>{SPORT}\b.*)", importance=0.5),
    form("fact", rf"i {ADVERBS}(?:volunteer|collect|garden|meditate|journal|babysit|foster) (?P<v>(?!it|this|that)\S.*)", importance=0.5),
    form("fact", r"(?:i|we)(?:'ve| have) been (?P<v>[a-z]+ing (?!it|this|that|on it|to\b).+\b(?:for|since)\b.+)", importance=0.5),
    form("fact", r"i used to (?!think|believe|it|be able)(?P<v>\S.*)", importance=0.5),
    form("fact", r"i (?:usually|always|often|normally|typically|generally|never) (?P<v>(?!say|said|think|thought|wonder|mean|forget|forgot|want|make|have trouble|had|got|been|wanted|tried|knew|heard|saw|did|know|\w+ed\b|seem|feel|end up|liked|hear|get)[a-z]+ (?!it\b|this|that).+)", negative=True, importance=0.5),
    form("fact", r"(?:i|we) (?:[a-z]+)(?: \S+){0,8} (?P<v>(?:every|each) (?:other )?(?:day|morning|evening|night|week|weekend|month|year|summer|winter|\w+day)\b.*)", importance=0.5, confidence=0.8),
    form("fact", r"i (?:no longer|stopped|gave up|quit) (?P<v>(?!here|it|this)(?:eat|drink|smok|work|us|play|driv|liv|go|tak|buy|watch|read)\w* ?.*)", negative=True),
    form("fact", r"i don't (?:work|live|eat|drink|smoke|play|drive|use|go|take) (?P<v>.*\bany ?more\b.*)", negative=True),
)  # fmt: skip

ATTRIBUTE = (
    r"(?:native language|first language|mother tongue|e-?mail(?: address)?|phone number|home address"
    r"|time ?zone|shoe size|clothing size|dress size|height|weight|blood type|profession|occupation"
    r"|job title|nationality|religion|star sign|zodiac sign|home ?town|major|editor|ide|shell"
    r"|operating system|user ?name|handle|website|salary|hobby|employer|university|pronouns"
    r"|(?:middle|last|maiden|family) name|surname|nickname)"
)
NOT_EXCLUDED = (
    rf"(?!(?:[\w-]+ )?(?:{PERSON}|{PET})\b|point|question|problem|issue|idea|guess|opinion|answer"
    r"|mistake|concern|code|only|main|first|next|last|new\b|current|goal|plan|aim|favou?rite|turn|bad)"
)
VALUE = (
    r"(?P<v>(?!(?:an?|the) (?:[\w-]+ )?(?:mess|disaster|nightmare|joke|pain|problem|best|worst|same"
    r"|one|reason|issue|question|result|bit|little|lot|way|opposite|most|only)\b)"
    r"(?:(?:an?|the|called|named|from|in|on) |\d|(?-i:[A-Z])).*)"
)

ATTRIBUTES: tuple[Form, ...] = (
    form("fact", rf"my (?:new |current )?(?P<thing>{ATTRIBUTE})(?: is|'s| are) (?P<v>(?!that\b|what\b|too\b|very\b|so\b)\S.*)", "user.{thing}"),
    form("fact", rf"my (?:new |current )?{NOT_EXCLUDED}(?P<thing>[a-z-]+(?: [a-z-]+)?) (?:is|are)(?: now)? {VALUE}", "user.{thing}", confidence=0.8),
)  # fmt: skip

HAVE_JUST = r"(?:i|we)(?:'ve| have)? (?:just |now |recently |finally |also )*"
HAS_CHANGED = (
    r"(?:(?:was|were|has been|have been|got|is being) )?(?:just |now )?(?:changed|moved|switched"
    r"|raised|lowered|increased|decreased|reduced|cut|extended|shortened|postponed|pushed(?: back)?"
    r"|rescheduled|renamed|went up|went down|gone up|gone down|rose|fell|dropped|jumped)"
)
NEW_VALUE = rf"(?:from .{{1,40}}? )?to (?P<v>(?:(?:every|each|next|the) )?(?:\W?\d|(?-i:[A-Z])|{COMING_TIME}).*)"
MET_NEW = r"(?: have|'ve(?: got)?| have got| got| found| hired)"

CHANGES: tuple[Form, ...] = (
    form("fact", rf"{HAVE_JUST}(?:changed|switched|updated) my (?P<thing>{ATTRIBUTE}) (?:from .{{1,40}}? )?to (?P<v>\S.*)", "user.{thing}"),
    form("fact", rf"{HAVE_JUST}(?:changed|switched|updated|moved|shifted|pushed|postponed|rescheduled|renamed|raised|lowered|cut) my {NOT_EXCLUDED}(?!mind|name\b)(?P<thing>[a-z-]+(?: [a-z-]+)?) {NEW_VALUE}", "user.{thing}"),
    form("fact", rf"my {NOT_EXCLUDED}(?P<thing>[a-z-]+(?: (?!was|were|has|have|got|is\b)[a-z-]+)?) {HAS_CHANGED} {NEW_VALUE}", "user.{thing}"),
    form("fact", rf"(?:i|we){MET_NEW}(?: an?| my| our)? new (?P<who>{CALLED_UPON})(?:,| called| named|:) (?P<v>{NAME}.*)", "user.{who}"),
    form("fact", rf"{HAVE_JUST}(?:changed|switched) (?P<who>{CALLED_UPON})s?,?(?: and)?(?: to| now go to| now see| now it's) (?P<v>{NAME}.*)", "user.{who}"),
    form("fact", rf"{HAVE_JUST}(?:started (?:working |my new job |a new job |a job )(?:at|for|with)|got (?:a|my) (?:new )?job (?:at|with)|was hired (?:by|at)|(?:took|accepted) a (?:new )?job (?:at|with)) (?P<v>{NAME}.*)", "user.employer", importance=0.8),
    form("fact", rf"{HAVE_JUST}(?:quit|left|resigned from) (?:my job at )?{NAME},? (?:and|to|then) (?:i )?(?:now )?(?:joined|join|started at|started working (?:at|for)|start at|work (?:at|for)) (?P<v>{NAME}.*)", "user.employer", importance=0.8),
    form("fact", rf"{HAVE_JUST}joined (?P<v>{NAME},? as an? .+)", "user.employer", importance=0.8),
    form("fact", r"i (?:was|got|have been|'ve been)(?: just| recently)? promoted to (?P<v>(?!the (?:next|top)\b|production)\S.*)", "user.job", importance=0.8),
)  # fmt: skip
"""New values of what had another one: they have the keys of the forms for the old values."""

GOALS: tuple[Form, ...] = (
    form("fact", r"my (?:main |biggest |long-term |ultimate |next |new )?(?:goal|dream|aim|ambition|resolution)(?: (?:for|this) [\w ]{1,20})?(?: is|'s) (?P<v>(?!that\b|simple|clear)\S.*)", importance=0.7),
    form("fact", r"(?:i|we) (?:really |also |still |just )?(?:want|hope|plan|intend|aim|'m (?:hoping|planning|aiming|trying)|am (?:hoping|planning|aiming|trying)|'re (?:hoping|planning|aiming|trying)|'d love|would love) to (?P<v>(?:learn|become|move|lose|run a|run my|save|quit|stop|start my|start a|open|retire|buy an?|get into|get fit|get better|improve my|visit|travel|study|go back|climb|build|launch|publish|finish|apply|emigrate|adopt|reach|reduce|eat|cut|train|write a (?:book|novel|memoir)|grow)\b .+)", importance=0.7, confidence=0.8),
    form("fact", r"i(?:'m| am)(?: currently| now)? (?P<v>(?:learning|training for|saving (?:up )?for|studying for|preparing for|practi[cs]ing for|applying (?:for|to)|writing (?:a|my)|working on (?:an?|my)|renovating|recovering from|looking for a (?:job|new job|flat|house))\b (?!it|this|that|more about).+)", importance=0.7),
)  # fmt: skip

EVENTS: tuple[Form, ...] = (
    form("event", rf"(?:i|we)(?:'ve| have)? (?:just |finally |recently |also |officially )*(?P<v>(?:got (?:married|engaged|divorced|promoted|laid off|fired|hired|accepted|a (?:new )?job|a (?:new )?{PET})|graduated|retired|gave birth|had (?:a baby|surgery|an operation|a miscarriage|a heart attack|a stroke)|adopted (?:an?|two|our|my)|bought (?:an?|my|our) (?:[\w-]+ )?{POSSESSION}|sold (?:my|our) {POSSESSION}|broke my|passed (?:my|the) (?:[\w-]+ )?(?:exams?|test|bar|driving)|was (?:promoted|accepted|hired|elected|laid off|fired)|lost my (?:job|{PERSON})|quit (?:my|smoking|drinking)|left my|started (?:a (?:new )?(?:job|business|company|course)|my (?:own|new))|founded|became an?|won (?:an?|the|first|second|third)|published (?:a|my)|moved (?:in|into|out|to))\b.*)", importance=0.8),
    form("event", rf"(?:i|we)(?:'ve| have)? (?:just |finally |recently |also )*(?P<v>(?!it|this)(?:ran|visited|went|adopted|bought|sold|moved|started|finished|completed|joined|left|quit|met|broke|had|won|lost|passed|failed|attended|travell?ed|flew|hiked|camped|climbed|signed up|took|built|painted|planted|published|launched|released|deployed|shipped|migrated|celebrated|gave|performed|watched|saw|made|baked|cooked|learned|learnt|received|booked|hosted|organi[sz]ed|presented|submitted|volunteered|donated|upgraded|renovated|went|read|wrote|sprained|injured|hurt|fell|cycled|swam|interviewed|opened|closed|hired|promoted|turned|stopped|switched|changed)\b (?!it\b|this\b|that\b|an error|an? (?:look|screenshot|photo|picture|break|nap|note)\b|through (?:it|this|the)).*{PAST_TIME}.*)", importance=0.6),
)  # fmt: skip
"""Events, with or without a date."""

PEOPLE = (*IDENTITY, *CHANGES, *SURROUNDINGS, *LIKES, *GOALS, *ATTRIBUTES, *EVENTS, *HABITS)


PROJECT_ATTRIBUTE = (
    r"(?:deadline|due date|submission date|budget|launch date|release date|launch|release|go-live"
    r"(?: date)?|kick-?off|start date|end date|code ?name|project name|working title|target audience"
    r"|client|venue|theme|tech stack|stack|domain|repo|repository|main character|protagonist)"
)
BECOMES = (
    r"(?:is|'s|will be|is now|was (?:moved|changed|pushed|shifted|extended|postponed)(?: back)? to"
    r"|(?:has|have) been (?:moved|changed|pushed|shifted|extended|postponed)(?: back)? to"
    r"|(?:has )?(?:moved|changed) to|got (?:moved|pushed|changed)(?: back)? to|is set (?:to|for))"
)
EXACT_VALUE = r"(?P<v>(?:(?!what\b|tight\b|that\b|not\b)[^\W\d_]+ ){0,4}?(?:\W?\d|(?-i:[A-Z]).).*|(?:tomorrow|next|this) .*)"
DEFINITE_VALUE = (
    r"(?P<v>(?:an?|the|called|named|written in|built (?:with|on|in|around)|hosted (?:on|in)|based in"
    r"|located in|deployed (?:on|to)|running on|due|scheduled|every|\d|\u20ac|\$|\u00a3"
    r"|(?-i:[A-Z])).*)"
)
NOT_GENERIC = (
    r"(?!conversation|chat|discussion|solar|planet|world|universe|society|country|galaxy|ancestors"
    r"|brain|bod|culture|life|lives|species|generation|economy|next|first|last|best|only|goal"
    r"|problem|question|point|hero|heroine|villain|character|protagonist|story|narrator)"
)
DATABASE = (
    r"(?:postgres(?:ql)?|mysql|mariadb|sqlite|mongodb|mongo|oracle|sql server|dynamodb|cassandra"
    r"|redis|duckdb|cockroachdb|firestore)"
)
FOR_A_PURPOSE = r" (?:for|as) (?!.*\b(?:database|storage|project|app|everything)\b)"
CLOUD = r"(?:aws|azure|gcp|google cloud|hetzner|digitalocean|heroku|vercel|netlify|cloudflare)"
FRONTEND = r"(?:react|vue|angular|svelte|solid|next\.?js|nuxt|htmx)"
EDITOR = r"(?:vs ?code|visual studio code|neovim|vim|emacs|pycharm|intellij|sublime text|cursor|zed|helix)"
ADOPT = (
    r"(?:'re (?:now )?using|are (?:now )?using|use|run on|(?:have |'ve )?(?:just |finally |recently )?"
    r"(?:switched|migrated|moved|changed)(?: over)?(?: from [\w .]{2,30}?)? to|chose|picked|adopted"
    r"|(?:have |'ve )?(?:decided|agreed) (?:on|to use|to go with|to switch to)|settled on"
    r"|are going with|'re going with|went with)"
)
LANGUAGE = (
    r"(?:english|french|german|spanish|italian|portuguese|dutch|polish|russian|chinese|japanese"
    r"|arabic|hindi|welsh|swedish|norwegian|danish|finnish|greek|turkish|ukrainian|korean)"
)
EVENT_NOUN = (
    r"(?:appointment|meeting|interview|exam|test|flight|wedding|surgery|operation|concert|conference"
    r"|trip|holiday|vacation|party|presentation|move|marathon|race|defen[cs]e|hearing|class|course"
    r"|birthday party|recital|check-?up|scan|viewing|date|dinner|anniversary|baby|visit|talk|audition"
    r"|performance|game|match|tournament|ceremony|graduation|final|finals)"
)
REQUEST = r"(?:(?:please|i(?:'d| would) (?:like|want|prefer)|i (?:want|need|expect) (?:you)?|you (?:should|must)|to|also) )*"

INSTRUCTIONS: tuple[Form, ...] = (
    form("instruction", rf"{REQUEST}(?:(?:always|only|from now on),? )*(?P<v>(?:answer|reply|respond|speak|talk|write)(?: to me| back)? (?:only |always )*in {LANGUAGE}\b.*)", "user.answer_language"),
    form("preference", rf"i (?:would |'d )?(?:always )?prefer (?:(?:your |the )?(?:answers?|replies|responses|messages) (?:to be )?)?in (?P<v>{LANGUAGE}\b.*)", "user.answer_language"),
    form("instruction", rf"{REQUEST}(?:always|never|don't ever|do not ever) (?P<v>(?!mind|know|here\b|there\b|happen|end|get|fail|fails|works?\b|heard|said|been|knew|thought|had|a pleasure|an? |the |seen|happy|good|forget|make me|been|wanted|again|liked|that|told|gave|did|said|went|came|\w+ed\b)[a-z]+ .+)", negative=True),
    form("instruction", r"(?:please )?(?:from now on|from here on|going forward|in (?:the )?future|by default|as a rule|for all (?:your|future) (?:answers|replies|responses))\b,? ?(?P<v>(?!i\b|we\b|it\b|he\b|she\b|they\b|there\b)\S.+)", negative=True),
    form("instruction", rf"{REQUEST}(?P<v>(?!i\b|we\b|it\b|my\b|he\b|she\b|they\b)\S+ .+) (?:from now on|from here on|going forward|in (?:the )?future|by default|every time|at all times)\W*$", negative=True),
    form("instruction", r"(?P<v>(?:whenever|every time|each time|any time|anytime) (?:i|you|we|there|a|an|the|someone)\b.+, ?(?:please |always |just )*(?!i\b|we\b|it\b|he\b|she\b|they\b|you\b|my\b|the\b|there\b|that\b)[a-z]+ .+)", negative=True),
)  # fmt: skip

DECISIONS: tuple[Form, ...] = (
    form("fact", rf"we ?{ADOPT} (?P<v>{DATABASE}\b(?!{FOR_A_PURPOSE}).*)", "project.database"),
    form("fact", rf"we ?{ADOPT} (?P<v>{CLOUD}\b.*)", "project.cloud_provider"),
    form("fact", rf"we ?{ADOPT} (?P<v>{FRONTEND}\b.*)", "project.frontend"),
    form("fact", rf"i ?{ADOPT} (?P<v>{EDITOR}\b.*)", "user.editor"),
    form("fact", rf"(?:i|we)(?:'ve| have)? (?:just |all )?(?:agreed to |decided to )?(?:move|change|push|shift|extend|postpone|raise|lower|cut|reduce|increase)e?d? (?:back )?(?:the|our) (?P<what>{PROJECT_ATTRIBUTE}) (?:back )?(?:from .{{1,40}}? )?to {EXACT_VALUE}", "project.{what}", importance=0.8),
    form("event", r"(?:i|we)(?:'ve| have|'ve all| all)? (?:finally |just |already |now |both )?(?P<v>(?:decided|agreed|chosen|chose|picked|settled|opted|committed|resolved) (?!nothing|not sure|it\b|that\b(?= (?:is|was)))(?:to|on|that|for|against|not to|as)?\b ?.+)", negative=True, importance=0.8),
    form("event", r"(?:i|we)(?:'m|'re| am| are) going with (?P<v>(?!it\b|this\b|that\b|option|the (?:first|second|third|last|other))\S.+)", importance=0.8),
    form("fact", rf"(?:the|our) (?:project(?:'s)? )?(?P<what>{PROJECT_ATTRIBUTE})(?: (?:for|of) (?:the|our|this) (?:project|app|team|company|product))? {BECOMES} (?:on |at |in )?{EXACT_VALUE}", "project.{what}", importance=0.8),
    form("fact", rf"(?:the|our) (?P<what>{PROJECT_ATTRIBUTE}) (?:for|of) (?:the |our |my )?(?P<of>\w+(?: \w+)?) {BECOMES} (?:on |at |in )?{EXACT_VALUE}", "project.{of}_{what}", importance=0.8),
    form("fact", rf"(?:the|our|my) (?:project|app|company|startup|product|game|book|novel|store|team|band)(?: is|'s|'s name is) (?:called|named) (?P<v>{NAME}|\S+)", "project.name", importance=0.8),
    form("fact", rf"our {NOT_GENERIC}(?P<what>[a-z-]+(?: [a-z-]+)?) (?:is|are|will be|is now) {DEFINITE_VALUE}", "project.{what}", importance=0.7),
    form("fact", r"(?:my|the|our) (?:[\w-]+ ){1,3}?(?:is|are) due (?P<v>.*\d.*|(?:on |by )?(?:next |this )?\w+day\b.*|tomorrow.*)", importance=0.8),
    form("fact", rf"we use (?P<v>{NAME} (?:to|for|as)\b .+)"),
    form("fact", r"we (?:deploy|release|ship|meet|publish|train|rehearse|practi[cs]e)(?: \w+){0,3} (?P<v>(?:every|each|on|once|twice)\b .+)"),
)  # fmt: skip

PLANS: tuple[Form, ...] = (
    form("event", rf"(?:my|our) (?:[\w'-]+ ){{0,3}}?{EVENT_NOUN}(?: (?:to|with|in|at|for) [\w ]{{2,40}}?)?(?: is|'s| are| starts| begins| will be|'s been moved| has been moved| got moved)(?: on| at| in| to| for| scheduled)* (?P<v>(?:.{{0,20}}){COMING_TIME}.*)", importance=0.7),
    form("event", rf"(?:i|we)(?: have|'ve got|'ve) (?:an?|my|our|the) (?:[\w'-]+ ){{0,3}}?{EVENT_NOUN}\b(?P<v>.*{COMING_TIME}.*)", importance=0.7),
    form("event", rf"(?:i|we)(?:'m|'re| am| are) (?P<v>(?:going to|planning to|flying|travell?ing|visiting|getting|moving|having|starting|leaving|meeting|hosting|running|seeing|expecting|throwing|presenting|attending|taking)\b (?!it\b|this\b|that\b|an error|back to).*{COMING_TIME}.*)", importance=0.7, confidence=0.8),
    form("task", rf"(?:i|we)(?: need to| have to|'ve got to| must| should|'ll have to) (?P<v>(?!you\b)\w+ .*\b(?:by|before|until|on|no later than)\b.*{COMING_TIME}.*)", importance=0.6, durability="ephemeral"),
    form("task", r"(?:please )?remind me (?:\w+ )?to (?P<v>(?!you\b)\w+ .+)", importance=0.6, durability="ephemeral"),
    form("task", rf"(?:i|we)(?: have to|'ve got to|'ll have to) (?P<v>(?!you\b|say|admit|go\b|.*\btoday\b)\w+ .*{COMING_TIME}.*)", importance=0.6, durability="ephemeral"),
    form("task", rf"(?:i|we)(?:'ll| will| plan to| intend to) (?P<v>(?!be right|try|see you|let you|go with)\w+ .*{COMING_TIME}.*)", importance=0.5, durability="ephemeral", confidence=0.7),
)  # fmt: skip

PROJECTS = (*INSTRUCTIONS, *DECISIONS, *PLANS)
