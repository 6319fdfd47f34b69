"""English: the words that its forms share, and its table of attributes."""

# ruff: noqa: E501 - a form is easier to read in one line

import re

from local2.language.attributes import Attribute, Language
from local2.language.time import MONTH_NAME, MONTHS, WEEKDAYS

IRREGULAR_PAST = "went|got|ran|bought|broke|built|came|chose|did|drove|ate|fell|flew|found|gave|grew|had|heard|hurt|kept|knew|left|lost|made|met|paid|put|quit|read|saw|sold|sent|set|slept|spent|spoke|stood|swam|took|taught|told|thought|was|won|wore|wrote|began|became|brought|caught|cut|drank|felt|held|hit|led|let|rode|rose|sang|shot|split|stuck|swore|threw|woke|meant|forgot|lent|hid|hung|laid|rang|stole|tore|fought"

VOCABULARY = {
    # times, names and amounts
    "weekday": "|".join(WEEKDAYS),
    "period": "night|weekend|week|month|year|spring|summer|autumn|winter",
    "date": rf"\d{{4}}-\d\d?-\d\d?|\d\d?/\d\d?(/\d{{2,4}})?|(\d\d? (of )?)?{MONTH_NAME}\b|(19|20)\d\d\b|\d\d?(st|nd|rd|th)\b",
    "coming": r"\b(tomorrow|tonight|today|(next|this) (<period>|<weekday>)|<weekday>|<date>|in (\d{1,2}|an?|two|three|a few|a couple of) (day|week|month|year)s?)\b",
    "past": r"\b(yesterday|last (<period>|<weekday>)|this (morning|<period>)|<date>|(\w+ ){1,3}ago|when i was \w+|on <weekday>|the other day|recently|over the (weekend|holidays|summer)|today)\b",
    "name": r"(?-i:[A-Z][\w'.-]+(?: (?:[A-Z][\w'-]+|de|von|van|del|la|al)){0,3}(?<![.']))",
    "count": r"an?|one|two|three|four|five|six|seven|several|\d{1,2}",
    "language": r"\w{2,}(sh|ese|ench|tch|ian|man|bic|eek|ndi|ean)\b",
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
    "did": IRREGULAR_PAST + r"|(?!need|feed|breed|speed|\w*ceed)\w{2,}ed",
    "definite": r"(?P<v>(?!(an?|the) ([\w-]+ )?(mess|disaster|joke|pain|problem|best|worst|same|one|reason|issue|question|bit|little|lot|way|only)\b|<language>)((an?|the|called|named|from|in|on|at) |\d|\S+@|(?-i:[A-Z])).*)",
    "exact": r"(?P<v>((?!what\b|tight\b|that\b|not\b)[^\W\d_]+ ){0,4}?(\W?\d|(?-i:[A-Z]).).*|(tomorrow|next|this) .*)",
    "to_value": r"(from .{1,40}? )?to (?P<v>((every|each|next|the) )?(\W?\d|\S+@|(?-i:[A-Z])|<coming>).*)",
    # people, things and words that mean none
    "partner": "wife|husband|partner|spouse|fianc(é|e)e?|girlfriend|boyfriend",
    "relative": r"mother|father|mom|mum|dad|parents?|<partner>|brothers?|sisters?|cousins?|aunt|uncle|niece|nephew|grand\w+|(step|half)[- ]?\w+|\w+-in-law|family",
    "offspring": "sons?|daughters?|kids?|child(ren)?|baby|twins",
    "does": r"('s [\w-]+( [\w-]+)?|s)?,? ((<adverb>|(?-i:[A-Z])[\w'-]+),? )*(?!was|this|says?|said|told|thinks?|wants?|asked)(is|are|has|have|'s|[a-z]{3,}s|<did>)\b (?!(it|this|that|to|no|not|so|too|very|still|about|angry|mad|back|me|my)\b).*",
    "person": "<relative>|(best )?friend|flat-?mate|neighbou?r|colleague|boss|manager|doctor",
    "pet": "dogs?|cats?|pupp(y|ies)|kittens?|parrots?|horses?|rabbits?|fish|birds?|pets?",
    "not_mine": r"(?!name\b|([\w-]+ )?(brothers?|sisters?|sons?|daughters?|friend|cousin|aunt|uncle|cats|dogs|point|question|problem|issue|idea|guess|opinion|answer|mistake|concern|code|only|main|first|next|last|new|current|goal|plan|aim|favou?rite|turn|bad|mind|understanding)\b)",
    "momentary": r"([\w-]+ ){0,3}?(ideas?|questions?|problems?|meeting|issues?|look|errors?|doubts?|feeling|minute|moment|point|suggestion|request|lot|few|bit|couple|times?|list|options?|thing|things|plan|hard|good|bad|nice|new)\b",
    "medicine": r".*\b(medications?|pills?|tablets|\d ?mg|insulin|vitamins?|antibiotics|antidepressants)\b.*",
    "illness": r"diabet\w+|asthma|adhd|autis\w+|anxiety|depression|epilep\w+|migraines?|allerg\w+|cancer|a bad \w+|\w+itis|\w+phobia|\w+(-| )(intoleran(ce|t)|syndrome|disorder|disease|pressure|blind|handed)|(diabet|dyslex|aut\w+|epilept)ic|pregnant|deaf|blind",
    "diet": r"(an? )?(strict |lifelong )?(\w*vegetarian|vegan|pescatarian|on a \w+ diet|halal|kosher|gluten-free)",
    "job": r"(?!((\w*gin|memb|lov|us|custom|fath|broth|smok|own|start|follow|begg|hat|slow|earl|lat|heav|numb|learn|think|quick|strang)er|vegetarian|vegan|human)\b)\w+(er|or|ist|ian|eer|yst|graph|smith|guard)|nurse|chef|cook|student|pilot|midwife|architect|accountant|judge|dentist|assistant|courier|clerk",
    # what is liked, wanted and decided
    "liked": r"(?P<v>(?!(it|this|that|these|those|them|you|your|him|her|how|what|when|where|why|if|both|all|any|my|our|everything|nothing|something)\b|to (see|know|bother|say|hear|ask|admit|think|break|be)\b|(the|an?|option|version) ?(\w+ ){0,2}(idea|ones?|way|plan|look|direction|name|title|parts?|version|options?|approach|changes?|structure|design|style|results?|logo|answer|list|text|first|second|third|last)\b|\w+ing (this|that|it|you)\b|(option|version|number) \w+\W*$)\S.*)",
    "liking": "love|like|enjoy|adore|prefer|<disliking>|(don't|do not) (like|enjoy|love)",
    "disliking": "hate|dislike|detest|loathe|(can't|cannot) (stand|bear)",
    "fan_of": "(not )?((really|very|quite|also|a|an?|big|huge) )*(fan of|fond of|into|crazy about|keen on|interested in)",
    "change": "changed?|switch(ed)?|updated?|moved?|shift(ed)?|push(ed)?|postponed?|rescheduled?|renamed?|raised?|lower(ed)?|cut|extend(ed)?",
    "becomes": "is|'s|will be|((was|were|has been|have been|got|is being) )?(now )?(<change>|went up|went down|gone up)( back| up)? to|is set (to|for)",
    "project_noun": "deadline|due date|budget|launch date|release date|launch|release|start date|code ?name|venue|theme|tech stack|database|backend|frontend|api|team lead",
    "request": "((please|i('d| would) (like|want)|i want (you)?|you (should|must)|to|also) )*",
    "henceforth": "(from now on|going forward|in (the )?future|by default|every time|at all times)",
    # what is over
    "gave_up": "stopped|quit|ceased|gave up|given up|dropped|abandoned|scrapped|ditched",
    "parting": r"broke up|split up|split|separated|(got |gotten )?divorced|are no longer (together|engaged)|aren't together|are over|(broke|broken) (it|things) off|call(ed)? (it|things|the \w+) off|called off the (wedding|engagement)",
    "sorry": "(no|nope|oh|oops|sorry|actually|wait|correction|hang on|hold on|well|my mistake|i mean|hmm?|ah)[,:.!]* ",
    "jesting": "joking|kidding|lying|showing off|quoting|teasing|making (that|it|this) up|wrong|mistaken",
    "ended": r"(?P<v>\S.*?)",
    "verb": r"(?!(only|just|always|even|think|know|mean|need|believe)\b)[a-z]+\b",
    "value": r"(?!(only|just|simply|merely|yet|sure|always|all|so|that|too|very|as|it|this)\b)(actually )?",
}
"""Parts of patterns. In them, `<name>` stands for another part."""

