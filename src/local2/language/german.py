"""German: its table of attributes, and how its clauses are read.

The verb stands second, so that what is ahead of it changes places with the subject: "Das Auto habe
ich verkauft" is read as "ich habe das Auto verkauft".
"""

# ruff: noqa: E501 - a form is easier to read in one line

import re
from collections.abc import Sequence

from local2.language.attributes import Attribute, Language, Table
from local2.language.questions import is_question
from local2.language.sentences import GERMAN_MONTHS
from local2.language.words import word_set

VOCABULARY = {
    "name": r"(?-i:[A-ZÄÖÜ][\w'.-]+(?: [A-ZÄÖÜ][\w'-]+){0,3}(?<![.']))",
    "since": r"gestern|heute|vorgestern|jetzt|nun|inzwischen|mittlerweile|endlich|schon|leider|seither|seitdem|bereits|damals|neulich|kürzlich|((letzte|vorige|vergangene|diese)\w* \w+)|vor (\w+ )?\w+ \w+|(seit|ab) (?-i:[A-ZÄÖÜ])\w+|seit (\w+ )?\w+ \w+",
    "when": r"<since>|(im|am|zum|über|nach) (?-i:[A-ZÄÖÜ])\w+",
    "adverb": "auch|noch|immer noch|immer|gerade|derzeit|aktuell|zurzeit|ja|halt|eben|sehr|total|wirklich|meistens|meist|oft|gern|gerne|täglich|jeden \\w+|momentan|ganz|gar|doch|komplett|für immer|wieder|<when>",
    "month": GERMAN_MONTHS,
    "sorry": "(nein|nee|ach|halt|stopp?|moment|sorry|entschuldigung|verzeihung|quatsch|korrektur|pardon|falsch|doch)[,:.!]* ",
    "so": "((<adverb>) )*",
    "number": r"\d[\d.,]*|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|\w+(zehn|zig|ßig)",
    "money": r"\d[\d.,]* ?(euro|€|franken|tausend|mille)|[€]\d[\d.,]*",
    "to_value": r"(von .{1,20}? )?auf (?P<v>\d.*?) <so>(gestiegen|gesunken|gefallen|erhöht|gesenkt|geändert)( worden)?",
    "each": "pro|im|am|in der|die|jede[nrs]?",
    "a": "ein(e[nmr]?)?|zwei|drei|vier|fünf|mehrere",
    "the": "((mein|unser|dein|sein|ihr|dies)(e[nmrs]?)?|de[rnms]|die|das|eine?[nmr]?|beim|vom|zum|zur|im|am|mit|bei|von|an|in|aus|über) ",
    "own": "(?=)(<the>)*",
    "mine": "(mein|unser)(e[nmrs]?)?",
    "i_have": "(ich|wir) (habe|hab|haben) <so>",
    "i_am": "(ich|wir) (bin|sind) <so>",
    "thing": r"(?P<v>(?!(es|das|dies|ihn|sie|dich|dir|mich|mir|uns|nur|mal|so|hier|da|dort|daran|mit|teil)\b)\S.*)",
    "job": r"(?!vegetarier|veganer)\w+(er|erin|ist|istin|or|orin|eure?|eurin|warte?|wartin|mann|frau|wirt|wirtin|arzt|ärztin|köchin|ent|entin|ant|antin|ling|loge|login|atin|leiter|hilfe|kraft)|koch|azubi|hiwi|rentner(in)?",
    "diet": "vegetarier(in)?|veganer(in)?|vegan|vegetarisch|pescetarier(in)?",
    "illness": r"\w*(allergie|unverträglichkeit|intoleranz|diabetes|asthma|migräne|depression(en)?|epilepsie|bluthochdruck|neurodermitis|rheuma|arthrose)",
    "pet": r"\w*(hunde?|hündin|katzen?|kater|welpen?|papagei(en)?|wellensittiche?|pferde?|pony|kaninchen|hasen?|hamster|meerschweinchen|schildkröten?|schlangen?|hühner|wachteln?|goldfische?|haustiere?)",
    "possession": r"\w*(auto|wagen|haus|wohnung|garten|balkon|boot|motorrad|fahrrad|rad|roller|klavier|gitarre|geige|kamera|laden|firma|führerschein|ferienhaus|hütte|schrebergarten|wohnmobil|moped)",
    "relative": "mutter|mama|vater|papa|eltern|bruder|schwester|geschwister|sohn|tochter|kind(er)?|söhne|töchter|oma|opa|großmutter|großvater|tante|onkel|cousine?|nichte|neffe|enkel(in)?|schwieger\\w+|beste freundin|bester freund|mitbewohner(in)?|nachbar(in)?|kolleg(e|in)",
    "only_kin": "mutter|mama|vater|papa|<partner>",
    "kin": "((ältere|jüngere|große|kleine)r? )?(schwester|bruder|sohn|tochter|oma|opa|großmutter|großvater)",
    "given": r"(?-i:[A-ZÄÖÜ][\w'-]+)",
    "partner": "mann|frau|freund|freundin|partner|partnerin|verlobter|verlobte|ehemann|ehefrau",
    "role": "chef|chefin|vorgesetzter|vermieter|vermieterin|hausarzt|hausärztin|zahnarzt|zahnärztin|therapeut|therapeutin|trainer|trainerin|lehrer|lehrerin|friseur|friseurin|betreuer|betreuerin|anwalt|anwältin|steuerberater|steuerberaterin",
    "titled": r"((frau|herr|herrn|dr\.?|doktor|professor(in)?|prof\.?) )*<name>",
    "event": r"\w*(termin|prüfung|klausur|flug|hochzeit|operation|gespräch|besprechung|treffen|konzert|reise|urlaub|umzug|kurs|führung|feier|party|untersuchung)",
    "definite": r"(?P<v>(?!(ein|das|der|die) (problem|frage|beste|schlimmste|gleiche|selbe)\b)((am|um|im|in|bei|ab|eine?|der|die|das) |\d|(?-i:[A-ZÄÖÜ])).*)",
    "no_place": "angst|armut|frieden|der vergangenheit|großem|großer|moment|augenblick|stock|hotel|urlaub",
    "not_mine": r"(?!<relative>\b|<pet>\b|frage|problem|meinung|idee|ziel|plan|antwort|fehler|eindruck|gefühl|vorschlag|kopf|code)",
    "ended": r"(?P<v>\S.*?)",
    "who": r"(?P<who>ich|wir|<mine> ((?-i:[a-zäöü])\w+ )?<given>( <given>)?|(?!(es|er|sie|du|ihr|das|dies\w*|man|wer|was)\b)<name>)",
}

