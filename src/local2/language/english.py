"""English: the words that its forms share, and its table of attributes."""

# ruff: noqa: E501 - a form is easier to read in one line

import re

from local2.language.attributes import Attribute, Language
from local2.language.time import MONTH_NAME, MONTHS, WEEKDAYS

IRREGULAR_PAST = "went|got|ran|bought|broke|built|came|chose|did|drove|ate|fell|flew|found|gave|grew|had|heard|hurt|kept|knew|left|lost|made|met|paid|put|quit|read|saw|sold|sent|set|slept|spent|spoke|stood|swam|took|taught|told|thought|was|won|wore|wrote|began|became|brought|caught|cut|drank|felt|held|hit|led|let|rode|rose|sang|shot|split|stuck|swore|threw|woke"

VOCABULARY = {
    # times and names
    "weekday": "|".join(WEEKDAYS),
    "period": "night|weekend|week|month|year|spring|summer|autumn|winter|fall|semester|quarter",
    "date": rf"\d{{4}}-\d\d?-\d\d?|\d\d?/\d\d?(/\d{{2,4}})?|{MONTH_NAME}\b|(19|20)\d\d\b|\d\d?(st|nd|rd|th)\b",
    "coming": r"\b(tomorrow|tonight|today|(next|this|coming) (<period>|<weekday>)|<weekday>|<date>|in (\d{1,2}|an?|two|three|four|five|six|a few|a couple of) (day|week|month|year)s?|(the )?end of (the )?\w+|q[1-4])\b",
    "past": r"\b(yesterday|last (<period>|<weekday>)|this (morning|afternoon|evening|<period>)|<date>|(\w+ ){1,3}ago|when i was \w+|as a (child|kid|teenager)|on <weekday>|the other day|recently|over the (weekend|holidays|summer)|today|earlier)\b",
    "name": r"(?-i:[A-Z][\w'.-]+(?: (?:[A-Z][\w'-]+|de|von|van|del|la|al)){0,3}(?<![.']))",
    "count": r"an?|one|two|three|four|five|six|seven|several|\d{1,2}|no",
    # persons, verbs and what stands around them
    "i_am": "i('m| am) (currently |now )?",
    "i_be": "(i|we)('m|'re| am| are) ",
    "i_have": "(i|we)( have|'ve got| have got| own|'ve) ",
    "i_did": "(i|we)('ve| have)? ((just|now|recently|finally|also|officially|already|sadly|eventually|actually|really) )*",
    "i_do": r"i ((really|absolutely|also|do|just|totally|truly|quite|personally|generally|usually|actually|always|still|particularly|especially|finally|recently|already|currently|mostly|mainly|never|often|sometimes|normally|typically|have|now|both) )*",
    "my": "((both|all) )?(my|our|the) ",
    "is": "( is|'s| are|'re)",
    "did": IRREGULAR_PAST + r"|\w{2,}ed",
    "thing": r"(?P<v>(?!(it|this|that|these|those|them|there|here)\b)\S.*)",
    # people, animals and things
    "relative": r"mother|father|mom|mum|dad|parents?|wife|husband|partner|fianc(é|e)e?|girlfriend|boyfriend|ex|<offspring>|brothers?|sisters?|siblings?|cousins?|aunt|uncle|niece|nephew|grand(mother|father|ma|pa|parents|son|daughter|children)|gran|(step|half)[- ]?(mother|father|brother|sister|son|daughter)|(mother|father|brother|sister)-in-law|in-laws|famil(y|ies)",
    "offspring": "sons?|daughters?|kids?|child(ren)?|bab(y|ies)|twins?",
    "does": r"(?P<v>(is (an?|the|called|named|allergic|from|vegan|vegetarian|married|pregnant|deaf|blind|studying|learning|starting|turning|getting|moving|expecting|\d+)|works?|lives?|has|have|loves?|likes?|hates?|studies|plays?|speaks?|owns?|runs?|teaches|collects?|are called|are named)\b(?! (it|this|that|to know|no)\b).*)",
    "verbs": "(?!is|was|says?|said|told|thinks?|wants?|asked)[a-z]+(s|ed)",
    "role": "boss|manager|mentor|landlord|therapist|doctor",
    "person": "<relative>|(best )?friend|room-?mate|flat-?mate|neighbou?r|colleague|co-?worker|<role>",
    "called_upon": "<role>|supervisor|team lead|landlady|coach|trainer|dentist|gp|vet|psychologist|psychiatrist|physio(therapist)?|accountant|lawyer|solicitor|tax advis[eo]r|teacher|tutor|hairdresser|barber|nanny|babysitter|cleaner|gardener",
    "one_person": "mother|father|mom|mum|dad|<role>",
    "pet": "dogs?|cats?|pupp(y|ies)|kittens?|parrots?|budgies?|horses?|pon(y|ies)|rabbits?|hamsters?|guinea pigs?|goldfish|tortoises?|turtles?|snakes?|lizards?|chickens|hens?|ducks?|goats?|sheep|bees|pigs?|cows?|donkeys?|fish|birds?|canar(y|ies)|ferrets?|mice|rats?|retrievers?|terriers?|labradors?|poodles?|beagles?|collies?|dachshunds?|corgis?|hus(ky|kies)|pets?",
    "possession": "car|van|house|flat|apartment|home|cottage|cabin|garden|allotment|balcony|boat|motorbike|motorcycle|bike|bicycle|e-bike|piano|guitar|violin|camera|farm|caf[ée]|shop|company|business|startup|restaurant|bakery|degree|phd|doctorate|master's|diploma|licen[cs]e|visa|passport|mortgage|tattoos?|blog|podcast|(season )?ticket|pass|loan|shares|studio|workshop|hearing aid|cleaner",
    "illness": r"diabet\w+|asthma\w*|adhd|(?-i:ADD)|autis\w+|anxiety|depression|epilep\w+|arthritis|migraines?|allerg\w+|co?eliac\w*|ibs|(high |low )blood pressure|hypertension|insomnia|dyslexi\w+|eczema|psoriasis|hay fever|scoliosis|tinnitus|ana?emia|cancer|ptsd|ocd|bipolar|a bad (knee|back|hip|shoulder)|\w+itis|\w+phobia|\w+ (intolerance|syndrome|disorder|disease)",
    "condition": r"(lactose|gluten) intolerant|diabetic|dyslexic|autistic|epileptic|asthmatic|colou?r-?blind|deaf|(legally )?blind|pregnant|left-handed|an? (diabetic|co?eliac|type \d diabetic)|hard of hearing|bipolar|neurodivergent|introverted|an? (introvert|extrovert)",
    "diet": r"(an? )?(strict |lifelong )?(vegetarian|vegan|pescatarian|flexitarian|on a \w+ diet|keto|halal|kosher|gluten-free)",
    "medicine": r".*\b(medications?|medicine|pills?|tablets|\d ?mg|milligrams?|insulin|vitamins?|supplements?|statins|antidepressants|blood thinners)\b.*",
    "not_a_job": r"(beginn|memb|believ|lov|us|custom|newcom|lon|moth|fath|broth|sist|foreign|smok|own|start|follow|should|begg|hat|quick|slow|early|late|fast|heavy|light|num|read|learn|think)er\b|(veget|humanit)arian\b|vegan\b|christian\b",
    "job": r"(?!<not_a_job>)\w+(er|or|ist|ian|eer|yst|graph|smith|guard)|nurse|chef|cook|student|pilot|midwife|architect|accountant|attorney|judge|dentist|vet|coach|consultant|assistant|intern|surgeon|scientist|soldier|priest|monk|waitress|actress|model|executive|freelance|founder|ceo|cto|cfo|gp|(dad|mum|mom) of \w+|technician|mechanic|clerk|secretary|agent|apprentice|postdoc|undergrad(uate)?|nanny|au pair|barista|paramedic",
    "instrument": "piano|guitar|violin|viola|cello|drums|bass|flute|saxophone|trumpet|clarinet|ukulele|harp|organ|accordion",
    "sport": "<instrument>|football|soccer|tennis|basketball|volleyball|badminton|squash|golf|chess|rugby|cricket|hockey|handball|padel|poker|bridge|video games|board games|dungeons",
    # what is liked, wanted, the case
    "liked": r"(?P<v>(?!(it|this|that|these|those|them|you|your|him|her|how|what|when|where|why|if|both|all|either|neither|none|any|my|our|everything|nothing|something)\b|to (see|know|bother|say|hear|ask|admit|think|break|be)\b|(the|an?|option|number|version) ?(\w+ ){0,2}(idea|ones?|way|plan|concept|look|sound|direction|name|title|parts?|draft|version|options?|approach|changes?|structure|design|image|style|tone|results?|logo|examples?|answer|suggestions?|list|text|sentence|paragraph|first|second|third|last|latter|former|addition|flow|framework)\b|\w+ing (this|that|it|you)\b|(option|version|number) \w+\W*$)\S.*)",
    "liking": "love|like|enjoy|adore|prefer|<disliking>|(don't|do not)( really| particularly)? (like|enjoy|love|care for)",
    "disliking": "hate|dislike|detest|loathe|despise|(can't|cannot) stand|can't bear",
    "fan_of": "(not )?((really|very|quite|also|a|an?|big|huge|massive|great|avid) )*(fan of|fond of|into|crazy about|obsessed with|passionate about|keen on|lover of|interested in)",
    "noun": "native language|first language|mother tongue|e-?mail( address)?|phone number|(home )?address|time ?zone|shoe size|clothing size|dress size|height|weight|blood type|profession|occupation|job title|nationality|religion|star sign|zodiac sign|home ?town|major|editor|ide|shell|operating system|user ?name|handle|website|salary|hobby|employer|university|pronouns|(middle|last|maiden|family) name|surname|nickname",
    "not_mine": r"(?!([\w-]+ )?(<person>|<pet>)\b|point|question|problem|issue|idea|guess|opinion|answer|mistake|concern|code|only|main|first|next|last|new\b|current|goal|plan|aim|favou?rite|turn|bad|mind|name\b)",
    "definite": r"(?P<v>(?!(an?|the) ([\w-]+ )?(mess|disaster|nightmare|joke|pain|problem|best|worst|same|one|reason|issue|question|result|bit|little|lot|way|opposite|most|only)\b)((an?|the|called|named|from|in|on) |\d|(?-i:[A-Z])).*)",
    "changed": "((was|were|has been|have been|got|is being) )?(just |now )?(changed|moved|switched|raised|lowered|increased|decreased|reduced|cut|extended|shortened|postponed|pushed( back)?|rescheduled|renamed|went up|went down|gone up|gone down|rose|fell|dropped|jumped)",
    "change": "changed|switched|updated|moved|shifted|pushed|postponed|rescheduled|renamed|raised|lowered|cut",
    "to_value": r"(from .{1,40}? )?to (?P<v>((every|each|next|the) )?(\W?\d|(?-i:[A-Z])|<coming>).*)",
    "event": "appointment|meeting|interview|exam|test|flight|wedding|surgery|operation|concert|conference|trip|holiday|vacation|party|presentation|move|marathon|race|defen[cs]e|hearing|class|course|recital|check-?up|scan|viewing|date|dinner|anniversary|baby|visit|talk|audition|performance|game|match|tournament|ceremony|graduation|finals?",
    # what people do together
    "project_noun": "deadline|due date|submission date|budget|launch date|release date|launch|release|go-live( date)?|kick-?off|start date|end date|code ?name|project name|working title|target audience|client|venue|theme|tech stack|stack|domain|repo|repository|main character|protagonist",
    "becomes": "is|'s|will be|is now|was (moved|changed|pushed|shifted|extended|postponed)( back)? to|(has|have) been (moved|changed|pushed|shifted|extended|postponed)( back)? to|(has )?(moved|changed) to|got (moved|pushed|changed)( back)? to|is set (to|for)",
    "exact": r"(?P<v>((?!what\b|tight\b|that\b|not\b)[^\W\d_]+ ){0,4}?(\W?\d|(?-i:[A-Z]).).*|(tomorrow|next|this) .*)",
    "settled": r"(?P<v>(an?|the|called|named|written in|built (with|on|in|around)|hosted (on|in)|based in|located in|deployed (on|to)|running on|due|scheduled|every|\d|\u20ac|\$|\u00a3|(?-i:[A-Z])).*)",
    "our_own": "(?!conversation|chat|discussion|solar|planet|world|universe|society|country|galaxy|ancestors|brain|bod|culture|life|lives|species|generation|economy|next|first|last|best|only|goal|problem|question|point|hero|heroine|villain|character|protagonist|story|narrator)",
    "database": "postgres(ql)?|mysql|mariadb|sqlite|mongodb|mongo|oracle|sql server|dynamodb|cassandra|redis|duckdb|cockroachdb|firestore",
    "for_a_purpose": r" (for|as) (?!.*\b(database|storage|project|app|everything)\b)",
    "cloud": "aws|azure|gcp|google cloud|hetzner|digitalocean|heroku|vercel|netlify|cloudflare",
    "frontend": r"react|vue|angular|svelte|solid|next\.?js|nuxt|htmx",
    "editor": "vs ?code|visual studio code|neovim|vim|emacs|pycharm|intellij|sublime text|cursor|zed|helix",
    "adopt": r"'re (now )?using|are (now )?using|use|run on|(have |'ve )?(just |finally |recently )?(switched|migrated|moved|changed)( over)?( from [\w .]{2,30}?)? to|chose|picked|adopted|(have |'ve )?(decided|agreed) (on|to use|to go with|to switch to)|settled on|are going with|'re going with|went with",
    "language": "english|french|german|spanish|italian|portuguese|dutch|polish|russian|chinese|japanese|arabic|hindi|welsh|swedish|norwegian|danish|finnish|greek|turkish|ukrainian|korean",
    "request": "((please|i('d| would) (like|want|prefer)|i (want|need|expect) (you)?|you (should|must)|to|also) )*",
    # what is over
    "own": "((both )?(my|our|the) )?",
    "gave_up": "stopped|quit|ceased|gave up|given up|dropped|abandoned|packed in|scrapped|shelved",
    "parting": "broke up|broken up|split up|split|separated|divorced|(got|gotten) divorced|are no longer (together|engaged)|aren't together|are over|called it off|(broke|broken) (it|things) off|called off the (wedding|engagement)|(broke|broken) off the engagement",
    "sorry": "(no|nope|oh|oops|sorry|actually|wait|correction|hang on|hold on|well|my mistake|i mean|hmm?|ah)[,:.!]* ",
    "jesting": "joking|kidding|lying|showing off|boasting|quoting|teasing|pulling your leg|making (that|it|this) up|wrong|mistaken",
    "dismissed": "laid off|fired|let go|made redundant|dismissed|sacked",
    "partner": "wife|husband|partner|spouse|fianc(é|e)e?|girlfriend|boyfriend",
}
"""Parts of patterns. In them, `<name>` stands for another part."""