_PARTNERS = "engaged married dating wife husband partner girlfriend boyfriend"
ATTRIBUTES = (
    # what somebody is called, and who they are
    Attribute((
        "my (full |first )?name ?('s|is) <v:name>",
        "((please|just|you can|everyone|everybody|people|my [a-z-]+) )*calls? me <v:name>",
    ), "user.name", nouns="name, full name, first name", ways="renamed"),
    Attribute((r"my birthday<is> (on )?(?P<v>.*\d.*)", r"i was born on (?P<v>.*\d.*)"), "user.birthday"),
    Attribute(("i (was born|grew up|was raised)( and raised)? (?P<v>(in|near|on|by|with) .+)",)),
    Attribute((
        r"<i_am>(?P<v>\d{1,2})( years old| yrs old)?( now)?\W*$",
        r"<i_did>turned (?P<v>\d{1,2}|\w+ty)\b(?! (degrees|percent|pages?)\b)",
    ), "user.age", nouns="age"),
    Attribute((
        r"(i|we)('m|'re| am| are)? <really>(live|reside|living|based)( \w+)?? (in|near|on|at|outside|just outside) (?P<v>\S.*)",
        r"(i|we)('ve| have) (been living|lived)( \w+){0,4} (in|near|on) (?P<v>\S.*)",
        r"<i_did>(moved|relocated)( back)? to (?P<v><name>.*)",
        r"i('ve| have)? moved from .{2,30}? to (?P<v><name>.*)",
    ), "user.home", nouns="home, address, home address, city, town, residence, place of residence", ways="moved sold", searched="live address home"),
    Attribute(("(<i_am>|i come )(originally )?from (?P<v><name>.*)",), "user.origin"),
    Attribute((r"(<i_am>|i('ve| have) been )<v:diet>\b",), "user.diet", nouns="diet", ways="quit eating", searched="vegetarian vegan diet"),
    Attribute((r"<i_am>(?P<v>single|divorced|widowed|(now |happily )?(engaged|married)\b.*)",), "user.marital_status", ways="parted", searched=_PARTNERS),
    Attribute((r"i('m| am) (dating|seeing|going out with|together with|in a relationship with) (?P<v><name>.*|an? \w+$)",), importance=0.8, ways="parted quit", searched=_PARTNERS),
    Attribute((
        r"<i_am>an? (?P<v>([\w-]+ ){0,3}?(<job>))(?= (at|in|for(?! an?\b)|from|by|with|on|who|and|of|now)\b|\W*$|,)",
        "i('ve been working| have been working| work|'m working)( (full|part)[- ]time)? as (an?|the) (?P<v>.+)",
        r"<i_did>(was|got|been)( just| recently)? promoted to (?P<v>(?!the (next|top)\b|production)\S.*)",
    ), "user.job", nouns="job, profession, occupation, job title, work, position", ways="sacked quit", searched="work job", importance=0.7),
    Attribute((r"<i_am>the (?P<v>(?!only|one|same|first|last|best|worst|type|kind|sort|person|user|author|bone)[\w -]{2,40}?(?<!one) (of|for|at|in) \S.*)",), ways="quit", confidence=0.8),
    Attribute((
        r"(<i_do>|i'm |i am |i('ve| have) )(been )?work(ed|ing)? (for|at) (?P<v>(?!home|the moment|it|best)\S.*)",
        "<i_did>((quit|left) .{2,30}? (and|to) )?(joined|started (working |(my |a )?(new )?job )?(at|for|with)|got (a|my) (new )?job (at|with)|was hired by) (?P<v><name>.*)",
    ), "user.employer", nouns="employer, company", ways="sacked quit", searched="work job", importance=0.7),
    # other things of mine that are called differently, but have one key
    Attribute((), "user.email", nouns="email, e-mail, email address, e-mail address, mail"),
    Attribute((), "user.rent", nouns="rent, monthly rent"),
    Attribute((), "user.mother", nouns="mother, mom, mum"),
    Attribute((), "user.father", nouns="father, dad"),
    Attribute((), "user.{thing}", nouns="wife, husband, partner, spouse, fiance, fiancee, fiancé, fiancée, girlfriend, boyfriend", ways="parted", searched=_PARTNERS),
    # people and animals
    Attribute((r"my (new |current )?<not_mine>(?P<thing>[a-z-]+( [a-z-]+)?)('s name)?( is|'s|'s name is)( called| named)? (?!<language>)<v:name>(?=,|\W*$| and\b| but\b)",), "user.{thing}", ways="sold quit cancelled died gone"),
    Attribute((r"(my|our) (?P<v>([\w-]+ )?<offspring><does>)",), nouns="child, children, son, daughter, kid, baby"),
    Attribute((r"(my|our) (?P<v>([\w-]+ )?(<pet>|[\w-]+ (called|named))<does>)",), nouns="pet, pets, animals", ways="sold died"),
    Attribute((r"(my|our) (?P<v>([\w-]+ )?(<person>)<does>)",)),
    # things
    Attribute((r"i('m| am) (in|on|with|part of) (?P<v>(an?|the|our) ([\w-]+ ){0,4}(club|team|band|choir|committee|board|council|association|group)\b.*)",), ways="quit"),
    Attribute(("<i_do>drive (?P<v>an? .+)",), "user.car", nouns="car", ways="sold"),
    Attribute((r"(i|we) owe (?P<v>(?!you\b|it\b|this\b|that\b)\S.*)",), nouns="debt, loan", ways="paid", searched="owe"),
    Attribute((r"i('m| am)? ?subscribed? to (?P<v>\S.*)", r"(<i_have>an?|i('m| am) an?) (?P<v>([\w'-]+ ){0,3}?(member|membership|subscription)\b.*)", "i('m| am) with (?P<v><name> for .+)"), nouns="subscription, membership, magazine, newspaper, paper", ways="cancelled quit", searched="subscribe subscription membership"),
    # health
    Attribute((r"<i_am><really>allergic to (?P<v>.+)",), nouns="allergy", ways="healed", importance=0.9, durability="core"),
    Attribute((r"i('ve| have|'ve got| suffer from|'ve had|'m| am)( (been|had|got|an?|severe|mild|chronic|type \d))* (?P<v>(<illness>)\b.*)", "<i_did>(was|got|been) diagnosed with (?P<v>.+)"), ways="healed born", importance=0.9, durability="core"),
    Attribute(("i('m taking| take| am taking|'m on| am on) <v:medicine>",), ways="quit healed", importance=0.8),
    Attribute(("<i_am><really>(terrified|afraid|scared) of (?P<v>.+)",)),
    Attribute((r"i (can't|cannot|don't|do not|never) (eat|drink|smoke|drive) ?(?P<v>(?!it|this|that)\S.*)?$",), negative=True),
    # likes
    Attribute((
        r"my (new |current )?(?P<thing>favou?rite [a-z-]+( [a-z-]+){0,3}?)<is>( now)? (?P<v>(?!the (first|second|last)|this|that\b)\S.*)",
    ), "user.{thing}", memory_type="preference", ways="cooled"),
    Attribute((
        "<i_do><liking> <liked>",
        "i('m| am) (more )?<fan_of> <liked>",
        "i('ve| have) (never|always) (liked|loved|enjoyed|hated) <liked>",
    ), memory_type="preference", ways="cooled", negative=True, importance=0.5),
    # goals
    Attribute((
        r"my ([\w-]+ )?(goal|dream|ambition|resolution)( is|'s) (?P<v>(?!that\b|simple|clear)\S.*)",
    ), ways="dropped", importance=0.7),
    Attribute((
        r"(i|we) <really>(want|hope|plan|intend|'m (hoping|planning|aiming|trying)|'re (hoping|planning)|'d love|would love) to (?P<v>(learn|become|move|lose|run a|quit|stop|start a|open|buy an?|get fit|visit|travel|study|climb|build|publish|finish|apply|reach|eat|grow)\b .+)",
    ), ways="dropped", importance=0.7, confidence=0.8),
    Attribute((
        r"i('m| am)( currently| now)? (?P<v>(learning|studying|teaching myself|training for|saving (up )?for|preparing for|writing (a|my)|working on (an?|my)|renovating|(doing|taking) an?)\b (?!it|this|that|more about|look|few|lot|bit).+)",
    ), ways="dropped quit switched", importance=0.7),
    # any other thing of mine: a stated value, and a new one
    Attribute((r"my (new |current )?(?P<thing>e-?mail( address)?|address|hobby|profession|occupation|username|editor)<is> (?P<v>(?!that\b|what\b|too\b|very\b|so\b)\S.*)",), "user.{thing}", ways="sold quit cancelled"),
    Attribute((
        "<i_did><change> my <not_mine>(?P<thing>[a-z-]+( [a-z-]+)?) <to_value>",
        r"my <not_mine>(?P<thing>[a-z-]+( (?!was|were|has|have|got|is\b)[a-z-]+)?) ((was|were|has been|have been) )?(just |now )?(<change>|went up|went down|gone up)( back| up)? <to_value>",
        r"\w+( \w+)? put (my|our|the) (?P<thing>[a-z-]+) (up|down) to (?P<v>.+)",
        "(i|we)( have|'ve( got)?| got| found| hired)( an?| my| our)? new <not_mine>(?P<thing>[a-z-]+( [a-z-]+)?)(,| called| named|:) (?P<v><name>.*)",
        "<i_did>(changed|switched) (?P<thing>[a-z]+?)s,?( and)? now .*?<v:name>",
    ), "user.{thing}"),
    Attribute((r"my (new |current )?<not_mine>(?P<thing>[a-z-]+( [a-z-]+)?)('s name)? (is|are)( now)? <definite>",), "user.{thing}", ways="sold quit cancelled died gone", confidence=0.8),
    # events
    Attribute((
        r"<i_did>(?P<v>(?!it|this|tried)<did>\b (?!it\b|this\b|that\b|an error|an? (look|screenshot|photo|picture|break|nap|note)\b|through (it|this|the)).*<past>.*)",
        r"(i|we)('ve| have)? (just|finally|recently) (?P<v>(<did>) (an?|my|our|<name>)\b (?!error|message|look).+)",
        r"i('ve| have) had <count> (?P<v>([\w-]+ ){0,2}(surger(y|ies)|operations?)\b.*)",
    ), memory_type="event"),
    # habits
    Attribute((r"<i_do>(play|practi[cs]e) (?P<v>\S.*)",), nouns="instrument, sport", ways="quit sold", searched="play practise", importance=0.5),
    Attribute((r"<i_have>(<count>) (?!<momentary>)(?P<v>\S.*)", "(i|we) (own|keep) (?P<v>(?!\\w+ing)\\S.*)"), nouns="animals, pets, child, children", ways="sold paid died"),
    Attribute((
        r"(i|we) ([a-z]+)( \S+){0,8} (?P<v>(every|each) (other )?(day|morning|evening|night|week|weekend|month|year|\w+day)\b.*)",
        r"we [a-z]+( \w+){0,3} (?P<v>(on \w+days?|(once|twice) an?)\b.*)",
        r"(i|we)('ve| have) been (?P<v>[a-z]+ing (?!it|this|that|on it|to\b).+\b(for|since)\b.+)",
        r"i used to (?!think|believe|it|be able)(?P<v>\S.*)",
        r"i <really>((get|wake) up|(?!(<adverb>|<did>|think|know|mean|guess|see|hope|want|need|get|feel|understand|agree|wonder|say|tell|ask|try|look|forget|remember|notice|appreciate|believe|suppose|bet|wish|doubt|promise|admit|suggest|am|are|was|were|do|don't|have|can|can't|cannot|will|won't|must|should|would|could|might|may|run the|use the|set|like|love|show|give|hate|prefer|enjoy|plan|disagree|care|come|reckon|accept|decide|refuse|suspect|acknowledge|struggle|choose|miss|hear|imagine|intend|expect|assume|trust|wanna|gotta|start|make|thank|end|stand|got|dont|gonna)\b)[a-z]{2,}) (?P<v>(?!(\w+ing|it|this|that|these|those|you|your|him|her|them|what|how|why|if|there|here|so|too|up|out|best|ahead|with (it|this|that|you))\b)\S+( \S+){0,11})$",
    ), ways="quit cancelled healed moved sold", importance=0.5, confidence=0.8),
)  # fmt: skip

