"""How people speak of what they do together or have to do: instructions, decisions, dates, tasks."""
# ruff: noqa: E501 - a form is easier to read in one line

from local.memory.extraction.forms import COMING, NAME, Form, form

SLOT = (
    r"(?:deadline|due date|submission date|budget|launch date|release date|launch|release|go-live"
    r"(?: date)?|kick-?off|start date|end date|code ?name|project name|working title|target audience"
    r"|client|venue|theme|tech stack|stack|domain|repo|repository|main character|protagonist)"
)
BECOMES = (
    r"(?:is|'s|will be|is now|was (?:moved|changed|pushed|shifted|extended|postponed)(?: back)? to"
    r"|(?:has|have) been (?:moved|changed|pushed|shifted|extended|postponed)(?: back)? to"
    r"|(?:has )?(?:moved|changed) to|got (?:moved|pushed|changed)(?: back)? to|is set (?:to|for))"
)
EXACT = r"(?P<v>(?:(?!what\b|tight\b|that\b|not\b)[^\W\d_]+ ){0,4}?(?:\W?\d|(?-i:[A-Z]).).*|(?:tomorrow|next|this) .*)"
DEFINITE = (
    r"(?P<v>(?:an?|the|called|named|written in|built (?:with|on|in|around)|hosted (?:on|in)|based in"
    r"|located in|deployed (?:on|to)|running on|due|scheduled|every|\d|\u20ac|\$|\u00a3"
    r"|(?-i:[A-Z])).*)"
)
NOT_OURS = (
    r"(?!conversation|chat|discussion|solar|planet|world|universe|society|country|galaxy|ancestors"
    r"|brain|bod|culture|life|lives|species|generation|economy|next|first|last|best|only|goal"
    r"|problem|question|point|hero|heroine|villain|character|protagonist|story|narrator)"
)
DATABASE = (
    r"(?:postgres(?:ql)?|mysql|mariadb|sqlite|mongodb|mongo|oracle|sql server|dynamodb|cassandra"
    r"|redis|duckdb|cockroachdb|firestore)"
)
CLOUD = r"(?:aws|azure|gcp|google cloud|hetzner|digitalocean|heroku|vercel|netlify|cloudflare)"
FRONTEND = r"(?:react|vue|angular|svelte|solid|next\.?js|nuxt|htmx)"
EDITOR = r"(?:vs ?code|visual studio code|neovim|vim|emacs|pycharm|intellij|sublime text|cursor|zed|helix)"
TURN_TO = (
    r"(?:'re (?:now )?using|are (?:now )?using|use|run on|(?:have |'ve )?(?:just |finally |recently )?"
    r"(?:switched|migrated|moved|changed)(?: over)?(?: from [\w .]{2,30}?)? to|chose|picked|adopted"
    r"|(?:have |'ve )?(?:decided|agreed) (?:on|to use|to go with|to switch to)|settled on"
    r"|are going with|'re going with|went with)"
)
TONGUE = (
    r"(?:english|french|german|spanish|italian|portuguese|dutch|polish|russian|chinese|japanese"
    r"|arabic|hindi|welsh|swedish|norwegian|danish|finnish|greek|turkish|ukrainian|korean)"
)
EVENT_NOUN = (
    r"(?:appointment|meeting|interview|exam|test|flight|wedding|surgery|operation|concert|conference"
    r"|trip|holiday|vacation|party|presentation|move|marathon|race|defen[cs]e|hearing|class|course"
    r"|birthday party|recital|check-?up|scan|viewing|date|dinner|anniversary|baby|visit|talk|audition"
    r"|performance|game|match|tournament|ceremony|graduation|final|finals)"
)
YOU = r"(?:(?:please|i(?:'d| would) (?:like|want|prefer)|i (?:want|need|expect) (?:you)?|you (?:should|must)|to|also) )*"

INSTRUCTIONS: tuple[Form, ...] = (
    form("instruction", rf"{YOU}(?:(?:always|only|from now on),? )*(?P<v>(?:answer|reply|respond|speak|talk|write)(?: to me| back)? (?:only |always )*in {TONGUE}\b.*)", "user.answer_language"),
    form("preference", rf"i (?:would |'d )?(?:always )?prefer (?:(?:your |the )?(?:answers?|replies|responses|messages) (?:to be )?)?in (?P<v>{TONGUE}\b.*)", "user.answer_language"),
    form("instruction", rf"{YOU}(?:always|never|don't ever|do not ever) (?P<v>(?!mind|know|here\b|there\b|happen|end|get|fail|fails|works?\b|heard|said|been|knew|thought|had|a pleasure|an? |the |seen|happy|good|forget|make me|been|wanted|again|liked|that|told|gave|did|said|went|came|\w+ed\b)[a-z]+ .+)", negative=True),
    form("instruction", r"(?:please )?(?:from now on|from here on|going forward|in (?:the )?future|by default|as a rule|for all (?:your|future) (?:answers|replies|responses))\b,? ?(?P<v>(?!i\b|we\b|it\b|he\b|she\b|they\b|there\b)\S.+)", negative=True),
    form("instruction", rf"{YOU}(?P<v>(?!i\b|we\b|it\b|my\b|he\b|she\b|they\b)\S+ .+) (?:from now on|from here on|going forward|in (?:the )?future|by default|every time|at all times)\W*$", negative=True),
    form("instruction", r"(?P<v>(?:whenever|every time|each time|any time|anytime) (?:i|you|we|there|a|an|the|someone)\b.+, ?(?:please |always |just )*(?!i\b|we\b|it\b|he\b|she\b|they\b|you\b|my\b|the\b|there\b|that\b)[a-z]+ .+)", negative=True),
)  # fmt: skip