ATTRIBUTES = (
    # what somebody is called, and who they are
    Attribute((
        r"my (full |first )?name ?('s|is|are) <v:name>",
        r"my name<is> (?P<v>(?!not\b|spelled|hard|important|on\b|in\b)\w+)\W*$",
        "((please|just|you can|everyone|everybody|people|my [a-z-]+) )*calls? me <v:name>",
        "i('m| am) called <v:name>",
    ), "user.name", nouns="name, full name, first name", ways="renamed"),
    Attribute((r"my birthday<is> (on )?(?P<v>.*\d.*)", "i was born on (?P<v>.*<date>.*)"), "user.birthday"),
    Attribute((r"i was born in (?P<v>\d{4})\b",), "user.birth_year"),
    Attribute(("i was born (and raised )?in (?P<v>.+)",), "user.birthplace"),
    Attribute((
        r"<i_am>(?P<v>\d{1,2})( years old| yrs old| yo)?( now)?\W*$",
        r"i('ve| have)? (just |recently )?turned (?P<v>\d{1,2}|\w+ty)\b(?! (degrees|percent|pages?)\b)",
    ), "user.age", nouns="age"),
    Attribute((
        r"(i|we) (now |currently )?(live|reside) (in|near|on|at|outside|just outside) (?P<v>\S.*)",
        r"(i|we)('ve| have) (been living|lived)( \w+){0,4} (in|near|on) (?P<v>\S.*)",
        r"<i_be>(now |currently )?(living|based|located) (in|near|on|outside) (?P<v>\S.*)",
        r"i('ve| have)? (just |recently |finally )?(moved|relocated)( back)?( from \w+( \w+)?)? to (?P<v><name>.*)",
        "(?P<v><name>) is (my |our )?home( now)?",
    ), "user.home", nouns="home, address, home address, city, town, residence, place of residence", ways="moved sold", searched="live address home"),
    Attribute((
        r"(<i_am>|i come )(originally )?from (?P<v><name>.*|(?!the|an?|this|that|here|there|work|home|now)\w+( \w+)?\W*$)",
    ), "user.origin"),
    Attribute(("i (still |now )?live (?P<v>with (?!it|this|that).+|alone|by myself)", "(i|we) share a (flat|house|room|place) (?P<v>with .+)"), nouns="place, flat", ways="moved"),
    Attribute(("i (grew up|was raised) (?P<v>.+)", "<i_am>(an? )?((native|fluent) )?(?P<v><name> (citizen|speaker|national))")),
    Attribute((r"<i_am><v:diet>\b", r"i('ve| have) been <v:diet>\b"), "user.diet", nouns="diet", ways="quit eating", searched="vegetarian vegan diet"),
    Attribute(("<i_am>(?P<v>single|divorced|widowed|(now |happily )?(engaged|married)\\b.*)",), "user.marital_status", ways="parted", searched="engaged married dating wife husband partner girlfriend boyfriend fiance"),
    Attribute(("i('m| am) (dating|seeing|going out with|together with|in a relationship with) (?P<v><name>.*|an? .+)",), importance=0.8, ways="parted", searched="engaged married dating wife husband partner girlfriend boyfriend fiance"),
    Attribute((
        r"<i_am>an? (?P<v>([\w-]+ ){0,3}?(<job>))(?= (at|in|for(?! an?\b)|from|by|with|on|working|who|and|based|speciali[sz]\w+|of|now)\b|\W*$|,)",
        "i('ve been working| have been working| work|'m working)( (full|part)[- ]time)? as (an?|the) (?P<v>.+)",
        r"i (was|got|have been|'ve been)( just| recently)? promoted to (?P<v>(?!the (next|top)\b|production)\S.*)",
    ), "user.job", nouns="job, profession, occupation, job title, work, position", ways="sacked", searched="work job", importance=0.7),
    Attribute((r"<i_am>the (?P<v>(?!only|one|same|first|last|best|worst|type|kind|sort|person|user|author|bone)[\w -]{2,40}?(?<!one) (of|for|at|in) \S.*)",), ways="quit", confidence=0.8),
    Attribute((
        r"i('ve worked|'ve been working|'m working| have worked| (currently |now )?work) (for|at) (?P<v>(?!home|the moment|it|best)\S.*)",
        "<i_did>(started (working |my new job |a new job |a job )(at|for|with)|got (a|my) (new )?job (at|with)|was hired (by|at)|(took|accepted) a (new )?job (at|with)) (?P<v><name>.*)",
        "<i_did>(quit|left|resigned from) (my job at )?<name>,? (and|to|then) (i )?(now )?(joined|join|started at|started working (at|for)|start at|work (at|for)) (?P<v><name>.*)",
        "<i_did>joined (?P<v><name>,? as an? .+)",
    ), "user.employer", nouns="employer, company", ways="sacked", searched="work job", importance=0.7),
    Attribute((r"i (currently |now )?work (in|from|part[- ]time|full[- ]time|night|shifts) ?(?P<v>.*)", "i do (?P<v>the .+ for <name>.*)"), ways="sacked quit", searched="work job"),
    Attribute((), "user.email", nouns="email, e-mail, email address, e-mail address, mail"),
    Attribute((), "user.rent", nouns="rent, monthly rent"),
    Attribute((), "user.mother", nouns="mother, mom, mum"),
    Attribute((), "user.father", nouns="father, dad"),
    Attribute((r"<i_am>(?P<v>retired|unemployed|self-employed|between jobs|on (maternity|paternity|parental|sick) leave)\b",)),
    Attribute((r"i (run|own|founded|co-founded|manage|lead) (an?|the|my own) (?P<v>(?!script|command|test|code|program|query)\S.*)",), ways="sold"),
    Attribute((r"i('m studying| study| am studying) <thing>",), ways="quit switched"),
    Attribute((r"i speak (?P<v>(?!to|with|up|for|of|you)\S.*)",)),
    Attribute((r"i (teach|coach) (?P<v>(?!to|with|up|for|of|you)\S.*)",), ways="quit"),
    # people and animals
    Attribute((
        "(my|our) ([\\w-]+ )?<offspring>('s)?,? (<name>,? )?<does>",
        r"(my|our) (?P<v>([\w-]+ )?<offspring> <name> <verbs> .+)",
        r"<i_have><count> ([\w-]+ ){0,3}?<offspring>\b(?! (idea|problem|question|meeting|issue))(?P<v>.*)",
    ), nouns="child, children, son, daughter, kid, baby"),
    Attribute((
        r"my (new |current )?(?P<who><partner>)('s name)?( is|'s)( called| named)? <v:name>(?=,|\W*$| and\b| but\b)",
    ), "user.{who}", ways="parted", searched="engaged married dating wife husband partner girlfriend boyfriend fiance"),
    Attribute((
        r"my (new |current )?(?P<who><one_person>)('s name)?( is|'s)( called| named)? <v:name>(?=,|\W*$| and\b| but\b)",
        "(i|we)( have|'ve( got)?| have got| got| found| hired)( an?| my| our)? new (?P<who><called_upon>)(,| called| named|:) (?P<v><name>.*)",
        "i('ve been| have been|'m| am) (seeing|going to) an? (?P<who><called_upon>) (called|named) <v:name>",
        "<i_did>(changed|switched) (?P<who><called_upon>)s?,?( and)?( to| now go to| now see| now it's) (?P<v><name>.*)",
    ), "user.{who}", ways="gone"),
    Attribute((r"my (?P<who>dog|cat)('s name)?( is|'s)( called| named)? <v:name>(?=,|\W*$| and\b)",), "user.{who}", ways="sold died"),
    Attribute((
        r"<i_have><count> ([\w-]+ ){0,3}?<pet>\b(?P<v>.*)",
        r"(my|our) ([\w-]+ )?<pet>('s)?,? ((called|named) )?(<name>,? )?(?P<v>(is (an?|called|named|\d+|allergic)|has|are called|loves?|hates?|turned|died|passed away|(just )?had|(just )?got)\b .+)",
        r"(my|our) (?P<v>(([\w-]+ )?<pet>,?|[\w-]+ (called|named)) <name>,? .+)",
    ), nouns="pet, pets, animals", ways="sold died"),
    Attribute((
        r"<i_have><count> ([\w-]+ ){0,3}?<person>s?\b(?! (idea|problem|question|meeting|issue))(?P<v>.*)",
        r"<i_have><count> ([\w-]+ ){1,4}?(called|named) (?P<v><name>.*)",
    ), ways="died"),
    Attribute((
        r"(my|our) ([\w-]+ )?<person>,? (<name>,? )?(has |have |'ve )?(just |recently |finally )?(?P<v>(got|had|moved|started|turned|died|passed|graduated|bought|retired|quit|lost|won|gave birth|joined|broke)\b (?!angry|mad|back|it|me\b).+)",
    ), memory_type="event"),
    Attribute((
        r"(my|our) ([\w-]+ )?<person>('s)?,? (<name>,? )?<does>",
        r"(my|our) ([\w-]+ )?<person>( <name>)?'s ([a-z-]+ )?(?!point|idea|question|problem|opinion)[a-z-]+ (is|are) (?P<v>(?!not|so|too|very)\S.*)",
        r"(my|our) (?P<v>([\w-]+ )?<relative> <name> <verbs> .+)",
    )),
    # things
    Attribute(("i('m| am) (in|on|with|part of) (?P<v>(an?|the|our) ([\\w-]+ ){0,4}(club|team|list|band|choir|committee|board|council|association|group|union|orchestra|quartet)\\b.*)", "i('m| am) (doing|taking|attending) (?P<v>an? ([\\w-]+ )*(course|class|degree|training)\\b.*)"), ways="quit"),
    Attribute(("i (now )?drive (?P<v>an? .+)",), "user.car", nouns="car", ways="sold"),
    Attribute((r"<i_have><count> ([\w-]+ ){0,3}?<possession>s?\b(?! (idea|problem|question|meeting|issue))(?P<v>.*)",), ways="sold paid"),
    Attribute((r"<i_did>(rent|lease) (?P<v>(an?|the|my) .+)",), ways="quit cancelled moved", searched="rent"),
    Attribute((r"(i|we) owe (?P<v>(?!you\b|it\b|this\b|that\b)\S.*)",), nouns="debt, loan", ways="paid", searched="owe"),
    Attribute((r"i('m| am)? ?subscribed? to (?P<v>\S.*)", "<i_have>an? (?P<v>([\\w'-]+ ){0,3}?(membership|subscription)\\b.*)", "i('m| am) a member (?P<v>(of|at) .+)", "i('m| am) with (?P<v><name> for .+)"), nouns="subscription, membership, magazine, newspaper, paper", ways="cancelled quit", searched="subscribe subscription membership"),
    # health
    Attribute((r"<i_am>(severely |very |highly |mildly )?allergic to (?P<v>.+)",), nouns="allergy", ways="healed", importance=0.9, durability="core"),
    Attribute((r"i('ve| have|'ve got| suffer from|'ve had)( (got|an?|severe|mild|chronic|type \d|really|bad|terrible))* (?P<v><illness>\b.*)", "i (was|got|'ve been|have been)( recently| just)? diagnosed with (?P<v>.+)", r"<i_am>(?P<v><condition>\b.*)"), ways="healed born", importance=0.9, durability="core"),
    Attribute(("i('m taking| take| am taking|'m on| am on) <v:medicine>",), ways="quit healed", importance=0.8),
    Attribute((r"i('ve| have) had <count> (?P<v>([\w-]+ ){0,2}(surger(y|ies)|operations?|transplants?|strokes?|heart attacks?|miscarriages?)\b.*)",), importance=0.8),
    Attribute(("<i_am>(really |very |absolutely )?(terrified|afraid|scared|frightened) of (?P<v>.+)",)),
    Attribute((
        r"i (can't|cannot|can not|don't|do not|never|no longer) (eat|drink|smoke|drive|swim|tolerate|digest|own|speak|celebrate|fly|cook|ride) ?(?P<v>(?!it|this|that)\S.*)?$",
    ), negative=True),
    # likes
    Attribute((
        r"my (absolute |all-time |new |current )?(?P<thing>favou?rite [a-z-]+( [a-z-]+){0,3}?)<is> (?P<v>(?!the (first|second|last)|this|that\b)\S.*)",
        r"(?P<v><name>|[\w -]{2,40}) (is|are) my (absolute |all-time )?(?P<thing>favou?rite ([a-z-]+ )?[a-z-]+)(?= |\W*$)(?! so far)",
    ), "user.{thing}", memory_type="preference", ways="cooled"),
    Attribute((
        "<i_do><liking> <liked>",
        "i('m| am) (more )?<fan_of> <liked>",
        "i('ve| have) (never|always) (really )?(liked|loved|enjoyed|hated|disliked) <liked>",
        "i find (?=<liked>).+ (exhausting|boring|annoying|relaxing|calming|fascinating|stressful|tiring|soothing|overwhelming|disgusting|irritating)\\b",
    ), memory_type="preference", ways="cooled", negative=True, importance=0.5),
    # goals
    Attribute((
        r"my (main |biggest |long-term |ultimate |next |new )?(goal|dream|aim|ambition|resolution)( (for|this) [\w ]{1,20})?( is|'s) (?P<v>(?!that\b|simple|clear)\S.*)",
    ), ways="dropped", importance=0.7),
    Attribute((
        r"(i|we) (really |also |still |just )?(want|hope|plan|intend|aim|'m (hoping|planning|aiming|trying)|am (hoping|planning|aiming|trying)|'re (hoping|planning|aiming|trying)|'d love|would love) to (?P<v>(learn|become|move|lose|run a|run my|save|quit|stop|start my|start a|open|retire|buy an?|get into|get fit|get better|improve my|visit|travel|study|go back|climb|build|launch|publish|finish|apply|emigrate|adopt|reach|reduce|eat|cut|train|write a (book|novel|memoir)|grow)\b .+)",
    ), ways="dropped", importance=0.7, confidence=0.8),
    Attribute((
        r"i('m| am)( currently| now)? (?P<v>(learning|teaching myself|training for|saving (up )?for|studying for|preparing for|practi[cs]ing for|applying (for|to)|writing (a|my)|working on (an?|my)|renovating|recovering from|looking for a (job|new job|flat|house))\b (?!it|this|that|more about).+)",
    ), ways="dropped quit", importance=0.7),
    # any other thing of mine: a stated value, and a new one
    Attribute((
        r"my (new |current )?(?P<thing><noun>)<is> (?P<v>(?!that\b|what\b|too\b|very\b|so\b)\S.*)",
        "<i_did>(changed|switched|updated) my (?P<thing><noun>) (from .{1,40}? )?to (?P<v>\\S.*)",
    ), "user.{thing}", ways="sold quit cancelled"),
    Attribute((
        "<i_did><change> my <not_mine>(?P<thing>[a-z-]+( [a-z-]+)?) <to_value>",
        r"my <not_mine>(?P<thing>[a-z-]+( (?!was|were|has|have|got|is\b)[a-z-]+)?) <changed> <to_value>",
        "(they|the landlord|my landlord|the council) (have |has |'ve )?put (my|the|our) (?P<thing>rent|salary|pay|fee) up to (?P<v>.+)",
    ), "user.{thing}"),
    Attribute((r"my (new |current )?<not_mine>(?P<thing>[a-z-]+( [a-z-]+)?) (is|are)( now)? <definite>",), "user.{thing}", ways="sold quit cancelled died", confidence=0.8),
    # events
    Attribute((
        r"<i_did>(?P<v>(got (married|engaged|divorced|promoted|laid off|fired|hired|accepted|a (new )?job|a (new )?<pet>)|graduated|retired|gave birth|had (a baby|surgery|an operation|a miscarriage|a heart attack|a stroke)|adopted (an?|two|our|my)|bought (an?|my|our) ([\w-]+ )?<possession>|sold (my|our) <possession>|broke my|passed (my|the) ([\w-]+ )?(exams?|test|bar|driving)|was (promoted|accepted|hired|elected|laid off|fired)|lost my (job|<person>)|quit (my|smoking|drinking)|left my|started (a (new )?(job|business|company|course)|my (own|new))|founded|became an?|won (an?|the|first|second|third)|published (a|my)|moved (in|into|out|to))\b.*)",
    ), memory_type="event", importance=0.8),
    Attribute((
        r"<i_did>(?P<v>(?!it|this|tried)<did>\b (?!it\b|this\b|that\b|an error|an? (look|screenshot|photo|picture|break|nap|note)\b|through (it|this|the)).*<past>.*)",
    ), memory_type="event"),
    # habits
    Attribute((r"<i_do>(play|practi[cs]e) (?P<v>(the )?<instrument>\b.*)",), nouns="instrument", ways="quit sold", searched="play practise", importance=0.5),
    Attribute((r"<i_do>(play|practi[cs]e) (?P<v>(the )?<sport>\b.*)",), nouns="sport", ways="quit", searched="play", importance=0.5),
    Attribute((
        r"<i_do>(volunteer|collect|garden|meditate|journal|babysit|foster|chair|wear|use|go to|drink|rent|share|own|sing|dance|row|bank with|support|smoke|weigh|breed|keep|commute|cycle|train|swim|pay|take|sleep|wake up|get up|start work) <thing>",
    ), ways="quit cancelled healed", importance=0.5, confidence=0.8),
    Attribute((
        r"(i|we)('ve| have) been (?P<v>[a-z]+ing (?!it|this|that|on it|to\b).+\b(for|since)\b.+)",
        "i used to (?!think|believe|it|be able)(?P<v>\\S.*)",
    ), ways="quit", importance=0.5),
    Attribute((
        r"i (usually|always|often|normally|typically|generally|never) (?P<v>(?!say|said|think|thought|wonder|mean|forget|forgot|want|make|have trouble|had|got|been|wanted|tried|knew|heard|saw|did|know|\w+ed\b|seem|feel|end up|liked|hear|get)[a-z]+ (?!it\b|this|that).+)",
    ), negative=True, ways="quit", importance=0.5),
    Attribute((
        r"(i|we) ([a-z]+)( \S+){0,8} (?P<v>(every|each) (other )?(day|morning|evening|night|week|weekend|month|year|summer|winter|\w+day)\b.*)",
    ), ways="quit", importance=0.5, confidence=0.8),
    Attribute((
        r"i (no longer|stopped|gave up|quit) (?P<v>(?!here|it|this)(eat|drink|smok|work|us|play|driv|liv|go|tak|buy|watch|read)\w* ?.*)",
        r"i don't (work|live|eat|drink|smoke|play|drive|use|go|take) (?P<v>.*\bany ?more\b.*)",
    ), negative=True),
)  # fmt: skip