ATTRIBUTES = (
    Attribute(("<mine> name ist <v:name>", "ich heiße <v:name>", "(alle|meine freunde|man) (nennen|nennt) mich <v:name>"), "user.name", nouns="name", ways="renamed"),
    Attribute((r"<mine> geburtstag ist (am )?(?P<v>.*\d.*)", r"ich (bin|wurde) am (?P<v>.*\d.*) geboren"), "user.birthday", nouns="geburtstag"),
    Attribute((r"<i_am>(?P<v>\d{1,2})( jahre alt)?\W*$", r"ich (werde|bin) <so>(?P<v>\d{1,2}) geworden"), "user.age", nouns="alter"),
    Attribute(("ich wiege <so><amount>",), "user.weight", nouns="gewicht, körpergewicht", amount=r"\d[\d.,]* ?(kilo|kilogramm|kg)\b"),
    Attribute(("ich messe <so><amount>",), "user.height", nouns="größe, körpergröße", amount=r"(\d[.,]\d\d? ?(m|meter)|\d{3} ?(cm|zentimeter))\b( groß)?"),
    Attribute((r"<i_have>schuhgröße (?P<v>\d.*)", r"ich trage <so>(schuhe in )?(größe|schuhgröße) (?P<v>\d[\d.,]*)\W*$"), "user.shoe_size", nouns="schuhgröße"),
    Attribute((
        r"(ich|wir) (wohnen?|leben?|wohn) <so>(?P<v>(in|bei|nahe|auf|im|am|(in|an|auf) (der|dem|den)) (?!(<no_place>)\b)<name>.*)",
        r"(ich|wir) (bin|sind) <so>(nach|in|zu) (?P<v>\S.*?) (um)?gezogen",
        r"(ich|wir) (ziehen?) <so>(nach|in die|in den|in das|zu) (?P<v><name>.*)",
        "<mine> (adresse|wohnort|zuhause) (ist|lautet) (?P<v>.+)",
    ), "user.home", nouns="adresse, wohnort, zuhause, wohnung", ways="moved sold", searched="wohne wohnen leben wohnung adresse"),
    Attribute((r"ich (komme|stamme) <so>aus (?P<v>\S.*)",), "user.origin"),
    Attribute((r"<i_am><v:diet>\b", "ich ernähre mich <so><v:diet>"), "user.diet", ways="eating", searched="vegetarier vegetarierin vegan veganer"),
    Attribute((r"<i_am>(?P<v>(verheiratet|verlobt|geschieden|ledig|verwitwet|single)\b.*)",), "user.marital_status", ways="parted", searched="verheiratet verlobt"),
    Attribute((r"<i_am>(?P<v>mit <name> <so>(zusammen|verheiratet|verlobt|liiert))",), importance=0.8, ways="parted", searched="zusammen verheiratet verlobt"),
    Attribute(("<mine> (?P<who><partner>) (heißt|ist) <v:name>",), "user.{who}"),
    Attribute((), "user.husband", nouns="mann, ehemann", ways="parted", searched="mann"),
    Attribute((), "user.wife", nouns="frau, ehefrau", ways="parted", searched="frau"),
    Attribute((), "user.boyfriend", nouns="freund", ways="parted", searched="freund"),
    Attribute((), "user.girlfriend", nouns="freundin", ways="parted", searched="freundin"),
    Attribute((), "user.partner", nouns="partner, partnerin", ways="parted", searched="partner partnerin"),
    Attribute((), "user.fiance", nouns="verlobter, verlobte", ways="parted", searched="verlobter verlobte"),
    Attribute((
        r"<i_am>(von beruf )?(eine? )?(?P<v>([\w-]+e[rn]? )?<job>)\b(?=\W*$|,| (bei|beim|im|in|am|an|von|für|auf|und)\b)(?P<rest>.*)",
        r"(ich|wir) arbeiten? <so>als (?P<v>\S.*)",
    ), "user.job", nouns="job, beruf, amt, posten, ehrenamt", ways="sacked quit", searched="arbeite arbeiten job beruf", importance=0.7),
    Attribute((
        r"(ich|wir) (arbeiten?|jobben?) <so>(bei|beim|für) (?P<v>(<name>|(der|die|das|dem|eine?|einem|einer|meine[nrm]?) ).*)",
        r"(ich|wir) (arbeiten?|jobben?) <so>(im|in|in der|am|an der) (?P<v><name> <given>.*)",
    ), "user.employer", nouns="arbeitgeber, firma", ways="sacked quit", searched="arbeite arbeiten job", importance=0.7),
    Attribute((r"ich studiere <so><thing>", r"<i_am>(?P<v>im \w+ semester .+)"), nouns="studium", ways="quit", searched="studiere"),
    Attribute((r"ich lerne <so><thing>", r"ich spreche <so><thing>", r"ich unterrichte <so><thing>"), ways="quit"),
    Attribute((r"<mine> miete (beträgt|ist|liegt bei) <so>(?P<v>.*\d.*)", r"(ich|wir) zahlen? <so>(?P<v>.*\d.* (euro|€)) miete", r"die miete (ist|wurde) <so><to_value>"), "user.rent", nouns="miete"),
    Attribute((r"ich (verdiene|bekomme) <so>(?P<v>(<money>)( (netto|brutto))? (<each>) (stunde|tag|woche|monat|jahr)\b.*)",), "user.salary", nouns="gehalt, lohn, einkommen"),
    # animals, people and things
    Attribute((r"<mine> (?P<who>\w*(hund|katze|kater)) heißt <v:name>",), "user.{who}", ways="sold died foreign"),
    Attribute((), "user.dog", nouns="hund", ways="sold died", searched="hund"),
    Attribute((), "user.cat", nouns="katze, kater", ways="sold died", searched="katze kater"),
    Attribute((
        r"<i_have>(?P<v>(<a>) ([\w-]+ )*?(<pet>\b|\w+ namens <name>).*)",
        r"(auf|in|bei) (mir|uns|<mine> \w+) (leben|lebt|wohnen|wohnt) (?P<v>(<a>) .+)",
        r"<mine> (?P<v><pet>,? (namens )?<name>,? .+)",
    ), nouns="haustier, haustiere, tier, tiere", ways="sold died"),
    Attribute((r"<mine> (?P<who><role>) (heißt|ist) <so><v:titled>", r"<mine> neue[rn]? (?P<who><role>) (heißt|ist) <so><v:titled>"), "user.{who}", ways="gone"),
    Attribute((), "user.boss", nouns="chef, chefin, vorgesetzter", ways="gone"),
    Attribute((), "user.doctor", nouns="hausarzt, hausärztin", ways="gone"),
    Attribute((), "user.dentist", nouns="zahnarzt, zahnärztin", ways="gone"),
    Attribute((), "user.landlord", nouns="vermieter, vermieterin", ways="gone"),
    # of relatives, of whom one has one mother, or whom one names if there are several
    *(
        Attribute((
            rf"<mine> {kin} (wohnt|lebt) <so>(?P<v>(in|im|bei|nahe|auf|an der|am) (?!(<no_place>)\b).*)",
            rf"<mine> {kin} (ist|sind) <so>(nach|in|zu) (?P<v>\S.*?) (um)?gezogen",
            rf"<mine> {kin} (zieht) <so>(nach|in die|in den|in das|zu) (?P<v><name>.*)",
        ), "user.{kin}.home", importance=0.6)
        for kin in (
            "(?P<kin><only_kin>)(,? <given>,?)?",
            "(?P<kin><kin>)(,? (?P<given><given>),?)?",
            "(?P<kin>tante|onkel|nichte|neffe|cousine?),? (?P<given><given>),?",
        )
    ),
    Attribute((), "user.mother", nouns="mutter, mama"),
    Attribute((), "user.father", nouns="vater, papa"),
    Attribute((), "user.sister", nouns="schwester"),
    Attribute((), "user.brother", nouns="bruder"),
    Attribute((), "user.son", nouns="sohn"),
    Attribute((), "user.daughter", nouns="tochter"),
    Attribute((), "user.grandmother", nouns="oma, großmutter"),
    Attribute((), "user.grandfather", nouns="opa, großvater"),
    Attribute((r"<mine> (?P<v>([\w-]+e[rn]? )?(<relative>),? (<name>,? )?(heißt|heißen|ist|sind|wohnt|lebt|arbeitet|studiert|hat|macht|geht|spielt|lernt|kommt|zieht|wird) .+)",), ways="died"),
    Attribute((r"(ich|wir) fahren? <so>(?P<v>(<a>) .+)",), "user.car", nouns="auto, wagen", ways="sold", searched="fahre auto"),
    Attribute((r"<i_have>(?P<v>(<a>) ([\w-]+ )*?<possession>\b.*)", r"(ich|wir) besitzen? <so>(?P<v>\S.*)"), ways="sold"),
    Attribute((r"(ich|wir) schulden? <so>(?P<v>(?!dir\b)\S.*)",), nouns="schulden", ways="paid", searched="schulde schulden"),
    Attribute((
        r"<i_have>(?P<v>.*(abo|abonnement|mitgliedschaft|vertrag)\b.*)",
        r"(ich|wir) (abonnieren?|beziehen?) <so><thing>",
        r"<i_am>mitglied (?P<v>.+)",
        r"<mine> (?P<v>(strom|gas|internet|handyvertrag|telefon) (kommt|ist|läuft) \S.*)",
    ), nouns="abo, abonnement, mitgliedschaft, vertrag", ways="cancelled quit", searched="abo abonniere mitglied vertrag"),
    # health and likes
    Attribute((r"<i_am>(gegen|auf) (?P<v>.+?) <so>allergisch", r"<i_am>allergisch (gegen|auf) (?P<v>.+)"), nouns="allergie", ways="healed", importance=0.9, durability="core"),
    Attribute((r"(ich|wir) (habe|hab) <so>(?P<v>.*?<illness>\b.*)", "<i_am>(?P<v>(schwanger|blind|taub|farbenblind|diabetiker(in)?)\\b.*)"), ways="healed", importance=0.9, durability="core"),
    Attribute((r"(ich|wir) (vertrage|esse|trinke|rauche|fahre|darf)n? (?P<v>kein(e[nmrs]?)? \S.*)",), negative=True, importance=0.7),
    Attribute((r"ich nehme <so>(?P<v>(?!an|es|das|mir|teil|dich|mich|den|die)\S.*)",), ways="healed quit", confidence=0.8),
    Attribute((r"<mine> lieblings(?P<thing>\w+) (ist|sind|heißt|heißen) <so>(?P<v>.+)",), "user.{thing}_preference", memory_type="preference", ways="cooled"),
    Attribute((r"(ich|wir) (mag|mögen|liebe|lieben|hasse|bevorzuge|bin fan von|bin ein fan von) <so><thing>", r"(ich|wir) (\w+en?|kann) (?P<v>.*?)\b(sehr |am liebsten |nicht )?gern(e)?\b.*", r"(ich|wir) kann (?P<v>.+) nicht (ausstehen|leiden)"), memory_type="preference", ways="cooled", negative=True, importance=0.5),
    # plans
    Attribute((r"(ich|wir) (will|wollen|möchten?|planen?|würde gern|hab vor|habe vor) <so>(?P<v>.*\b(fliegen|reisen|fahren|lernen|kaufen|bauen|heiraten|umziehen|ziehen|studieren|laufen|aufhören|werden|abnehmen|gründen|machen|besuchen|eröffnen)\W*$)",), ways="dropped", importance=0.7, confidence=0.8),
    Attribute((r"(ich|wir) (sparen?|trainieren?) <so>(auf|für) (?P<v>\S.*)",), ways="dropped quit", importance=0.7),
    Attribute((r"<mine> (?P<v><event> (nach \w+ |bei \w+ |mit \w+ )?(ist|findet) <so>(am|um|im|in|ab|auf) .+)", r"<i_have>(?P<v>.*(am|um) .*<event>\b.*)"), memory_type="event", ways="cancelled dropped", importance=0.7),
    # any other thing of mine, and habits
    Attribute((r"<mine> <not_mine>(?P<thing>\w+) (ist|sind|heißt|heißen|lautet|beträgt) <so><definite>", r"<mine> <not_mine>(?P<thing>\w+) (ist|wurde) <so><to_value>"), "user.{thing}", ways="sold cancelled", confidence=0.8),
    Attribute((r"(ich|wir) (spielen?|üben?) <so>(?P<v>(?!mit|es|das)\S.*)",), nouns="instrument", ways="quit sold", searched="spiele übe", importance=0.5),
    Attribute((r"(ich|wir) (wohnen?|leben?|arbeiten?|jobben?|rauchen?|trinken?|essen?|joggen?|schwimmen?|singen?|tanzen?|sammeln?|sammle|trainieren?|klettern?|klettere|laufen?|gehen?|züchten?|pendeln?|pendle|stehen? .* auf|rudern?|gebe|schreibe gerade an) <so>(?P<v>(?!es|das|davon|mal|nicht)\S.*)",), ways="quit cancelled", importance=0.5, confidence=0.8),
)  # fmt: skip