DECISIONS: tuple[Form, ...] = (
    form("fact", rf"we {TURN_TO} (?P<v>{DATABASE}\b.*)", "project.database"),
    form("fact", rf"we {TURN_TO} (?P<v>{CLOUD}\b.*)", "project.cloud_provider"),
    form("fact", rf"we {TURN_TO} (?P<v>{FRONTEND}\b.*)", "project.frontend"),
    form("fact", rf"i {TURN_TO} (?P<v>{EDITOR}\b.*)", "user.editor"),
    form("event", r"(?:i|we)(?:'ve| have|'ve all| all)? (?:finally |just |already |now |both )?(?P<v>(?:decided|agreed|chosen|chose|picked|settled|opted|committed|resolved) (?!nothing|not sure|it\b|that\b(?= (?:is|was)))(?:to|on|that|for|against|not to|as)?\b ?.+)", negative=True, importance=0.8),
    form("event", r"(?:i|we)(?:'m|'re| am| are) going with (?P<v>(?!it\b|this\b|that\b|option|the (?:first|second|third|last|other))\S.+)", importance=0.8),
    form("fact", rf"(?:the|our) (?:project(?:'s)? )?(?P<what>{SLOT})(?: (?:for|of) (?:the|our|this) (?:project|app|team|company|product))? {BECOMES} (?:on |at |in )?{EXACT}", "project.{what}", importance=0.8),
    form("fact", rf"(?:the|our) (?P<what>{SLOT}) (?:for|of) (?:the |our |my )?(?P<of>\w+(?: \w+)?) {BECOMES} (?:on |at |in )?{EXACT}", "project.{of}_{what}", importance=0.8),
    form("fact", rf"(?:the|our|my) (?:project|app|company|startup|product|game|book|novel|store|team|band)(?: is|'s|'s name is) (?:called|named) (?P<v>{NAME}|\S+)", "project.name", importance=0.8),
    form("fact", rf"our {NOT_OURS}(?P<what>[a-z-]+(?: [a-z-]+)?) (?:is|are|will be|is now) {DEFINITE}", "project.{what}", importance=0.7),
    form("fact", r"(?:my|the|our) (?:[\w-]+ ){1,3}?(?:is|are) due (?P<v>.*\d.*|(?:on |by )?(?:next |this )?\w+day\b.*|tomorrow.*)", importance=0.8),
    form("fact", rf"we use (?P<v>{NAME} (?:to|for|as)\b .+)"),
    form("fact", r"we (?:deploy|release|ship|meet|publish|train|rehearse|practi[cs]e)(?: \w+){0,3} (?P<v>(?:every|each|on|once|twice)\b .+)"),
)  # fmt: skip

PLANS: tuple[Form, ...] = (
    form("event", rf"(?:my|our) (?:[\w'-]+ ){{0,3}}?{EVENT_NOUN}(?: (?:to|with|in|at|for) [\w ]{{2,40}}?)?(?: is|'s| are| starts| begins| will be|'s been moved| has been moved| got moved)(?: on| at| in| to| for| scheduled)* (?P<v>(?:.{{0,20}}){COMING}.*)", importance=0.7),
    form("event", rf"(?:i|we)(?: have|'ve got|'ve) (?:an?|my|our|the) (?:[\w'-]+ ){{0,3}}?{EVENT_NOUN}\b(?P<v>.*{COMING}.*)", importance=0.7),
    form("event", rf"(?:i|we)(?:'m|'re| am| are) (?P<v>(?:going to|planning to|flying|travell?ing|visiting|getting|moving|having|starting|leaving|meeting|hosting|running|seeing|expecting|throwing|presenting|attending|taking)\b (?!it\b|this\b|that\b|an error|back to).*{COMING}.*)", importance=0.7, confidence=0.8),
    form("task", rf"(?:i|we)(?: need to| have to|'ve got to| must| should|'ll have to) (?P<v>(?!you\b)\w+ .*\b(?:by|before|until|on|no later than)\b.*{COMING}.*)", importance=0.6, durability="ephemeral"),
    form("task", r"(?:please )?remind me (?:\w+ )?to (?P<v>(?!you\b)\w+ .+)", importance=0.6, durability="ephemeral"),
    form("task", rf"(?:i|we)(?: have to|'ve got to|'ll have to) (?P<v>(?!you\b|say|admit|go\b|.*\btoday\b)\w+ .*{COMING}.*)", importance=0.6, durability="ephemeral"),
    form("task", rf"(?:i|we)(?:'ll| will| plan to| intend to) (?P<v>(?!be right|try|see you|let you|go with)\w+ .*{COMING}.*)", importance=0.5, durability="ephemeral", confidence=0.7),
)  # fmt: skip

PROJECTS = (*INSTRUCTIONS, *DECISIONS, *PLANS)