TOGETHER = (
    # instructions
    Attribute((r"<request>((always|only|from now on),? )*(?P<v>(answer|reply|respond|speak|talk|write)( to me| back)? (only |always )*in <language>.*)",), "user.answer_language", memory_type="instruction"),
    Attribute((
        r"<request>(always|never|don't ever|do not ever) (?P<v>(?!mind|know|here\b|there\b|heard|been|seen|had|an? |the |again|\w+ed\b|thought|said|told|got|works?\b|make me|really)[a-z]+ .+)",
        r"(please )?<henceforth>,? (?P<v>(?!i\b|we\b|it\b|he\b|she\b|they\b|there\b)\S.+)",
        r"<request>(?P<v>(?!i\b|we\b|it\b|my\b|he\b|she\b|they\b)\S+ .+) <henceforth>\W*$",
        r"(?P<v>(whenever|every time|each time) (i|you|we|there|a|an|the|someone)\b.+, ?(please |always |just )*(?!i\b|we\b|it\b|he\b|she\b|they\b|you\b|my\b|the\b|there\b|that\b)[a-z]+ .+)",
    ), memory_type="instruction", negative=True),
    # decisions
    Attribute(("<i_did>(agreed to |decided to )?<change> (back )?(the|our) (?P<what><project_noun>) (back )?(from .{1,40}? )?to <exact>",), "project.{what}", importance=0.8),
    Attribute((r"<i_did>(all )?(?P<v>(decided|agreed|chosen|chose|picked|settled) (?!nothing|not sure|it\b|that (is|was))(to|on|that|for|against|not to|as)?\b ?.+)",), memory_type="event", negative=True, importance=0.8),
    Attribute((r"(i|we)('m|'re| am| are) going with (?P<v>(?!it\b|this\b|that\b|option|the (first|second|third|last|other))\S.+)",), memory_type="event", importance=0.8),
    Attribute((r"<i_did>((switched|migrated|changed)( over)?( from .{2,30}?)?|moved from .{2,30}?) to (?!<coming>)(?P<v>(an? )?(night|<name>).*)",), memory_type="event"),
    Attribute(("(the|our) (project('s)? )?(?P<what><project_noun>)( (for|of) (the|our|this) (project|app|team|company|product))? (<becomes>) (on |at |in )?<exact>",), "project.{what}", importance=0.8),
    Attribute((r"(the|our) (?P<what><project_noun>) (for|of) (the |our |my )?(?P<of>\w+( \w+)?) (<becomes>) (on |at |in )?<exact>",), "project.{of}_{what}", importance=0.8),
    Attribute((r"(the|our|my) (project|app|company|product|book|band)( is|'s|'s name is) (called|named) (?P<v>\S+.*)",), "project.name", importance=0.8),
    Attribute((r"our (?P<what><project_noun>|app|website) (is|are|will be) (?P<v>\w+ (in|with|on|at|around) .*)",), "project.{what}", importance=0.7),
    # A household has things of its own, too: "Our plumber is Goran" concerns nobody else.
    Attribute((r"our (?!conversation|chat|solar|planet|world|society|country|next|first|last|best|only|goal|problem|question|hero|story)(?P<what>[a-z-]+( [a-z-]+)?) (is|are|will be) <definite>",), "user.{what}", importance=0.7),
    Attribute((r"(my|the|our) ([\w-]+ ){1,3}?(is|are) due (?P<v>.*\d.*|(on |by )?(next |this )?\w+day\b.*|tomorrow.*)",), importance=0.8),
    Attribute((r"we (use|deploy (with|on)|run on) (?P<v><name>.*)",)),
    # plans
    Attribute((
        r"(my|our) (?!birthday)([\w'-]+ ){1,4}?((to|with|in|at|for) [\w ]{2,40}? )?('s|is|starts|begins|leaves|will be|was moved|has been moved|got moved)( on| at| in| to| for| scheduled)* (?P<v>(?!today)<coming>.*)",
        r"(i|we)( have|'ve got|'ve) (an?|my|our|the) (?!<momentary>(?! (with|on|at)\b))([\w'-]+ ){1,4}?(?P<v>.*<coming>.*)",
        r"(i|we)('m|'re| am| are) (?P<v>(going to|planning|flying|travell?ing|visiting|getting|moving|having|starting|leaving|meeting|hosting|running|expecting|attending|taking)\b (?!it\b|this\b|that\b|an error|back to).*<coming>.*)",
    ), ways="cancelled dropped", memory_type="event", importance=0.7),
    Attribute((
        r"(i|we)( need to| have to|'ve got to| must| should|'ll have to) (?P<v>(?!you\b|say|admit|go\b|.*\btoday\b)\w+ .*<coming>.*)",
        r"(please )?remind me (\w+ )?to (?P<v>(?!you\b)\w+ .+)",
    ), memory_type="task", importance=0.6, durability="ephemeral"),
    Attribute((r"(i|we)('ll| will| plan to| intend to) (?P<v>(?!be right|try|see you|let you|go with)\w+ .*<coming>.*)",), memory_type="task", importance=0.5, durability="ephemeral", confidence=0.7),
)  # fmt: skip
"""What is asked for, decided and planned: instructions, decisions, plans."""