WAYS = {
    "sacked": (
        "<i_have><so><own><ended> <so>(gekündigt|hingeschmissen|geschmissen|verlassen)",
        "<i_have><so>(gekündigt|<mine> (job|stelle|arbeit) <so>(verloren|gekündigt|aufgegeben|geschmissen))",
        "ich wurde <so>(entlassen|gefeuert|gekündigt)",
        "<own><ended> hat mir <so>gekündigt",
        "<own><ended> hat mich <so>(entlassen|gefeuert)",
        "<i_am>(arbeitslos|in rente|pensioniert)",
    ),
    "moved": (
        "<i_am>(aus|von) <own><ended> <so>(weg|ausgezogen|weggezogen|fort)",
        "<i_am>(weg|ausgezogen|weggezogen) aus <own><ended>",
    ),
    "sold": (
        "<i_have><so><own><ended> <so>(verkauft|verschenkt|weggegeben|abgegeben|verschrottet|zurückgegeben|verloren)",
        "<own><ended> (ist|wurde|wurden) (mir |uns )?<so>(.* )?(gestohlen|geklaut|verkauft|verschrottet)( worden)?",
    ),
    "died": (
        "<own><ended> (ist|sind) <so>(gestorben|tot|verstorben|eingeschläfert worden)",
        "wir mussten <own><ended> einschläfern( lassen)?",
        "<own><ended> musste <so>eingeschläfert werden",
        r"<own><ended> hat (der|die|ein|eine) \w+ geholt",
    ),
    "parted": (
        "(?P<v><name>) und ich (haben uns <so>(getrennt|scheiden lassen)|sind <so>(nicht mehr zusammen|kein paar mehr|auseinander|geschieden))",
        "((?P<v><name>)|<mine> <partner>) hat <so>((mit mir )?schluss gemacht|mich verlassen|sich (von mir )?getrennt)",
        "<i_have><so>(mit (?P<v><name>) )?<so>schluss gemacht",
        "<i_have><so>mich <so>von (?P<v><name>) <so>getrennt",
        "die (verlobung|hochzeit|ehe|beziehung) ist <so>(geplatzt|vorbei|aus|gelöst|geschieden)",
        "wir haben uns <so>(getrennt|scheiden lassen)",
        "<i_am>(solo|single|geschieden)",
    ),
    "cooled": (
        "(ich|wir) (hasse|verabscheue) <so><ended>",
        "(ich|wir) kann <so><own><ended> nicht (mehr )?(ausstehen|leiden|sehen|riechen)",
    ),
    "cancelled": (
        "<i_have><so><own><ended> <so>(gekündigt|abgesagt|abbestellt|storniert|auslaufen lassen)",
        "<own><ended> (wurde|ist) <so>(abgesagt|gestrichen|abgelaufen|ausgefallen|gekündigt)",
        "<own><ended> fällt <so>aus",
    ),
    "paid": (
        "<i_have><so><own><ended> <so>((alles|das geld) )?<so>(zurückgezahlt|zurückgegeben|abbezahlt|beglichen|bezahlt)",
        "<i_have><so>(alles|die schulden) <so>(zurückgezahlt|abbezahlt|beglichen)",
        "<own><ended> und ich sind quitt",
    ),
    "healed": (
        "<own><ended> (macht|machen|schadet|schaden) mir <so>nichts( mehr)?( aus)?",
        "ich vertrage <so><own><ended>( wieder| doch)*",
        "<i_have><so><own><ended> <so>abgesetzt",
        "<i_am><ended> los",
    ),
    "quit": (
        "<i_am>(aus )?<own><ended> <so>(ausgetreten|ausgestiegen|raus)",
        "ich höre <so>(mit )?<own><ended> <so>auf",
        "<i_have><so>(mit )?<own><ended> <so>(aufgehört|aufgegeben|geschmissen|hingeschmissen|abgebrochen|an den nagel gehängt|niedergelegt|sein ?lassen|abgelegt)",
        r"<i_have><so>aufgehört,? (mit )?<own><ended>( zu \w+)?",
        "<own><ended> ist <so>(nichts|nicht) (mehr )?(für mich|mein ding)",
        "<own><ended> ist <so>(gestrichen|vorbei|passé|geschichte)",
    ),
    "dropped": (
        "aus <own><ended> wird <so>nichts",
        "<own><ended> (wird <so>nichts|ist gestrichen|fällt ins wasser|hat sich erledigt)",
    ),
    "foreign": ("<own><ended> gehör(t|en) (mir|uns) (gar |überhaupt )?nicht( mehr)?",),
    "eating": (
        "(ich|wir) (esse|essen) <so>(wieder|doch|inzwischen|jetzt)+ <so>(fleisch|fisch|alles)",
        "(ich|wir) (esse|essen) <so>(fleisch|fisch)",
    ),
    "forgotten": (
        "(bitte )?(vergiss|streich|lösch|ignorier)e? (das mit |die sache mit )?(?!das\\W*$)<own><ended>",
    ),
    "gone": (
        "<own><ended> (ist|hat) <so>(in rente|pensioniert|weggezogen|weg|aufgehört|gekündigt|die firma verlassen)",
    ),
    "renamed": ("niemand nennt mich <ended>",),
    "over": (
        "<own><ended> (ist|sind) <so>(vorbei|geplatzt|gestrichen|passé|geschichte|gelaufen|abgesagt|zu|geschlossen)",
        "<own><ended> hat <so>(zugemacht|geschlossen|sich aufgelöst|sich erledigt)",
        "<i_have><so><own><ended> <so>abgesagt",
    ),
    "retracted": ("(es|das) (ist|war) nicht <own><ended>", "<mine> <ended> .*"),
}

