"""English: the words that its forms share, and its table of attributes."""

# ruff: noqa: E501 - a form is easier to read in one line

from local2.language.attributes import Attribute, Language
from local2.language.time import MONTH_NAME, MONTHS, WEEKDAYS
from local2.language.words import word_set

IRREGULAR_PAST = "went|got|ran|bought|broke|built|came|chose|did|drove|ate|found|gave|had|heard|hurt|kept|knew|left|lost|made|met|paid|put|quit|read|saw|sold|sent|set|spent|took|taught|told|thought|was|won|wrote|began|became|brought|cut|felt|let|stuck|meant|forgot|lent|stole|blew|burnt|caught|dealt|drank|dreamt|drew|fell|flew|fought|froze|grew|held|hid|hung|leapt|learnt|rode|rose|sang|sank|sat|shook|shot|slept|spoke|stood|stung|struck|swam|swept|swore|threw|tore|understood|wept|withdrew|woke|wore"

VOCABULARY = {
    # times, names and amounts
    "weekday": "|".join(WEEKDAYS),
    "period": "night|weekend|week|month|year|spring|summer|autumn|winter",
    "date": rf"\d{{4}}-\d\d?-\d\d?|\d\d?/\d\d?(/\d{{2,4}})?|(\d\d? (of )?)?{MONTH_NAME}\b|(19|20)\d\d\b|\d\d?(st|nd|rd|th)\b",
    "unit": "day|week|month|year",
    "some": r"<count>|\d{3}|a few|a couple of",
    "coming": r"\b(tomorrow|tonight|today|(next|this) (<period>|<weekday>)|<weekday>|<date>|in (<some>) (<unit>)s?)\b",
    "past": r"\b(yesterday|last (<period>|<weekday>)|this (morning|<period>)|<date>|(\w+ ){1,3}ago|on <weekday>|the other day|over the weekend|today)\b",
    "name": r"(?-i:[A-Z][\w'.-]+(?: (?:[A-Z][\w'-]+|de|v[ao]n)){0,3}(?<![.']))",
    "no_place": r"(\w+ )?(fear|dread|peace|harmony|poverty|luxury|comfort|hope|denial|silence|sin|exile)",
    "place": r"(?!<no_place>\b)(?!(an?|the|my|our) (?!(?-i:[A-Z]))(?!.* (in|near|of|at|on|outside|called) (?:the )?<name>))(?!\w+ of\b)\S.*",
    "count": r"an?|one|two|three|four|five|six|seven|eight|nine|ten|several|\d{1,2}",
    "number": r"\d[\d.,]*|(twen|thir|for|fif|six|seven|eigh|nine)ty([ -]\w+)?|\w+teen|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve",
    "money": r"[$€£]\d[\d.,]*k?|\d[\d.,]*( ?k| thousand| grand)?( ?[$€£]| euros?| dollars| pounds| francs| bucks)|\d[\d.,]*( ?k| thousand| grand)|\d[\d.,]{3,}",
    "about": "((about|around|roughly|exactly|at|now) )*",
    "each": "an?|per|every|each",
    "language": r"\w{2,}(sh|ese|ench|[imet][ac]n|tch)\b",
    # who does something, and how
    "i_am": "i('m| am) (currently |now )?",
    "i_have": "(i|we)( have|'ve got| have got| own|'ve) ",
    "adverb": r"(?!only\b)\w{2,}ly|just|now|also|already|even|always|still|often|never|sometimes|both",
    "really": "((<adverb>) )*",
    "i_did": "(i|we)('ve| have)? <really>",
    "i_do": "(i|we) <really>",
    "my": "((both|all) )?(my|our|the) ",
    "own": "((both|all) )?((my|our|the) )?",
    "is": "( is|'s| are|'re)",
    "did": IRREGULAR_PAST + r"|(?!need)\w{2,}ed",
    "definite": r"(?P<v>(?!<judged>|<language>|.*\d[ -]years?[ -]old\b)((an?|the|called|named|from) |(in|on|at) (the |my |our |<name>|(\w+ )?\d)|[$€£]?\d|\S+@|(?-i:[A-Z])).*)",
    "judged": r"(an?|the) ([\w-]+ ){0,2}?(mess|joke|problem|best|same|one|reason|bit|lot|way|only|boy|girl|pain|nightmare|fan|little|disaster|star|saint|bore)\b",
    "exact": r"(?P<v>((?!what\b|tight\b)[^\W\d_]+ ){0,4}?(\W?\d|(?-i:[A-Z]).).*)",
    "to_value": r"(from .{1,40}? )?to (?!<language>|(?-i:[A-Z])\d+\b)(?P<v>((every|the) )?(\W?\d|\S+@|(?-i:[A-Z])|<coming>).*)",
    # people, things and words that mean none
    "partner": "wife|husband|partner|girlfriend|boyfriend|fianc\\we?",
    "relative": r"mother|father|mom|mum|dad|parents?|<partner>|brothers?|sisters?|cousins?|aunt|uncle|niece|nephew|grand\w+|\w+-in-law|family",
    "offspring": "sons?|daughters?|kids?|child(ren)?|baby",
    "only_kin": r"mother|mom|mum|father|dad|<partner>",
    "kin": r"((older|elder|younger|big|little|twin|eldest|youngest) )?((step)?(brother|sister)|son|daughter|grand(mother|father|ma|pa|dad|son|daughter)|gran|granny|nan)",
    "given": r"(?-i:[A-Z][\w'-]+)",
    "does": r"('s (?!<judged>)(an?|called|named) \w.*|('s [\w-]+( [\w-]+)?|s)?,? ((<adverb>|(?-i:[A-Z])[\w'-]+),? )*(?!was|this|says?|said|told|thinks?|wants?|asked)(is|are|has|have|[a-z]{3,}s|<did>)\b (?!(it|this|that|to|no|not|so|too|very|still|me|my)\b).*)",
    "person": "<relative>|friend|neighbou?r|colleague|boss|manager|doctor",
    "pet": "dogs?|cats?|parrots?|horses?|pets?",
    "not_mine": r"(?!name\b|([\w-]+ )?(brothers?|sisters?|<offspring>|friend|cousin|aunt|uncle|cats|dogs|point|question|problem|idea|opinion|answer|code|only|main|first|next|new|goal|favou?rite|mind)\b)",
    "momentary": r"([\w-]+ ){0,3}?(ideas?|questions?|problems?|meeting|issues?|look|errors?|feeling|minute|point|lot|few|bit|couple|options?|things?|hard|good|bad|new)\b",
    "medicine": r".*\b(medications?|pills?|tablets|\d ?mg|insulin|anti\w+s|\w+(pril|sartan|statin|olol|formin|prazole|oxetine|traline|alopram|azepam|cillin|dipine|thyroxine|farin|xaban|triptan|lukast|profen|semide))\b.*",
    "illness": r"diabet\w+|asthma|adhd|anxiety|depression|epilep\w+|migraines?|allerg\w+|cancer|a bad \w+|\w+itis|\w+(-| )(intoleran(ce|t)|syndrome|disorder|disease|blind|handed)|(dyslex|autist)ic|pregnant|deaf|blind",
    "diet": r"(an? )?(\w*vegetarian|vegan|on a \w+ diet|\w+-free)",
    "of_now": r"((?!(former|ex|aspiring|future|amateur|of|my|your)\b)[\w'-]+ ){0,3}?",
    "trait": r"(smok|drink|sleep|listen|beginn|foreign|teenag|custom|subscrib|follow|support|swimm|hik|moth|fath|broth|sist|daught|widow|monst|sinn)er|(optim|pessim|minimal|perfection|femin|pacif|athe|cycl)ist",
    "job": r"(?!((memb|lov|us|own|begg|strang|numb|learn|believ|suck)er|<trait>|vegetarian)\b)\w+(er|or|ist|ian|eer|yst|tant|guard)|nurse|chef|cook|student|pilot|midwife|architect",
    # what is liked, wanted and decided
    "liked": r"(?P<v>(?!(it|this|that|these|those|them|you|your|how|what|when|where|why|if|all|any|my)\b|to (see|hear|bother)\b|(the|an?|option) ?(\w+ ){0,2}(idea|ones?|way|direction|parts?|version|sound|logo|answer)\b|option \w+\W*$)\S.*)",
    "liking": "love|like|enjoy|adore|prefer|<disliking>|(don't|do not) (like|enjoy|love)",
    "disliking": "hate|dislike|(can't|cannot) (stand|bear)",
    "fan_of": "(not )?((very|an?|big|huge) )*(fan of|fond of|keen on|interested in)",
    "change": "changed?|switch(ed)?|updated?|moved?|push(ed)?|postponed?|raised?|lower(ed)?|increased?|reduced?|dropped|rose|risen|fell|fallen|cut",
    "was": "((was|were|has been|have been) )?(just |now )?",
    "becomes": "is|will be|<was>(<change>|went up|went down)( back| up)? to",
    "project_noun": "deadline|budget|(launch|release|due|start) date|code ?name|venue|database|backend|frontend|api|team lead",
    "request": "((please|you (should|must)) )*",
    "henceforth": "(from now on|going forward|in (the )?future|by default)",
    # what is over
    "gave_up": "stopped|quit|gave up|given up|dropped|scrapped|ditched",
    "parting": r"broke up|split up|(got )?divorced|separated|(broke|broken) (it|things) off|called off the (wedding|engagement)",
    "sorry": "(no|nope|nah|oh|oops|sorry|actually|wait|correction|hang on|hold on|well|my mistake|i mean|hmm?|ah)[,:.!]* ",
    "jesting": "joking|kidding|lying|showing off|quoting|teasing|making (that|it|this) up|wrong|mistaken",
    "ended": r"(?P<v>\S.*?)",
    "who": r"(?P<who>i|we|(my|our) [a-z-]+( [a-z-]+){0,3}?( <given>){0,2}|(?!(i|we|it|he|she|they|you|this|that|there|what|who)\b)<name>)",
    "verb": r"(?!(only|just|always|even|think|know|mean|need|believe)\b)[a-z]+\b",
    "value": r"(?!(only|just|simply|merely|yet|sure|always|all|so|that|too|very|as|it|this)\b)(actually )?",
}
"""Parts of patterns. In them, `<name>` stands for another part."""