VOCABULARY |= {
    "i_gone": "(?=)((i|we)('ve| have)? <really>)?",
    "has_been": "(is|are|was|were|got|has|have|has been|have been|'s been)",
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
        "<i_gone>(gave|given|handed|sent) <own><ended>( (away|back))?",
        r"(someone|somebody|they|thieves) (stole|towed|took away) <my><ended>",
        "<my><ended> <has_been> (just |finally )?(sold|stolen|scrapped|(towed )?to the scrapyard)",
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
    ),
    "cancelled": (
        "<i_gone>(cancell?ed|called off|turned down|declined) <own><ended>",
        "<i_gone>let <my><ended> (lapse|run out|expire)",
        "<my><ended> <has_been> (just )?(cancell?ed|called off|off|lapsed|expired|ended)",
    ),
    "paid": (
        "<i_gone>(paid|repaid|settled) ((off|back|up) )?<own><ended>( (off|back|in full))*",
        "<i_gone>paid (off|back|up)",
        "<ended> and (i|me) are (square|even|quits)",
        "<own><ended> <has_been> (paid off|paid back|settled|repaid)",
    ),
    "healed": (
        "<ended> (don't|doesn't|do not|does not|didn't) (bother|hurt|affect) me",
        "<my>(doctor|dentist|gp|specialist)s? (took|has taken) me off <ended>",
        "i('m| am) (off|cured of|over|free of|rid of) <own><ended>",
        "<i_did>(came|come|gone|went) off <own><ended>",
    ),
    "quit": (
        "<i_did>(dropped out of|(gave|given) up on|<gave_up>|stepped down|resigned|retired|left|withdrew|pulled out of|turned down) ((on|with|as|from) )?<own>(?!(at|by|in|off|to)\\b)<ended>",
        "<i_did>(handed|passed) <my><ended> (over|on)",
        "(someone|somebody) else (is|does|took over as) <own><ended>",
        "i('m| am) no longer (on|in|with|at|part of|a member of) <own><ended>",
        "i('m| am) (done|finished|through) with <own><ended>",
        "<ended> (isn't|is not|wasn't|aren't) for me",
    ),
    "over": (
        "<own><ended> (is|are) <really>(over|gone|history|cancelled|finished|out of the question)",
        "<own><ended> (has |have )?(fallen through|fell through|come to an end|came to an end|closed( down)?|shut( down)?|folded|broken up|broke up|split up|disbanded)",
        "<own><ended> (didn't|did not) survive( .+)?",
        "(so )?no (more )?<ended> (for me|in my .+)",
        "<i_did>(thrown in the towel with|said goodbye to|parted with|got rid of|fired) <own><ended>",
        "<i_did>let <own><ended> go",
        "<i_did>(had|got) <my><ended> removed",
    ),
    "dropped": (
        "<i_did>((gave|given) up on|<gave_up>|decided against|changed my mind about) <own><ended>( (idea|plan|plans|project))?",
        "<own><ended> is off",
    ),
    "foreign": ("<ended> (isn't|is not|aren't|was never|is no longer) mine",),
    "eating": (
        "<i_did>(gone back|went back|started|begun) (to )?(eating|eat) (meat|fish|dairy|everything)",
        "i eat (meat|fish) again",
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

_ENDS = (
    (r"(?P<i>i|we) <really>no longer <really>(?P<rest><verb>.*?)", r"\g<i> \g<rest>"),
    (r"(?P<i>i|we) used to (?P<rest><verb> .+?)", r"\g<i> \g<rest>"),
    (r"<i_did>(<gave_up>) (?!being\b)(?P<rest>[a-z]+ing\b.*?)", r"I'm \g<rest>"),
    (r"<i_did>(<gave_up>) being <value>(?P<rest>.+?)", r"I'm \g<rest>"),
)
"""What ends any statement, and the statement that ends."""
_DENIALS = (
    (r"(?P<i>i|we) <really>(don't|do not) <value><really>(?P<rest><verb> .+?)", r"\g<i> \g<rest>"),
    (
        r"(?P<i>i|we)('ve| have)? never (actually |really )?(?!been\b)(?P<rest><verb> .+?)",
        r"\g<i> \g<rest>",
    ),
    (
        r"(?P<i>i|we) <really>(have|own|'ve got|haven't got|don't have) (no|any) (?P<rest>.+?)",
        r"\g<i> have \g<rest>",
    ),
    (
        r"(i('m| am) (not|no longer)|i was never|(i have|i've) never been) (?!being|feeling|going|doing|saying|asking)<value>(?P<rest>.+?)( and never was)?",
        r"I'm \g<rest>",
    ),
    (
        r"my (?P<thing>[a-z-]+( [a-z-]+){0,3}?) (isn't|is not|is no longer|was never|aren't|are not|are no longer) <value>(?P<rest>.+?)",
        r"my \g<thing> is \g<rest>",
    ),
    (
        r"(?P<rest>\S.*?) (isn't|is not|is no longer|was never) my (?P<thing>[a-z-]+( [a-z-]+){0,3}?)",
        r"my \g<thing> is \g<rest>",
    ),
)
"""What denies any statement, and the statement that is denied."""

_MARKS = frozenset(
    re.findall(
        r"\S+",
        """
    i the my is are and to of a an we our have not it's don't you it this that for with on
    no me i'm i've she he they but has as at from her his
    """,
    )
)
LANGUAGE = Language(
    marks=_MARKS,
    idle=frozenset(),
    stemmer="porter",
    attributes=(*TOGETHER, *ATTRIBUTES),
    vocabulary=VOCABULARY,
    ways=WAYS,
    corrections=(
        "(<sorry>)*not (?P<wrong>[^,]+?)(,| but| it's| -)+ (?P<v>[^,]+?)(,.*)?",
        "(<sorry>)*(it's |it is |i meant? )?(?P<v>[^,]+?),? (and )?not (?P<wrong>[^,]+)",
        "(<sorry>)*(it's|it is|make (that|it)|i meant?( to say)?|that should be|should be|she meant|he meant)( now| actually)? (?P<v>(?!not\\b)\\S.*)",
        "(?P<v>[^,]+),? i meant?( to say)?",
        r"(?P<bare>(<sorry>)*(no|nope|wait|correction)[,:.!]+ (<sorry>)*)((at|on|in|the) )?(?P<v>\S+( \S+){0,3})",
    ),
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
    ends=_ENDS,
    denials=_DENIALS,
    later=r"(,? (any ?more|any longer|now|for good|at all|after all|altogether|completely|either|these days|<past>\S*|back in \w+|(in|over|during) (the )?(<period>|<date>)|(because|since|after|due to|so|and|but|as) .+|(to|for) (an?|my|the|some|<name>) .+)|, .+)*[.! ]*$",
    still=r"(,? (any ?more|any longer|now|at all|after all|either|these days|(because|since|but) .+)|, .+)*[.! ]*$",
    openings={"I": "i|we", "my": "my|our|the"},
    negative=r"\b(not|never|no|nobody|none|nothing|neither|nor|without|hardly|barely|rarely|cannot)\b|n't\b",
    over=r"\b(not|never|no longer|used to)\b|n't\b|\bany ?more\b",
    unreal=r"\b(dream\w*|nightmare|game|novel|film|movie|story|character|song|joke|jokingly|for an? (day|week|month|while|bit|moment|minute|few)|for (lent|now|today|tonight|the (day|weekend|week|night|moment|evening))|temporarily|today|tonight|tomorrow|this (morning|afternoon|evening)|next \w+|at (the|this) moment|soon|will|going to(?! .+ after all)|until|late|early|\w+ minutes|at (\d|noon|midnight|one|two|three|four|five|six|seven|eight|nine|ten)\S*)\b",
    taken_back=r"^(?!.*\b(never|won't|not)\b.* again\b).*(?<!single )\bagain\b|\b(i'm|i am|are|came|come|moved|got) back\b|\b(temporarily|but only|except|until)\b",
    states=r"my (?P<thing>[a-z' -]+?) (is|are)( called| named)? (?P<its>.+)|(i|we)((?=')| )((really|also|just|now|still|currently|always|usually|often|generally|absolutely|particularly) )*(?P<verb>'?[a-z]+)( (?P<rest>.+))?",
    in_progress="((been|currently|now) )*(?P<verb>[a-z]+ing) (?P<rest>.+)",
    object_ends=r"[,;.()]|\s(with|because|since|for|in|on|at|as|from|near|who|which|that|and|but|called|named|every|each|by|to|where|when|of)\b",
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
        **dict.fromkeys(("is", "am", "are", "'m", "'re", "being"), "be"),
        "reside": "live",
    },
)