_DENIALS = (
    (
        r"<who> (?P<verb>\w+) (?P<mid>(?!.*\b(un)?gern)[^,]*?)nicht mehr\b(?P<rest>[^,]*?)",
        r"\g<who> \g<verb> \g<mid>\g<rest>",
    ),
    (
        r"<who> (?P<verb>\w+) (?P<mid>[^,]*?)(gar |überhaupt |doch )*nicht (?!nur|gern|immer|so|ganz|allein|bloß|lange|oft|jeden|sicher|unbedingt|am\b|an\b|mit|weil|besonders|mehr|viel)(?P<rest>[^,]+?)",
        r"\g<who> \g<verb> \g<mid>\g<rest>",
    ),
    (
        r"<who> (?P<verb>\w+) (?P<mid>[^,]*?)(gar |überhaupt )*kein(e[nmrs]?)?( (?P<rest>[^,]+?))?",
        r"\g<who> \g<verb> \g<mid>\g<rest>",
    ),
)

_SWISS = "(ß|ss)"
"""What stands for "ß" in Switzerland, too."""
_MARKS = word_set(
    """
    ich ist nicht und der die das mein meine meinen meinem meiner habe haben hab bin sind
    wir ein eine einen einem zu mit auf für von auch aber kein keine mehr noch dem den des
    zum zur bei wird wurde heißt es sie er uns mir mich aus nach seit über oder wie als
    dass nein jetzt schon war musste werden können möchte kann dann da diese dieser dieses sehr beim ins haben hatte wurden
    """
)
_IDLE = word_set(
    """
    ich wir mein meine meinen meinem meiner unser unsere unseren der die das den dem des
    ein eine einen einem einer und oder aber mit bei im auf für von vom zu zum
    zur aus nach seit ist sind bin habe haben hab war hat es er sie sehr auch noch schon
    nicht kein keine mehr jetzt namens alles als wieder ganz gar beim
    """
)
LANGUAGE = Language(
    marks=_MARKS,
    idle=_IDLE,
    stemmer="german",
    attributes=ATTRIBUTES,
    measured=(r"<i_am>((wieder )?(rauf|runter|hoch) )?<so>(auf |bei )?<amount>\W*$",),
    vocabulary={name: part.replace("ß", _SWISS) for name, part in VOCABULARY.items()},
    ways=WAYS,
    always=frozenset({"forgotten", "foreign", "retracted", "over"}),
    jests=r"\b(das war|ich habe|ich hab|war) (nur |bloß )?(ein scherz|ein witz|gescherzt|gelogen|geflunkert|angegeben|quatsch|zitiert)\b",
    corrections=(
        "(<sorry>)*nicht (?P<wrong>[^,]+?),? (sondern|es ist|es sind) (?P<v>[^,]+)",
        "(<sorry>)*(es ist |ich meinte? )?(?P<v>[^,]+?),? (und )?nicht (?P<wrong>[^,]+)",
        r"(<sorry>)*(ich meinte?|es ist|es sind|es war|das ist|sagen wir)( natürlich)? (?P<v>(?!nicht\b)\S.*)",
        r"(?P<v>[^,]+),? (meine|meinte) ich( natürlich)?",
        r"(?P<bare>(<sorry>)*(nein|nee|halt|stopp?|korrektur|falsch)[,:.!]+ (<sorry>)*)((am|um|in|bei) )?(?P<v>\S+( \S+){0,3})",
    ),
    number=VOCABULARY["number"],
    now=r"\b(jetzt|nun|inzwischen|mittlerweile|zurzeit)\b",
    kinds=(
        r"\b\d{1,2}\. <month>\b",
        r"\b(montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonnabend|sonntag)\b",
        r"\b<month>\b",
        r"\b\d{1,2}([:.]\d\d)? uhr\b|\bhalb \w+\b",
        r"\b\d{1,2}\.(?!\d)",
        r"\d[\d.,]*\d|\d",
        r"\b(eins|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|zwanzig|dreißig)\b",
        r"<name>",
    ),
    takes_back="(<sorry>|nur |bitte |das war )*(vergiss (es|das)( wieder)?|streich das|das (stimmt|war|ist) (nicht|falsch|gelogen|quatsch|unsinn|ein (witz|scherz))|ein (witz|scherz)|war (nur )?(ein )?(spaß|witz|scherz))",
    later=r"( <when>| für (immer|<name>.*)| (weil|seit|und|aber|nach|wegen) .+|,.+)*[.! ]*$",
    denials=_DENIALS,
    still=r"( mehr| <since>| (weil|seit|wegen) .+|,.+)*[.! ]*$",
    openings={"I": "ich|wir", "my": r"mein\w*|unser\w*"},
    negative=r"\b(nicht|nie|niemals|kein(e[nmrs]?)?|nichts|niemand)\b",
    over=r"\b(nicht|nie|kein(e[nmrs]?)?|nichts|früher)\b",
    partial=r"\b(damals|manchmal|gelegentlich)\b|^(ich|wir)\b.* (auch|heute|diese woche|im (urlaub|sommer|winter|frühling|frühjahr|herbst)|in den ferien|an wochenenden|am wochenende|\w+tags)\b(?!.*ge\w+[nt]\W*$)",
    unreal=r"\b(traum|träum\w*|film|roman|serie|spiel|lied|witz|morgen|übermorgen|bald|heute|diese woche|für (eine \w+|ein paar \w+|einen \w+)|vorübergehend|momentan|gerade nicht|bis \w+|nächste\w* \w+|werde|wollte|sollte)\b",
    taken_back=r"\b(wieder zurück|vorübergehend|nur bis|fast|beinahe|wieder angefangen)\b|\bnicht\b[^,]*, um\b.* zu\b",
    states=r"<mine> (?P<thing>\w+) (ist|sind|heißt|heißen|beträgt|kommt) (?P<its>.+)|(ich|wir) (?P<verb>\w+)( <so>(?P<rest>.+))?",
    in_progress="(?!)(?P<verb>)(?P<rest>)",  # German has no such form
    auxiliaries=frozenset({"hab", "sein"}),
    same_verbs={
        "bin": "sein",
        "sind": "sein",
        "war": "sein",
        "ist": "sein",
        "heißt": "sein",
        "habe": "hab",
        "haben": "hab",
        "hab": "hab",
        "besitze": "hab",
        "besitzen": "hab",
        "halte": "hab",
        "lebe": "wohn",
        "leben": "wohn",
    },
    named=frozenset({"hab", "arbeit", "wohn"}),
    preposition=r"^((gegen|auf|in|im|am|an|bei|beim|für|mit|aus|als|von|seit|vom|zu|zum|zur) )",
    object_ends=r"[,;.()](?!\d)|\s(mit|weil|seit|für|in|im|an|am|auf|bei|beim|als|von|aus|dass|und|aber|namens|jeden|jede|zu|nach|bis)\b",
    several=r"(zwei|drei|vier|fünf|mehrere|\d{1,2})\b",
    plural="(n|r|e|s)$",
)