_PARTNERS = "engaged married dating wife husband partner girlfriend boyfriend"
ATTRIBUTES = (
    # what somebody is called, and who they are
    Attribute((
        "my (full |first )?name ?('s|is) <v:name>",
        "((please|just|everybody|people|my [a-z-]+) )*calls? me <v:name>",
    ), "user.name", nouns="name, full name, first name", ways="renamed"),
    Attribute((r"my birthday<is> (on )?(?P<v>.*\d.*)", r"i was born on (?P<v>.*\d.*)"), "user.birthday"),
    Attribute(("i (was born|grew up)( and raised)? (?P<v>(in|near|on|with) .+)",)),
    Attribute((
        r"<i_am>(?P<v>\d{1,2})( years old| yrs old)?( now)?\W*$",
        r"<i_did>turned (?P<v>\d{1,2}|\w+ty)\b(?! (degrees|percent|pages?)\b)",
    ), "user.age", nouns="age", amount="(<number>) (years|yrs) old"),
    Attribute(("i <really>weigh( in)? <about><amount>",), "user.weight", nouns="weight, body weight", amount=r"(<number>) ?(kg|kilos?|kilograms?|pounds|lbs?|stone)\b( \d+)?"),
    Attribute(("i <really>(measure|stand) <about><amount>",), "user.height", nouns="height", amount=r"(\d[.,]\d\d? ?(m|met(er|re)s?)|\d{3} ?(cm|centimet(er|re)s)|\d (foot|feet|ft)( \d{1,2})?)\b( tall)?"),
    Attribute((r"(i|we) <really>(wear|take|need|have)( an?)? (shoe )?size (?P<v>\d[\d.,]*)( (shoes|boots|trainers|sneakers))?( now)?\W*$",), "user.shoe_size", nouns="shoe size"),
    Attribute((
        r"(i|we)('m|'re| am| are)? <really>(live|reside|living|based)( \w+)?? (in|near|on|at|outside|just outside) <v:place>",
        r"(i|we)('ve| have) (been living|lived)( \w+){0,4} (in|near|on) <v:place>",
        # Not "we": a team moves to PostgreSQL.
        r"i('ve| have)? <really>(moved|relocated)( back)? to (?P<v><name>.*)",
    ), "user.home", nouns="home, address, home address, city, town, residence, place of residence", ways="moved sold", searched="live"),
    # how somebody lives is not where: on the third floor, in a small flat
    Attribute((r"(i|we)('m|'re| am| are)? <really>(live|living) (?P<v>(in|near|on|at|outside) \S.*)",), ways="moved sold", searched="live"),
    Attribute(("(<i_am>|i come )(originally )?from (?P<v><name>.*)",), "user.origin"),
    Attribute((r"(<i_am>|i('ve| have) been )<v:diet>\b",), "user.diet", nouns="diet", ways="quit eating", searched="vegetarian vegan"),
    Attribute((r"<i_am>(?P<v>single|divorced|widowed|(now |happily )?(engaged|married)\b.*)",), "user.marital_status", ways="parted", searched=_PARTNERS),
    Attribute((r"i('m| am) (dating|seeing|together with) (?P<v><name>.*|an? \w+$)",), importance=0.8, ways="parted quit", searched=_PARTNERS),
    Attribute((
        r"<i_am>an? (?P<v><of_now>(<job>))(?= (at|in|for(?! an?\b)|from|with|on|who|and|of|now)\b|\W*$|,)",
        r"i('ve| have) been an? (?P<v><of_now>(<job>))(?= (for|since) )",
        r"i('m| am) <given>( <given>)?, (an? )?(?P<v><of_now>(<job>))(?= (at|in|for|from|with|and)\b|\W*$|,)",
        "i('ve been working| work|'m working) as an? (?P<v>.+)",
        r"<i_did>(was|got) promoted to (?P<v>\S.*)",
    ), "user.job", nouns="job, profession, occupation, job title, work, position", ways="sacked quit", importance=0.7),
    # what somebody is besides, or was
    Attribute((r"<i_am>an? (?P<v>([\w-]+ ){0,3}?(<trait>|<job>))(?= (at|in|for|from|with|on|who|and|of|now)\b|\W*$|,)",)),
    Attribute((r"<i_am>the (?P<v>(?!only|one|same|first|best|type|kind|user|bone)[\w -]{2,40}?(?<!one) (of|for|at|in) \S.*)",), ways="quit", confidence=0.8),
    Attribute((
        r"(<i_do>|i'm |i am |i('ve| have) )(been )?work(ed|ing)? (for|at) (?P<v>(<name>|(an?|the|my|our) (?!moment\b|weekend|same\b|desk\b)).*)",
        r"<i_do>work (for|at) (?P<v>(?!(all|cash|free|fun|heights?|home|it|least|me|money|most|myself|nights?|sea|weekends|you|\d+)\b)[\w-]+)( now)?\W*$",
        "<i_did>((quit|left) .{2,30}? (and|to) )?(joined|started (working |(my |a )?(new )?job )?(at|for|with)|got (a|my) (new )?job (at|with)|was hired by) (?P<v><name>.*)",
    ), "user.employer", nouns="employer, company", ways="sacked quit", searched="work job", importance=0.7),
    Attribute((r"(i|we) <really>work (?P<v>(for|at) (?!home|it\b|you\b)\S.*)",), ways="sacked quit", searched="work job", confidence=0.8),
    Attribute((r"<i_do>report( directly)? to (?P<v><name>)(?=\W*$|,| now\b| directly\b| and\b| these days\b)",), "user.boss", nouns="boss", ways="gone", importance=0.7),
    # other things of mine that are called differently, but have one key
    Attribute((), "user.email", nouns="email, e-mail, email address, e-mail address, mail"),
    Attribute((
        r"(i|we) <really>pay <about>(?P<v>(<money>)( (<each>) month)?) (in |of |for )?rent\b",
        r"(i|we) <really>pay <about>(?P<v>(<money>|<number>)( (<each>) month)?) for (my|our|the) (flat|apartment|room|house|place)\b",
        "the rent <was>(<change>|went up|went down)( back| up)? <to_value>",
    ), "user.rent", nouns="rent, monthly rent"),
    Attribute((
        r"(i <really>(earn|make|get( paid)?)|<i_am>(paid|on)) <about>(?P<v>(<money>)( (net|gross))?,? (<each>) (hour|day|week|month|year))\b(?! (with|from|by|for|there)\b)",
    ), "user.salary", nouns="salary, pay, income, wage, wages"),
    Attribute((), "user.mother", nouns="mother, mom, mum"),
    Attribute((), "user.father", nouns="father, dad"),
    Attribute((), "user.{thing}", nouns="wife, husband, partner, spouse, fiance, fiancee, girlfriend, boyfriend", ways="parted", searched=_PARTNERS),
    # people and animals
    Attribute((r"my (new |current )?<not_mine>(?P<thing>[a-z-]+( [a-z-]+)?)('s name)?( is|'s|'s name is)( called| named)? (?!<language>)<v:name>(?=,|\W*$| and\b| but\b)",), "user.{thing}", ways="sold quit cancelled died gone"),
    # of relatives, of whom one has one mother, or whom one names if there are several
    *(
        Attribute((
            rf"(my|our) {kin}('s| is| has)? <really>(lives?|living|based)( \w+)?? (in|near|outside) (?P<v>(?!the (past|present|moment|future|clouds)\b)(<name>|(an?|the|her|his|their) ).*)",
            rf"(my|our) {kin}('s| has)? <really>(moved|relocated)( back)?( from .{{2,30}}?)? to (?P<v>(<name>|(an?|the) ([\w-]+ )*(home|house|flat|apartment|city|town|village|countryside|coast)\b).*)",
        ), "user.{kin}.home", importance=0.6)
        for kin in (
            "(?P<kin><only_kin>)(,? <given>,?)?",
            "(?P<kin><kin>)(,? (?P<given><given>),?)?",
            "(?P<kin>aunt|uncle|niece|nephew|cousin),? (?P<given><given>),?",
        )
    ),
    Attribute((r"(my|our) (?P<v>([\w-]+ )?<offspring><does>)",), nouns="child, children, son, daughter, kid, baby"),
    Attribute((r"(my|our) (?P<v>([\w-]+ )?(<pet>|[\w-]+ (called|named))<does>)",), nouns="pet, pets, animals", ways="sold died"),
    Attribute((r"(my|our) (?P<v>([\w-]+ )?(<person>)<does>)",)),
    # things
    Attribute((r"i('m| am) (in|on|with|part of) (?P<v>(an?|the|our) ([\w-]+ ){0,4}(club|team|band|choir|association|group)\b.*)",), ways="quit"),
    Attribute(("<i_do>drive (?P<v>an? .+)",), "user.car", nouns="car", ways="sold"),
    Attribute((r"(i|we) owe (?P<v>(?!you\b|it\b)\S.*)",), nouns="debt, loan", ways="paid", searched="owe"),
    Attribute((r"i('m| am)? ?subscribed? to (?P<v>\S.*)", r"(<i_have>an?|i('m| am) an?) (?P<v>([\w'-]+ ){0,3}?(member|membership|subscription)\b.*)"), nouns="subscription, membership, magazine, newspaper, paper", ways="cancelled quit", searched="subscribe"),
    # health
    Attribute((r"<i_am><really>allergic to (?P<v>.+)",), nouns="allergy", ways="healed", importance=0.9, durability="core"),
    Attribute((r"i('ve| have| suffer from|'m| am)( (been|had|got|an?|severe|type \d))* (?P<v>(<illness>)\b.*)", "<i_did>(was|been) diagnosed with (?P<v>.+)"), ways="healed born", importance=0.9, durability="core"),
    Attribute(("i('m taking| take| am taking|'m on| am on) <v:medicine>", r"\S.{1,30}? (put|started) me on <v:medicine>"), ways="quit healed", importance=0.8),
    Attribute(("<i_am><really>(terrified|afraid|scared) of (?P<v>.+)",)),
    Attribute((r"i (can't|cannot|don't|do not|never) (eat|drink|smoke|drive) ?(?P<v>(?!it|this|that)\S.*)?$",), negative=True),
    # likes
    Attribute((
        r"my (new |current )?(?P<thing>favou?rite [a-z-]+( [a-z-]+){0,3}?)<is>( now)? (?P<v>\S.*)",
    ), "user.{thing}", memory_type="preference", ways="cooled"),
    Attribute((
        "<i_do><liking> <liked>",
        "i('m| am) (more )?<fan_of> <liked>",
        "i('ve| have) (never|always) (liked|loved|hated) <liked>",
    ), memory_type="preference", ways="cooled", negative=True, importance=0.5),
    # goals
    Attribute((
        r"my ([\w-]+ )?(goal|dream|ambition) is (?P<v>\S.*)",
    ), ways="dropped", importance=0.7),
    Attribute((
        r"(i|we)( <really>(want|hope|plan)|'m <really>(hoping|planning)|'d <really>(love|like)) to (?P<v>(learn|become|move|lose|run a|quit|open|buy an?|visit|travel|study|build|finish)\b .+)",
    ), ways="dropped", importance=0.7, confidence=0.8),
    Attribute((
        r"i('m| am)( currently| now)? (?P<v>(learning|studying|teaching myself|training for|saving (up )?for|preparing for|writing (a|my)|working on (an?|my)|doing an?)\b (?!it|this|that|more about|lot|bit).+)",
    ), ways="dropped quit switched", importance=0.7),
    # any other thing of mine: a stated value, and a new one
    Attribute((
        r"my (new |current )?(?P<thing>hobby|occupation|username)<is> (?P<v>\S.*)",
        r"my (new |current )?(?P<thing>e-?mail( address)?)<is> (?P<v>\S+@.*)",
        r"my (new |current )?(?P<thing>address)<is> (?P<v>(?=.*(\d|@|(?-i:[A-Z])))\S.*)",
    ), "user.{thing}", ways="sold quit cancelled"),
    Attribute((
        "<i_did><change> my <not_mine>(?P<thing>[a-z-]+( [a-z-]+)?) <to_value>",
        r"my <not_mine>(?!(<person>)\b)(?P<thing>[a-z-]+( (?!was|were|has|have|is\b)[a-z-]+)?) <was>(<change>|went up|went down)( back| up)? <to_value>",
        r"(\w+ ){1,3}(put|raised|lowered|increased|reduced|cut) (my|our|the) (?P<thing>[a-z-]+)( up| down)? to (?P<v>(<money>)\b.*)",
        "(i|we)( have|'ve( got)?| got| found) an? new <not_mine>(?P<thing>[a-z-]+( [a-z-]+)?)(,| called| named|:) (?P<v><name>.*)",
        "<i_did>(changed|switched) (?P<thing>[a-z]+?)s,?( and)? now .*?<v:name>",
    ), "user.{thing}"),
    Attribute((r"my (new |current )?<not_mine>(?!car is (in|on|at)\b)(?P<thing>[a-z-]+( [a-z-]+)?)(('s name)? (is|are)( now)?|'s(?= (an? .*(?-i:[A-Z])|\d))) <definite>",), "user.{thing}", ways="sold quit cancelled died gone", confidence=0.8),
    # events
    Attribute((
        r"<i_did>(?P<v>(?!tried)<did>\b (?!it\b|this\b|that\b|an? (error|look|screenshot|break|note)\b|through it).*<past>.*)",
        r"(i|we)('ve| have)? (just|finally|recently) (?P<v>(<did>) (an?|my|our|<name>)\b (?!error|look).+)",
        r"i('ve| have) had <count> (?P<v>([\w-]+ ){0,2}(surger(y|ies)|operations?)\b.*)",
    ), memory_type="event"),
    # habits
    Attribute((r"<i_do>(play|practi[cs]e) (?P<v>\S.*)",), nouns="instrument, sport", ways="quit sold", searched="play practise", importance=0.5),
    Attribute((r"<i_have>(<count>) (?!<momentary>)(?P<v>\S.*)", "(i|we) (own|keep) (?P<v>(?!\\w+ing)\\S.*)"), nouns="animals, pets, child, children", ways="sold paid died"),
    Attribute((
        r"(i|we) ([a-z]+)( \S+){0,8} (?P<v>(every|each) (other )?(day|morning|evening|night|week|weekend|month|year|\w+day)\b.*)",
        r"we [a-z]+( \w+){0,3} (?P<v>(on \w+days?|(once|twice) an?)\b.*)",
        r"(i|we)('ve| have) been (?P<v>[a-z]+ing (?!it|this|that|on it|to\b).+\b(for|since)\b.+)",
        r"i used to (?!think|be able)(?P<v>\S.*)",
        r"i <really>((get|wake) up|(?!(<adverb>|<did>|think|know|mean|guess|see|hope|want|need|get|feel|understand|agree|say|tell|ask|try|look|forget|remember|appreciate|believe|suppose|bet|wish|promise|am|are|was|do(?! the)|don't|dont|have|can|can't|cannot|will|won't|must|should|would|could|might|may|run the|use the|like|love|show|give|hate|prefer|enjoy|plan|care|reckon|accept|decide|refuse|acknowledge|struggle|miss|expect|wanna|start|make|got)\b)[a-z]{2,}) (?P<v>(?!(\w+ing|it|this|that|these|those|you|your|him|her|them|what|how|why|if|there|here|so|too|up|out|best|ahead|with (it|this|that|you))\b)\S+( \S+){0,11})$",
    ), ways="quit cancelled healed moved sold", importance=0.5, confidence=0.8),
)  # fmt: skip