TOGETHER = (
    # instructions
    Attribute((r"<request>((always|only|from now on),? )*(?P<v>(answer|reply|respond|speak|talk|write)( to me| back)? (only |always )*in <language>\b.*)",), "user.answer_language", memory_type="instruction"),
    Attribute((r"i (would |'d )?(always )?prefer ((your |the )?(answers?|replies|responses|messages) (to be )?)?in (?P<v><language>\b.*)",), "user.answer_language", memory_type="preference"),
    Attribute((
        r"<request>(always|never|don't ever|do not ever) (?P<v>(?!mind|know|here\b|there\b|happen|end|get|fail|fails|works?\b|heard|said|been|knew|thought|had|a pleasure|an? |the |seen|happy|good|forget|make me|been|wanted|again|liked|that|told|gave|did|said|went|came|\w+ed\b)[a-z]+ .+)",
        r"(please )?(from now on|from here on|going forward|in (the )?future|by default|as a rule|for all (your|future) (answers|replies|responses))\b,? ?(?P<v>(?!i\b|we\b|it\b|he\b|she\b|they\b|there\b)\S.+)",
        r"<request>(?P<v>(?!i\b|we\b|it\b|my\b|he\b|she\b|they\b)\S+ .+) (from now on|from here on|going forward|in (the )?future|by default|every time|at all times)\W*$",
        r"(?P<v>(whenever|every time|each time|any time|anytime) (i|you|we|there|a|an|the|someone)\b.+, ?(please |always |just )*(?!i\b|we\b|it\b|he\b|she\b|they\b|you\b|my\b|the\b|there\b|that\b)[a-z]+ .+)",
    ), memory_type="instruction", negative=True),
    # decisions
    Attribute((r"we ?<adopt> (?P<v><database>\b(?!<for_a_purpose>).*)",), "project.database"),
    Attribute((r"we ?<adopt> (?P<v><cloud>\b.*)",), "project.cloud_provider"),
    Attribute((r"we ?<adopt> (?P<v><frontend>\b.*)",), "project.frontend"),
    Attribute((r"i ?<adopt> (?P<v><editor>\b.*)",), "user.editor"),
    Attribute(("(i|we)('ve| have)? (just |all )?(agreed to |decided to )?(move|change|push|shift|extend|postpone|raise|lower|cut|reduce|increase)e?d? (back )?(the|our) (?P<what><project_noun>) (back )?(from .{1,40}? )?to <exact>",), "project.{what}", importance=0.8),
    Attribute((r"(i|we)('ve| have|'ve all| all)? (finally |just |already |now |both )?(?P<v>(decided|agreed|chosen|chose|picked|settled|opted|committed|resolved) (?!nothing|not sure|it\b|that\b(?= (is|was)))(to|on|that|for|against|not to|as)?\b ?.+)",), memory_type="event", negative=True, importance=0.8),
    Attribute((r"(i|we)('m|'re| am| are) going with (?P<v>(?!it\b|this\b|that\b|option|the (first|second|third|last|other))\S.+)",), memory_type="event", importance=0.8),
    Attribute(("(the|our) (project('s)? )?(?P<what><project_noun>)( (for|of) (the|our|this) (project|app|team|company|product))? <becomes> (on |at |in )?<exact>",), "project.{what}", importance=0.8),
    Attribute((r"(the|our) (?P<what><project_noun>) (for|of) (the |our |my )?(?P<of>\w+( \w+)?) <becomes> (on |at |in )?<exact>",), "project.{of}_{what}", importance=0.8),
    Attribute((r"(the|our|my) (project|app|company|startup|product|game|book|novel|store|team|band)( is|'s|'s name is) (called|named) (?P<v><name>|\S+)",), "project.name", importance=0.8),
    Attribute(("our (?P<what><project_noun>|database|cloud provider|frontend|backend|api|app|website|pipeline|team lead) (is|are|will be|is now) <settled>",), "project.{what}", importance=0.7),
    # A household has things of its own, too: "Our plumber is Goran" concerns nobody else.
    Attribute(("our <our_own>(?P<what>[a-z-]+( [a-z-]+)?) (is|are|will be|is now) <settled>",), "user.{what}", importance=0.7),
    Attribute((r"(my|the|our) ([\w-]+ ){1,3}?(is|are) due (?P<v>.*\d.*|(on |by )?(next |this )?\w+day\b.*|tomorrow.*)",), importance=0.8),
    Attribute((
        r"we use (?P<v><name> (to|for|as)\b .+)",
        r"we (deploy|release|ship|meet|publish|train|rehearse|practi[cs]e)( \w+){0,3} (?P<v>(every|each|on|once|twice)\b .+)",
    )),
    # plans
    Attribute((
        r"(my|our) ([\w'-]+ ){0,3}?<event>( (to|with|in|at|for) [\w ]{2,40}?)?( is|'s| are| starts| begins| will be|'s been moved| has been moved| got moved)( on| at| in| to| for| scheduled)* (?P<v>(.{0,20})<coming>.*)",
        r"(i|we)( have|'ve got|'ve) (an?|my|our|the) ([\w'-]+ ){0,3}?<event>\b(?P<v>.*<coming>.*)",
    ), ways="cancelled dropped", memory_type="event", importance=0.7),
    Attribute((r"(i|we)('m|'re| am| are) (?P<v>(going to|planning to|flying|travell?ing|visiting|getting|moving|having|starting|leaving|meeting|hosting|running|seeing|expecting|throwing|presenting|attending|taking)\b (?!it\b|this\b|that\b|an error|back to).*<coming>.*)",), ways="cancelled dropped", memory_type="event", importance=0.7, confidence=0.8),
    Attribute((
        r"(i|we)( need to| have to|'ve got to| must| should|'ll have to) (?P<v>(?!you\b)\w+ .*\b(by|before|until|on|no later than)\b.*<coming>.*)",
        r"(please )?remind me (\w+ )?to (?P<v>(?!you\b)\w+ .+)",
        r"(i|we)( have to|'ve got to|'ll have to) (?P<v>(?!you\b|say|admit|go\b|.*\btoday\b)\w+ .*<coming>.*)",
    ), memory_type="task", importance=0.6, durability="ephemeral"),
    Attribute((r"(i|we)('ll| will| plan to| intend to) (?P<v>(?!be right|try|see you|let you|go with)\w+ .*<coming>.*)",), memory_type="task", importance=0.5, durability="ephemeral", confidence=0.7),
)  # fmt: skip
"""What is asked for, decided and planned: instructions, decisions, plans."""