_PASSING = re.compile(
    r"\b(?:wenn|falls|ob|vielleicht|möglicherweise|eventuell|wahrscheinlich|könnte\w*|würde\w*"
    r"|hätte\w*|wäre\w*|angenommen|gesetzt den fall|überleg\w*|beinahe|wünsch\w*|scheint|als ob"
    r"|(?:glaub|denk|dach|hoff)(?:e|st|t|en|te|ten)(?! (?:\w+ )*da?ran\b)|finde[nt]"
    r"|träumte\w*|geträumt|im traum|sag(?:t|en|te|ten)|mein(?:t|te|ten)|behaupt\w*|erzähl(?:t\w*|en)"
    r"|schreibt|hast (?:\w+ )?geschrieben|laut"
    r"|angeblich|fast|soll|sollen"
    r"|passwort|kennwort|pin|iban|kreditkarte\w*)\b"
    r"|^(?:bitte )?(?:stell (?:dir|euch)|(?:nehmen|tun) wir|scherz|schreib|gib|zeig|sag|erklär|hilf|mach|kannst|könntest|lass|nenn|such|finde"
    r"|fass|übersetz|erinner|was|wer|wie|wo|wann|warum|wieso|welche\w*|hast|bist|habe ich|bin ich)\b",
    re.IGNORECASE,
)
_PARTS = re.compile(
    r",\s+(?:(?:und|aber|denn|doch|also|dafür) )?(?=[^,]*\b(?:ich|wir|mein\w*|unser\w*)\b)"
    r"|\s+(?:und|aber|denn|doch)\s+(?=(?:ich|wir|mein\w*)\b)",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(
    r"(?:(?:hallo|hi|hey|ach so|ach|also|ja|nein|naja|tja|übrigens|und|aber|oh|sorry|entschuldigung"
    r"|moin|guten (?:morgen|tag|abend)|kurz|ehrlich gesagt)\b[\s,.:!-]*)+",
    re.IGNORECASE,
)
_VERB_SECOND = re.compile(
    r"(?P<front>(?!.*\b(?:ich|wir)\b.*\b(?:ich|wir)\b)[^,]+?) (?P<verb>(?!und\b|oder\b|aber\b|d[ae][sr]s?\b|die\b|weil\b|wo\b|was\b|als\b)[a-zäöüß]+) (?P<who>ich|wir)\b"
    r" ?(?P<rest>.*)",
    re.IGNORECASE,
)


_INTRODUCES = re.compile(
    r"\b(?:übersetz\w*|fass\w*|korrigier\w*|umformulier\w*|folgend\w*|satz|text|brief|zitat|beispiel"
    r"|geschichte|gedicht)\b[^:]{0,80}:(?:\s|$)",
    re.IGNORECASE,
)


def introduces(sentence: str) -> bool:
    """Whether the words after a sentence are no longer the user's own."""
    return ":" in sentence and _INTRODUCES.search(sentence) is not None


class German(Table):
    """How German is read."""

    def pattern(self, text: str) -> re.Pattern[str]:
        return super().pattern(text.replace("ß", _SWISS))

    def is_lasting(self, sentence: str) -> bool:
        return not is_question(sentence) and _PASSING.search(sentence) is None

    def whole(self, sentence: str) -> str:
        found = _LEAD_IN.match(sentence)
        return sentence[found.end() :] if found else sentence

    def clauses(self, sentence: str) -> Sequence[str]:
        parts = _PARTS.split(self.whole(sentence))
        return [clause for part in parts if (clause := part.strip(" ,.!"))]

    def arranged(self, clause: str) -> str:
        found = _VERB_SECOND.fullmatch(clause)
        if found is None:
            return clause
        return f"{found['who']} {found['verb']} {found['front']} {found['rest']}".strip()