TOGETHER = (
    # what holds from now on, and is no instruction: "From now on squash with Bernd is on Tuesdays"
    Attribute((r"<henceforth>,? (?P<v>(?!(make|keep|see|tell|assume|say|note|remember|check|know|show|ensure|use|call|ask|let|give|write|treat|when\w*|if|what\w*|every\w*|any\w*|all|no|it|that|this|there|you|your)\b)((the|his|her|their) )?[\w'-]+( [\w'-]+)?( (with|of|at|for|in|from) ((my|our|the) )?[\w'-]+)? (is|are|will be|starts?|takes? place) (at|on|every|each|\d|<weekday>).*)",)),
    # instructions
    Attribute((r"<request>((always|from now on),? )*(?P<v>(answer|reply|respond|speak|talk|write)( to me)? (only )?in <language>.*)",), "user.answer_language", memory_type="instruction"),
    Attribute((
        r"<request>(always|never|don't ever) (?P<v>(?!mind|heard|been|seen|had|an? |the |again|\w+ed\b|thought|said|told|good|really)[a-z]+ .+)",
        r"(please )?<henceforth>,? (?P<v>(?!(i|we|it|he|she|they|there)\b)\S.+)",
        r"<request>(?P<v>(?!(i|we|it|my|our|he|she|they)\b)\S+ .+) <henceforth>\W*$",
        r"(?P<v>(whenever|every time) (i|you)\b.+, ?(please |always )*(?!(i|we|it|he|she|they|you|my|the|there|that)\b)[a-z]+ .+)",
    ), memory_type="instruction", negative=True),
    # decisions
    Attribute(("<i_did>(agreed to |decided to )?<change> (back )?(the|our) (?P<what><project_noun>) (back )?(from .{1,40}? )?to <exact>",), "project.{what}", importance=0.8),
    Attribute((r"<i_did>(all )?(?P<v>(decided|agreed|chosen|chose|picked|settled) (?!nothing|it\b).+)",), memory_type="event", negative=True, importance=0.8),
    Attribute((r"(i|we)('m|'re| am| are) going with (?P<v>(?!(it|this|that|option)\b)\S.+)",), memory_type="event", importance=0.8),
    Attribute((r"<i_did>((switched|migrated|changed)( over)?( from .{2,30}?)?|moved from .{2,30}?) to (?!<coming>)(?P<v>(an? )?(night|<name>).*)",), memory_type="event"),
    Attribute(("(the|our) (project('s)? )?(?P<what><project_noun>)( of (the|our) project)? (<becomes>) (on |at |in )?<exact>",), "project.{what}", importance=0.8),
    Attribute((r"(the|our) (?P<what><project_noun>) (for|of) my (?P<of>\w+( \w+)?) (<becomes>) (on |at |in )?<exact>",), "user.{of}_{what}", importance=0.8),
    Attribute((r"(the|our) (?P<what><project_noun>) (for|of) (the |our )?(?!(my|his|her)\b)(?P<of>\w+( \w+)?) (<becomes>) (on |at |in )?<exact>",), "project.{of}_{what}", importance=0.8),
    Attribute((r"(the|our) (project|company|product|book|band) is (called|named) (?P<v>\S+.*)",), "project.name", importance=0.8),
    # A household has things of its own, too: "Our plumber is Goran" concerns nobody else.
    Attribute((r"our (?!next|first|only|goal|problem|question|hero|solar)(?P<what>[a-z-]+( [a-z-]+)?) (is|are|will be) <definite>",), "user.{what}", importance=0.7),
    Attribute((r"(my|the|our) ([\w-]+ ){1,3}?(is|are) due (?P<v>.*(\d|day\b|tomorrow).*)",), importance=0.8),
    Attribute((r"we (use|deploy (with|on)|run on) (?P<v><name>.*)",)),
    # plans
    Attribute((
        r"(my|our) (?!birthday)([\w'-]+ ){1,4}?((to|with|in|at|for) [\w ]{2,40}? )?(is|starts|leaves|will be|(was|has been) moved)( on| at| in| to| for)* (?P<v>(?!today)<coming>.*)",
        r"(i|we)( have|'ve got|'ve) (an?|my|our|the) (?!<momentary>(?! (with|on|at)\b))([\w'-]+ ){1,4}?(?P<v>.*<coming>.*)",
        r"(i|we)('m|'re| am| are) (?P<v>(going to|planning|flying|travell?ing|visiting|getting|moving|having|starting|leaving|meeting|expecting)\b (?!it\b|this\b|that\b|an error).*<coming>.*)",
    ), ways="cancelled dropped", memory_type="event", importance=0.7),
    Attribute((
        r"(i|we)( need to| have to| must|'ll have to) (?P<v>(?!admit|.*\btoday\b)\w+ .*<coming>.*)",
        r"(please )?remind me (\w+ )?to (?P<v>(?!you\b)\w+ .+)",
    ), memory_type="task", importance=0.6, durability="ephemeral"),
    Attribute((r"(i|we)('ll| will| plan to| intend to) (?P<v>(?!try|let you)\w+ .*<coming>.*)",), memory_type="task", importance=0.5, durability="ephemeral", confidence=0.7),
)  # fmt: skip
"""What is asked for, decided and planned: instructions, decisions, plans."""