WAYS = {
    "sacked": (
        "<i_did>(left|quit|lost|resigned from|gave up|given up) <my>(job|position|work|post)( (at|with|for|as) (an? )?<ended>)?",
        "(i|we)('ve| have)? (just |recently )?(was|were|got|been) <dismissed>( (from|by|at) <ended>)?",
        "<ended> (has )?(just )?(fired me|let me go|laid me off|made me redundant|sacked me)",
        "<i_did>(resigned|retired|(handed|given|gave|turned) (in|back) (my|the) (notice|uniform|badge|keys))",
        "<i_did>quit,? <past>",
        "i('m| am) (now )?(retired|unemployed|out of work|out of a job|between jobs)",
        r"<i_did>(left|quit|resigned from) (?P<v><name>)( for (good|<name>))?",
    ),
    "moved": (
        "<i_did>(moved (out of|away from|out from)|gave up <my>(flat|house|place|apartment) in) <ended>",
        "<i_did>left (?P<v><name>) (for good|behind)",
        "(?P<v><name>) (has )?moved out",
    ),
    "sold": (
        "<i_gone>(sold|gave away|given away|got rid of|gotten rid of|scrapped|junked|traded in|gave up|given up|donated|returned|wrote off|written off|handed back) <my><ended>",
        "<i_gone>(gave|given|handed|sent) (both )?<my><ended> (away|back)",
        "<i_gone>(gave|given) (both )?<own><ended>",
        "(someone|somebody|they|thieves|the council) (stole|towed|scrapped|took away) <my><ended>",
        "<my><ended> (is|are|was|were|got|has been|have been|'s been) (just |finally )?(sold|stolen|scrapped|given away|written off|totalled|(towed )?to the scrapyard|towed to the scrapyard)",
    ),
    "died": (
        r"(<my>(?P<v>([\w-]+ )?<pet>)|(?P<named><name>))( has| have)? (just |sadly )?(died|passed away|passed on)",
        "<i_did>had to (put|have) <own><ended> (down|put down|to sleep)",
    ),
    "parted": (
        "((?P<v><name>)|my <partner>) and i( have|'ve)? <really>(<parting>)",
        "<i_did>(broke up|broken up|split up|broken things off|broke things off|finished) with (my <partner>|(?P<v><name>))",
        "<i_did>(left|divorced) my <partner>",
        "((?P<v><name>)|my <partner>)( has)? (just )?(left me|dumped me|broke up with me|broken up with me|divorced me)",
        "we(('ve| have)?) <really>(<parting>)",
        "(the|our) (engagement|wedding|marriage|relationship) is (off|over)",
        "i('m| am) (single (again|now)|divorced now|now (single|divorced))",
        "<i_did>(got|gotten) divorced",
    ),
    "cooled": (
        "<i_did>(gone off|went off|lost (all |my )?(interest in|taste for)|fallen out of love with|grown out of|grew out of) <ended>",
        "<i_really>(<disliking>) <ended>",
    ),
    "cancelled": (
        "<i_gone>(cancelled|canceled|called off|turned down|declined) <own><ended>",
        "<i_gone>let <my><ended> (lapse|run out|expire)",
        "<my><ended> (is|was|were|are|got|has been|have been|'s been) (just )?(cancelled|canceled|called off|off)",
        "<my><ended> (has |have )?(lapsed|ran out|run out|expired|ended)",
    ),
    "paid": (
        "<i_gone>(paid|repaid|settled|cleared) (off|back|up)",
        "<i_gone>(paid|repaid|settled|cleared) ((off|back) )?<own><ended>( (off|back|in full))*",
        "<ended> and (i|me) are (square|even|quits)",
        "<own><ended> (is|are|has been|have been) (now |finally )?(paid off|paid back|settled|repaid)",
    ),
    "healed": (
        "<ended> (don't|doesn't|do not|does not|didn't) (bother|hurt|affect|trouble|harm) me",
        "<my>(doctor|dentist|gp|specialist)s? (took|has taken|have taken) me off <ended>",
        "i('m| am) (off|cured of|over|free of|rid of) <own><ended>",
        "<i_did>(came|come|gone|went) off <own><ended>",
    ),
    "quit": (
        "<i_did>(<gave_up>|stepped down (as|from)|resigned (as|from)|retired from) ((on|with|as|from) )?<own>(?!(at|by|in|off|to)\\b)<ended>",
        "<i_did>(left|dropped out of|walked out of|withdrawn from|withdrew from|pulled out of|turned down|given up on|gave up on) <own><ended>",
        "<i_did>(handed|passed) <my><ended> (over|on)",
        "(someone|somebody) else (is|took over as|does) <own><ended>",
        "i('m| am) (no longer|not) (on|in|with|at|part of|a member of) <own><ended> any ?(more|longer)",
        "i('m| am) no longer (on|in|with|at|part of|a member of) <own><ended>",
        "i('m| am) (done|finished|through) with <own><ended>",
        "<ended> (isn't|is not|wasn't|aren't) for me",
    ),
    "over": (
        "<own><ended> (is|are) (now |finally |officially |all )*(over|gone|history|cancelled|canceled|finished|out of the question|dead and buried)",
        "<own><ended> (has |have )?(fallen through|fell through|come to an end|came to an end|closed( down)?|shut( down)?|folded|broken up|broke up|disbanded|fizzled out)",
        "<own><ended> (didn't|did not) survive( .+)?",
        "(so )?no more <ended> (for me|in my .+)",
        "no <ended> for me",
        "<i_did>(thrown in the towel with|threw in the towel with|said goodbye to|parted with|got rid of|gotten rid of|fired|sacked|turned my back on) <own><ended>",
        "<i_did>let <own><ended> go",
        "<i_did>(had|got) <my><ended> removed",
    ),
    "dropped": (
        "<i_did>(<gave_up>|given up on|decided against|changed my mind about) <own><ended>( (idea|plan|plans|project))?",
        "i('m| am) not going to <ended> after all",
        "<own><ended> is off",
    ),
    "foreign": ("<ended> (isn't|is not|aren't|was never|is no longer|wasn't) mine",),
    "eating": (
        "<i_did>(gone back|went back|started|begun) (to )?(eating|eat) (meat|fish|animal products|dairy|everything)",
    ),
    "forgotten": (
        "((so|please|you can|and|just) )*(forget|strike|scratch|ignore|delete|drop) (that|it|this|the)( bit| part| thing)? ((as|about|with) )?<own><ended>( (business|thing|stuff|bit|part))?",
    ),
    "retracted": (
        "(it|that|this)('s| is| was)( not|n't) <ended>",
        "i was <jesting> (about|with) <own><ended>",
        r"my (?P<v><name>) .*",
    ),
    "gone": (
        "<ended> (has |have )?(retired|moved on|moved away|moved to another .+|left (us|the company|the team|the practice))",
    ),
    "renamed": ("(nobody|no one) calls me <ended>",),
    "switched": ("<i_did>(switched|changed) (from <ended> )?to .+",),
    "born": (
        "(the|our|my) baby (came|arrived|was born|is here).*",
        "<i_did>(gave birth|given birth|had the baby)",
    ),
}
"""How an attribute ends, by the names of its ways in the table."""

