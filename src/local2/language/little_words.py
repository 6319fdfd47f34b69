"""The little words of languages other than English: articles, pronouns, prepositions, auxiliaries.

They say nothing about what a text is about, and a small memory does not show that they are common:
"wo" and "qué" are as rare in it as a name. Only closed classes are listed, without numbers, nouns
and full verbs. One set serves all these languages, since related ones share many words.
"""

# ruff: noqa: RUF001 - Russian letters

from collections.abc import Set as AbstractSet

from local2.language.words import STOP_WORDS, word_set, words

_LAST_LATIN = "\u024f"

_GERMAN = """
    aber als also am an auch auf aus bei beim bin bis bist da damit dann das dass daß dein deine
    deinem deinen deiner dem den denn der des dich die dies diese diesem diesen dieser dieses
    dir doch du durch ein eine einem einen einer eines er es etwas euch euer für gegen gerade
    habe haben habt hast hat hatte hatten hier ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im
    in ins ist ja jetzt kann kannst kein keine keinem keinen keiner können könnte man mein meine
    meinem meinen meiner meines mich mir mit muss müssen nach nicht noch nun nur ob oder ohne
    schon sehr sei sein seine seinem seinen seiner seit sich sie sind so soll sollen sollte über
    um und uns unser unsere unserem unseren unserer unter vom von vor wann war waren warum was
    weil welche welchem welchen welcher welches wem wen wenn wer werde werden wessen wie wieder
    wieso wieviel wir wird wo woher wohin womit worden wurde wurden zu zum zur zwischen
"""
_DUTCH = """
    aan al als bent bij binnen daar dan dat de deze die dit doe doen dus een en er geen had
    hadden heb hebben hebt heeft hem hen het hier hij hoe hoeveel hun ik in is jij je jou jouw
    jullie kan kun kunnen maar me met mij mijn moet moeten na naar niet nog nu of om onder ons
    onze ook op over te tot tussen uit van veel voor waar waarom wanneer waren was wat we wel
    welk welke werd wie wij worden wordt zal ze zich zij zijn zo zonder zou
"""
_FRENCH = """
    à ai ainsi alors as au aussi aux avais avait avec avez avoir avons c ça car ce cela ces cet
    cette chez combien comme comment d dans de depuis des dont donc du elle elles en entre es
    est et étaient étais était été être eu eux fait il ils j je l la là laquelle le lequel les
    lesquelles lesquels leur leurs lui m ma mais me mes moi mon n ne ni nos notre nous on ont ou
    où par pas pendant peut plus pour pourquoi qu quand que quel quelle quelles quels qui quoi s
    sa sans se sera ses si soit sommes son sont sous suis sur t ta te tes toi ton très tu un une
    vos votre vous y
"""
_SPANISH = """
    a al algo ante antes aquí así aunque como cómo con cuál cuáles cuándo cuando cuánta cuántas
    cuánto cuántos de del desde donde dónde durante e el él ella ellas ellos en entre era eran
    eres es esa esas ese eso esos esta está estaba están estar estas este esto estos estoy fue
    fueron fui ha había hace han has hasta hay he la las le les lo los más me mi mí mis muy nada
    ni no nos nosotros nuestra nuestro o os para pero por porque puede puedo pues que qué quién
    quiénes se sea ser si sí sido sin sobre son soy su sus también te tengo ti tiene tienen
    tienes todo tu tú tus un una unas uno unos ya yo
"""
_PORTUGUESE = """
    ao aos aquela aquele às até com como da das dela dele do dos é ela elas ele eles em era eram
    essa esse esta está estão estava estive estou eu foi foram há isso isto já lhe mais mas meu
    meus minha minhas muito na não nas nem no nos nós nossa nosso num numa onde ou para pela
    pelas pelo pelos por porque qual quais quando quanto quantos quem sem ser seu seus só sou
    sua suas também tem têm tenho ter teu tua tinha um uma você vocês
"""
_ITALIAN = """
    abbiamo ai agli al alla alle allo anche avere aveva c che chi ci come con cosa cui da dagli
    dai dal dall dalla dalle de degli dei del dell della delle dello di dopo dove e è era erano
    ero essere fa fra gli ha hai hanno ho i il in io l la le lei li lo loro lui ma mi mia mie
    miei mio ne nei nel nell nella nelle nello no noi non nostra nostro o ogni per perché più po
    quale quali quando quanta quante quanti quanto quella quello questa questo qui sei si sia
    siamo sono sta stata stato su sua sue sugli sui sul sull sulla sulle suo suoi te ti tra tu
    tua tuo un una uno vi voi
"""
_POLISH = """
    a ale albo bardzo bez był była było były być by co czego czemu czy czyj dla do dlaczego gdy
    gdzie go i ich ile im ja jak jaka jaki jakie jakiego jakiej jakim jako je jego jej jest
    jestem jesteś już kiedy kim kogo komu który która które którego której ma mają mam mamy masz
    mi mną mnie mój moja moje mojego mojej moim może na nad nam nas nasz nasza nasze nic nich
    nie nim niż o od ona one oni ono oraz po pod przed przez przy są się skąd ta tak także tam
    te tego tej ten też to tu tylko tym u w we wy z za ze że
"""
_RUSSIAN = """
    а без бы был была были было быть в вам вас ваш во вот все всё вы где да для до его ее её
    если есть еще ещё же за зачем и из или им их к как какая какие какое какой какую ко когда
    кого кому кто куда ли меня мне мной мои мой моя моё моего моей моих мы на над нам нас наш
    наша не нет них но ну о об он она они оно от откуда очень по под почему при про с сейчас
    сколько со так также там то тоже только тот ты у уже чего чей чем через что чтобы эта эти
    это этот я
"""
_ALL = word_set(_GERMAN + _DUTCH + _FRENCH + _SPANISH + _PORTUGUESE + _ITALIAN + _POLISH + _RUSSIAN)
_ENGLISH_WORDS = word_set(
    """
    ai al also am an ante as bent bin bis by car chi ci co com come comment dan dell den die dir do
    doe em en era es est go ha had han has hat hay he i in ins io is jest la las li los ma man me
    met no non num of on one op os over pas per plus pour sans sea sei sin so son sou sur tam te ten
    to todo ton tot un war was we ya
    """
)
"""Those that are words or signs in English, too, as all single letters: they show no language."""
_MARKS = frozenset(word for word in _ALL - _ENGLISH_WORDS if len(word) > 1)


def is_in_another_language(text: str) -> bool:
    """Whether a text is certainly not English: by its little words, or its letters."""
    letters = [letter for letter in text if letter.isalpha()]
    latin = sum(letter <= _LAST_LATIN for letter in letters)
    return 2 * latin < len(letters) or bool(little_words_in(frozenset(words(text))))


def little_words_in(found: AbstractSet[str]) -> AbstractSet[str]:
    """The little words among those of a text; none if it has not more of them than English ones.

    "die", "war" and "man" are little words in a German text only.
    """
    english = STOP_WORDS.intersection(found) - _ALL
    return _ALL.intersection(found) if len(_MARKS.intersection(found)) > len(english) else set()