VOCABULARY |= {
    "i_gone": "(?=)((i|we)('ve| have)? <really>)?",
    "has_been": "( (is|are|was|were|got|has|have|has been|have been)|'s been)",
}
WAYS = {
    "sacked": (
        "<i_did>(left|quit|lost|resigned from|gave up|given up) <my>(job|position|work|post)",
        "(i|we)('ve| have)? <really>(was|were|got|been) (laid off|fired|let go|made redundant|sacked)( (from|by|at) <ended>)?",
        "<ended> (has )?(just )?(fired me|let me go|laid me off|sacked me)",
        "<i_did>(resigned|retired|(handed|given|gave|turned) (in|back) (my|the) (notice|uniform|badge|keys))",
        "i('m| am) (now )?(retired|unemployed|out of work|between jobs)",
    ),
    "moved": (
        "<i_did>moved (out of|away from|out from) <ended>( place)?",
        "<i_did>left (?P<v><name>)( for (good|<name>))?",
        "(?P<v><name>) (has )?moved out",
    ),
    "sold": (
        "<i_gone>(sold|got rid of|scrapped|traded in|gave up|given up|returned|handed back) <my><ended>",
        "<i_gone>(gave|given|had to (give|sell)|handed|sent) <own><ended>( (away|back))?",
        r"(someone|somebody|they|thieves) (stole|towed|took away) <my><ended>",
        "<my><ended><has_been> (just |finally )?(sold|stolen|scrapped|(towed )?to the scrapyard)",
    ),
    "died": (
        "(<my>(?P<v>([\\w-]+ )?<pet>)|(?P<named><name>))( has| have)? (just |sadly )?(died|passed away)",
        "<i_did>had to (put|have) <own><ended> (down|put down|to sleep)",
    ),
    "parted": (
        "((?P<v><name>)|my <partner>) and i( have|'ve)? <really>(<parting>)",
        "((?P<v><name>)|my <partner>)( has)? (just )?(left|dumped|broke up with|divorced) me",
        "we('ve| have)? <really>(<parting>)",
        "(the|our) (engagement|wedding|marriage|relationship) is (off|over)",
        "<i_did>(got|gotten) divorced",
    ),
    "cooled": (
        "<i_did>(gone off|went off|lost (all |my )?(interest in|taste for)) <ended>",
        "<i_do>(<disliking>) <ended>",
        "<i_do>(can't|cannot) (stand|bear) <ended>",
    ),
    "cancelled": (
        "<i_gone>(cancell?ed|called off|turned down|declined) <own><ended>",
        "<i_gone>let <my><ended> (lapse|run out|expire)",
        "<my><ended><has_been> (just )?(cancell?ed|called off|off|lapsed|expired|ended)",
    ),
    "paid": (
        "<i_gone>(paid|repaid|settled) ((off|back|up) )?<own><ended>( (off|back|in full))*",
        "<i_gone>paid (off|back|up)",
        "<ended> and (i|me) are (square|even|quits)",
        "<own><ended><has_been> (paid off|paid back|settled|repaid)",
    ),
    "healed": (
        "<ended> (don't|doesn't|do not|does not|didn't) (bother|hurt|affect) me",
        ".{1,40}? (took|taken) me off <ended>",
        "i('m| am) (off|cured of|over|free of|rid of) <own><ended>",
        "<i_did>(came|come|gone|went) off <own><ended>",
    ),
    "quit": (
        "<i_did>(dropped out of|(gave|given) up on|<gave_up>|stepped down|resigned|retired|left|withdrew|pulled out of|turned down) ((on|with|as|from) )?<own>(?!(at|by|in|off|to)\\b)<ended>",
        "<i_did>(handed|passed) <my><ended> (over|on)",
        "(someone|somebody) else (is|does|took over as) <own><ended>",
        "i('m| am) (done|finished|through) with <own><ended>",
        "<ended> (isn't|is not|wasn't|aren't) for me",
    ),
    "over": (
        "<own><ended> (is|are) <really>(over|gone|history|cancelled|finished|out of the question)",
        "<own><ended> (has |have )?(fallen through|fell through|come to an end|came to an end|closed( down)?|shut( down)?|folded|broken up|broke up|split up|disbanded)",
        "<own><ended> (didn't|did not) survive( .+)?",
        "(so )?no (more )?<ended> (for me|in my .+)",
        "<i_did>(thrown in the towel with|said goodbye to|parted with|got rid of|fired) <own><ended>",
        "<i_did>(had|got) <my><ended> removed",
    ),
    "dropped": (
        "<i_did>((gave|given) up on|<gave_up>|decided against|changed my mind about) <own><ended>( (idea|plan|plans|project))?",
        "<own><ended> is off",
    ),
    "foreign": ("<ended> (isn't|is not|aren't|was never|is no longer) mine",),
    "eating": (
        "<i_did>(gone back|went back|started|begun) (to )?(eating|eat) (meat|fish|dairy|everything)",
    ),
    "forgotten": (
        "((so|please|you can|and|just) )*(forget|strike|scratch|ignore|delete|drop) (that|it|this|the)( bit| part| thing)? ((as|about|with) )?<own><ended>( (business|thing|stuff|bit|part))?",
    ),
    "retracted": (
        "(it|that|this)('s| is| was)( not|n't) <ended>",
        r"my (?P<v><name>) .*",
    ),
    "gone": (
        "<ended> (has |have )?(retired|moved on|moved away|moved to another .+|left (us|the company|the team))",
    ),
    "renamed": ("(nobody|no one) calls me <ended>",),
    "switched": (
        "<i_did>(switched|migrated|changed|moved)( over)? from <ended> to .+",
        "<i_did>(replaced|traded) <own><ended> (in for|with|for|by) .+",
    ),
    "born": ("(the|our|my) baby (came|arrived|was born|is here).*",),
}
"""How an attribute ends, by the names of its ways in the table."""

