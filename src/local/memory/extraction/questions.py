"""Questions that a fact answers, which are embedded with it and so found by those who ask them."""

_ASKED = {
    "name": "What is {whose} name?",
    "home": "Where does {who} live?",
    "origin": "Where is {who} from?",
    "birthplace": "Where was {who} born?",
    "birthday": "When is {whose} birthday?",
    "age": "How old is {who}?",
    "job": "What does {who} do for a living?",
    "employer": "Who does {who} work for?",
    "diet": "What does {who} eat?",
    "marital_status": "Is {who} married?",
    "deadline": "When is the deadline?",
    "budget": "What is the budget?",
    "language_preference": "Which language does {who} prefer?",
    "answer_language": "Which language does {who} want to be answered in?",
}
_OF_THE_USER = "What is {whose} {what}?"
_OF_THE_PROJECT = "What is the {what}?"


def questions(topic: str | None, who: str) -> tuple[str, ...]:
    """The question that the value under a topic key answers; none without a key."""
    if topic is None:
        return ()
    scope, _, what = topic.partition(".")
    name = who[:1].lower() + who[1:] if who.startswith("The ") else who
    form = _ASKED.get(what) or (_OF_THE_USER if scope == "user" else _OF_THE_PROJECT)
    return (form.format(who=name, whose=f"{name}'s", what=what.replace("_", " ")),)