VOCABULARY |= {
    "really": "((really|also|just|finally|recently|already|actually|now|officially|sadly|unfortunately|even|personally|eventually) )*",
    "i_really": "(i|we) <really>",
    "i_gone": "(?=)((i|we)('ve| have)? <really>)?",
    "ended": r"(?P<v>\S.*?)",
    "verb": r"(?!(only|just|always|even|think|know|mean|need|believe)\b)[a-z]+\b",
    "value": r"(?!(only|just|simply|merely|yet|sure|always|all|so|that|too|very|as|it|this)\b)(actually )?",
}
_ENDS = (
    (r"(?P<i>i|we) <really>no longer <really>(?P<rest><verb>.*?)", r"\g<i> \g<rest>"),
    (r"(?P<i>i|we) used to (?P<rest><verb> .+?)", r"\g<i> \g<rest>"),
    (
        r"(i|we)('ve| have)? <really>(<gave_up>) (?!being\b)(?P<rest>[a-z]+ing\b.*?)",
        r"I'm \g<rest>",
    ),
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
    takes_back="(<sorry>|just |that was |i was |only |please )*(forget (it|that|what i (just )?said)|(scratch|strike|ignore|delete) that|that('s| is| was) (wrong|not true|nonsense|a (joke|lie|mistake)|not right)|kidding|joking|a joke|that isn't (true|right)|i made (that|it) up)",
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
    always=frozenset({"forgotten", "foreign", "retracted", "over"}),
    several=r"(two|three|four|five|six|seven|several|\d{1,2})\b",
    plural="s$",
    auxiliaries=frozenset({"be", "have"}),
    named=frozenset({"have", "work", "live"}),
    same_verbs={
        "has": "have",
        "had": "have",
        "'ve": "have",
        "got": "have",
        "having": "have",
        "own": "have",
        "drive": "have",
        "driving": "have",
        "keep": "have",
        "is": "be",
        "am": "be",
        "are": "be",
        "'m": "be",
        "'re": "be",
        "being": "be",
        "reside": "live",
    },
)