_DENIALS = (
    (r"<who> <really>no longer <really>(?P<rest><verb>.*?)", r"\g<who> \g<rest>"),
    (r"<who> used to (?P<rest><verb> .+?)", r"\g<who> \g<rest>"),
    (
        r"<who>('ve| have| has)? <really>(<gave_up>) (being <value>|(?!being\b)(?=[a-z]+ing\b))(?P<rest>.+?)",
        r"\g<who>'m \g<rest>",
    ),
    (
        r"<who> <really>(do|does)(n't| not) <value><really>(?P<rest><verb> .+?)",
        r"\g<who> \g<rest>",
    ),
    (
        r"<who>('ve| have| has)? never (actually |really )?(?!been\b)(?P<rest><verb> .+?)",
        r"\g<who> \g<rest>",
    ),
    (
        r"<who>( <really>(have|has|owns?|haven't got|don't have)|'ve <really>got) (no|any) (?P<rest>.+?)",
        r"\g<who> have \g<rest>",
    ),
    (
        r"<who>(?P<is>'m| am|<is>)(n't| not| no longer) (?!being|feeling|going|doing|saying|asking)<value>(?P<rest>.+?)( and never was)?",
        r"\g<who>\g<is> \g<rest>",
    ),
    (
        r"<who>( was never|('ve| have| has) never been) <value>(?P<rest>.+?)( and never was)?",
        r"\g<who>'m \g<rest>",
    ),
)
"""What ends or denies any statement, and that statement."""

_MARKS = word_set(
    """
    i the my is are and to of a an we our have not it's don't you it this that for with on
    no me i'm i've she he they but has as at from her his
    """
)
LANGUAGE = Language(
    marks=_MARKS,
    idle=frozenset(),
    stemmer="porter",
    attributes=(*TOGETHER, *ATTRIBUTES),
    vocabulary=VOCABULARY,
    measured=(
        r"<i_am>((back )?(up|down) )?(to |at )?<about><amount>( (now|again|these days))?\W*$",
        r"<i_did>(gone|went|come|came|got|dropped|slimmed|grown|grew) ((back )?(up|down) )?to <about><amount>( (now|again|these days))?\W*$",
    ),
    ways=WAYS,
    corrections=(
        "(<sorry>)*not (?P<wrong>[^,]+?)(,| but| it's| -)+ (?P<v>[^,]+?)(,.*)?",
        "(<sorry>)*(it's |it is |i meant? )?(?P<v>[^,]+?),? (and )?not (?P<wrong>[^,]+)",
        "(<sorry>)*(it's|it is|make (that|it)|i meant?( to say)?|that should be|should be|she meant|he meant)( now| actually)? (?P<v>(?!not\\b)\\S.*)",
        "(?P<v>[^,]+),? i meant?( to say)?",
        r"(?P<bare>(<sorry>)*(no|nope|wait|correction)[,:.!]+ (<sorry>)*)((at|on|in|the) )?(?P<v>\S+( \S+){0,3})",
    ),
    number=VOCABULARY["number"],
    now=r"\b(now|currently|these days|nowadays|by now)\b",
    kinds=(
        rf"\b\d{{1,2}}(st|nd|rd|th)?( of)? ({'|'.join(MONTHS)})\b|\b({'|'.join(MONTHS)}) \d{{1,2}}(st|nd|rd|th)?\b",
        r"\b(<weekday>)\b",
        rf"\b({'|'.join(MONTHS)})\b",
        r"\b\d{1,2}([:.]\d\d| ?(am|pm|o'clock))(am|pm)?\b|\b(noon|midnight|half past \w+|quarter (past|to) \w+)\b",
        r"\b\d{1,2}(st|nd|rd|th)\b",
        r"\d[\d.,]*\d|\d",
        r"\b(one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty)\b",
        r"<name>",
    ),
    takes_back="(<sorry>|just |that was |i was |only |please )*(forget (it|that|what i (just )?said)|(scratch|strike|ignore|delete) that|(that('s| is| was) |that )(wrong|not true|nonsense|a (joke|lie|mistake)|isn't (true|right))|kidding|joking)",
    denials=_DENIALS,
    later=r"(,? (any ?more|any longer|now|for good|at all|after all|altogether|completely|either|these days|<past>\S*|back in \w+|(in|over|during) (the )?(<period>|<date>)|(because|since|after|due to|so|and|but|as) .+|(to|for) (an?|my|the|some|<name>) .+)|, .+)*[.! ]*$",
    still=r"(,? (any ?more|any longer|now|for good|at all|after all|altogether|completely|either|these days|(because|since|due to|but) .+)|, .+)*[.! ]*$",
    openings={"I": "i|we", "my": "my|our|the"},
    negative=r"\b(not|never|no|nobody|none|nothing|neither|nor|without|hardly|barely|rarely|cannot)\b|n't\b",
    over=r"\b(not|never|no longer|used to)\b|n't\b|\bany ?more\b",
    partial=(
        r"\b(sometimes|occasionally|also (?!(now|just|got|\w+ly|\w+ed)\b)|as a (child|kid|teen\w*|boy|girl)\b|when (i|we) (was|were)\b|before(\W*$| (that|then)\b))|^(i|we) (\w+ly )?worked\b|\b(moved|relocated)\b.* in (19|20)\d\d\b|\bdrive\b.* (at|for) work\b"
        r"|\b(live|living|work|working|drive|driving|vegan|vegetarian)\b.* ((in|for|over|during|this) (the )?(<period>)|(at|on|over) (the )?weekends?|on (<weekday>)s|(?<!of )today)\W*$"
    ),
    unreal=r"\b(dream\w*|nightmare|game|novel|film|movie|story|character|song|joke|jokingly|for an? (day|week|month|while|bit|moment|minute|few)|for (lent|now|the (day|weekend|week|night|moment|evening))|temporarily|today|tonight|tomorrow|this (morning|afternoon|evening)|next \w+|at (the|this) moment|soon|will|('m|'re|am|are|is) going to(?! .+ after all)|until|late|early|\w+ minutes|at (\d|noon|midnight|one|two|three|four|five|six|seven|eight|nine|ten)\S*)\b",
    taken_back=r"^(?!.*\b(never|won't|not)\b.* again\b).*(?<!single )\bagain\b|\b(i'm|i am|are|came|come|moved|got) back\b|\b(temporarily|but only|except|until)\b",
    states=r"my (?P<thing>[a-z' -]+?) (is|are)( called| named)? (?P<its>.+)|(i|we)((?=')| )((really|also|just|now|still|currently|always|usually|often|generally|absolutely|particularly) )*(?P<verb>'?[a-z]+)( (?P<rest>.+))?",
    in_progress="((been|currently|now) )*(?P<verb>[a-z]+ing) (?P<rest>.+)",
    object_ends=r"[,;.()](?!\d)|\s(with|because|since|for|in|on|at|as|from|near|about|before|after|behind|who|which|that|and|but|called|named|every|each|by|to|where|when|of)\b",
    preposition=r"^(at|for|with|in|on|as|from|near)\b ?",
    jests=r"\b(i was|i'm|i am) (just |only )?<jesting>|\b(that|it) was (just |only )?an? (joke|lie|test|mix-?up|mistake)\b",
    always=frozenset({"forgotten", "foreign", "retracted", "over", "switched"}),
    several=r"(two|three|four|five|six|seven|several|\d{1,2})\b",
    plural="s$",
    auxiliaries=frozenset({"be", "have"}),
    named=frozenset({"have", "work", "live"}),
    same_verbs={
        **dict.fromkeys(
            ("has", "had", "'ve", "got", "having", "own", "drive", "driving", "keep"), "have"
        ),
        **dict.fromkeys(("is", "am", "are", "'m", "'s", "'re", "being"), "be"),
        "reside": "live",
    },
)
