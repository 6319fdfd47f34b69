"""Extraction without a model: only lasting and plainly stated facts, and nothing else."""

from datetime import UTC, datetime

import pytest

from local2.keys import is_topic
from local2.language.corrections import has_new_amount
from local2.memory.extraction.extractor import Item, Passage, Utterance
from local2.memory.extraction.rules import RulesExtractor, extract

FRIDAY = datetime(2026, 5, 1, 12, tzinfo=UTC)


def utterance(
    content: str, *, id_: str = "1", role: str = "user", by: str | None = None
) -> Utterance:
    return Utterance(id=id_, role=role, content=content, at=FRIDAY, speaker=by)


def items(content: str, *, by: str | None = None) -> list[Item]:
    return extract(Passage(messages=[utterance(content, by=by)]))


def contents(content: str, *, by: str | None = None) -> list[str]:
    return [item.content for item in items(content, by=by)]


@pytest.mark.parametrize(
    ("content", "topic", "expected"),
    [
        pytest.param("My name is Ana Silva.", "user.name", "The user's name is Ana Silva.",
                     id="name"),
        pytest.param("I live in Porto.", "user.home", "The user lives in Porto.", id="home"),
        pytest.param("I'm a nurse.", "user.job", "The user is a nurse.", id="job"),
        pytest.param("I work for Volvo.", "user.employer", "The user works for Volvo.",
                     id="employer"),
        pytest.param("I'm vegan.", "user.diet", "The user is vegan.", id="diet"),
        pytest.param("I'm 34 now.", "user.age", "The user is 34 now.", id="age now"),
        pytest.param("My new email is ada@falk.example.", "user.email",
                     "The user's new email is ada@falk.example.", id="a new value of mine"),
        pytest.param("I moved: I live in York now.", "user.home", "The user lives in York now.",
                     id="what stands behind a colon"),
        pytest.param("My birthday is 3 May.", "user.birthday", "The user's birthday is 3 May.",
                     id="birthday"),
        pytest.param("my favorite colour is blue", "user.colour_preference",
                     "The user's favorite colour is blue.", id="favourite, in either spelling"),
        pytest.param("Always answer in German.", "user.answer_language",
                     "The user asks: Always answer in German.", id="language"),
        pytest.param("My editor is Helix.", "user.editor", "The user's editor is Helix.",
                     id="any other thing of mine"),
        pytest.param("My newsletter is called The Leaf.", "user.newsletter",
                     "The user's newsletter is called The Leaf.", id="begins with new"),
        pytest.param("The deadline is 14 June.", "project.deadline", "The deadline is 14 June.",
                     id="deadline"),
        pytest.param("The project deadline is 1 December.", "project.deadline",
                     "The project deadline is 1 December.", id="the project's"),
        pytest.param("Our deadline moved to 5 January.", "project.deadline",
                     "The user said: Our deadline moved to 5 January.", id="our own"),
        pytest.param("Our database is MariaDB.", "project.database",
                     "The user said: Our database is MariaDB.", id="a thing of a project"),
        pytest.param("The budget for the launch is 5,000 euros.", "project.launch_budget",
                     "The budget for the launch is 5,000 euros.", id="a part of it"),
        pytest.param("The budget for my divorce is 5,000 euros.", "user.divorce_budget",
                     "The user said: The budget for my divorce is 5,000 euros.",
                     id="nobody else's, by a word of projects"),
        pytest.param("My company is called Acme.", "user.employer",
                     "The user's company is called Acme.", id="nobody else's name"),
        pytest.param("Our plumber is Goran.", "user.plumber",
                     "The user said: Our plumber is Goran.", id="somebody of a household"),
        pytest.param("Our wifi network is called Otter.", "user.wifi_network",
                     "The user said: Our wifi network is called Otter.", id="a household's thing"),
        pytest.param("My car's a 2016 Skoda.", "user.car", "The user's car's a 2016 Skoda.",
                     id="contracted"),
        pytest.param("My car's an old Volvo.", "user.car", "The user's car's an old Volvo.",
                     id="old, and not so many years old"),
        pytest.param("My office is in the old mill.", "user.office",
                     "The user's office is in the old mill.", id="where it is"),
        pytest.param("I've been a vet's assistant for nine years.", "user.job",
                     "The user has been a vet's assistant for nine years.", id="job for long"),
        pytest.param("I'm Pilar, a graphic designer from Seville.", "user.job",
                     "The user is Pilar, a graphic designer from Seville.", id="name and job"),
    ],
)  # fmt: skip
def test_a_fact_with_one_possible_value_has_a_key(content: str, topic: str, expected: str) -> None:
    (item,) = items(content)

    assert (item.topic, item.content) == (topic, expected)
    assert is_topic(topic)


@pytest.mark.parametrize(
    ("before", "change", "topic"),
    [
        ("My dentist is Dr. Moreau.", "I have a new dentist, Dr. Hall.", "user.dentist"),
        ("My dentist is Dr. Moreau.", "My new dentist is Dr. Hall.", "user.dentist"),
        ("My doctor is Dr. Blum.", "I changed doctors and now see Dr. Stern.", "user.doctor"),
        (
            "My gym days are Monday and Friday.",
            "I changed my gym days to Tuesday.",
            "user.gym_days",
        ),
        ("My gym days are Monday and Friday.", "My gym days are now Tuesday.", "user.gym_days"),
        ("My rent is 900 euros.", "My rent went up to 980 euros.", "user.rent"),
        ("My email is a@example.org.", "I updated my email to b@example.org.", "user.email"),
        ("I work at Acme.", "I quit Acme and started at Northwind.", "user.employer"),
        ("I work for Acme.", "I got a new job at Northwind.", "user.employer"),
        ("I'm a nurse.", "I was promoted to ward manager.", "user.job"),
        ("I am 34 years old.", "I turned 35 yesterday.", "user.age"),
        ("I am forty-one years old.", "I'm 42 years old now.", "user.age"),
        ("I weigh 84 kilos.", "I weigh 78 kilos now.", "user.weight"),
        ("I'm 84 kilos.", "I've gone down to 79 kg.", "user.weight"),
        ("My weight is 180 pounds.", "I'm down to 165 pounds.", "user.weight"),
        ("I'm 1.62 m tall.", "It turns out I measure 1.65 m.", "user.height"),
        ("I wear size 42 shoes.", "My shoe size is 43 now.", "user.shoe_size"),
        ("I earn 3,200 euros a month.", "I make 41k a year now.", "user.salary"),
        ("I get paid 18 pounds an hour.", "My salary is £41,000 now.", "user.salary"),
        ("I pay 900 euros rent.", "My landlord raised the rent to 950 euros.", "user.rent"),
        ("I pay 650 a month for my flat.", "The rent went up to 700.", "user.rent"),
        ("Ich wiege 84 Kilo.", "Ich bin runter auf 78 kg.", "user.weight"),
        ("Ich bin 1,78 m groß.", "Ich bin jetzt 1,80 m groß.", "user.height"),
        ("Meine Schuhgröße ist 42.", "Ich habe jetzt Schuhgröße 43.", "user.shoe_size"),
        (
            "Ich verdiene 3.000 Euro im Monat.",
            "Mein Gehalt ist auf 52.000 Euro gestiegen.",
            "user.salary",
        ),
        ("The deadline is 14 June.", "We pushed the deadline to 21 June.", "project.deadline"),
    ],
)
def test_a_change_has_the_key_of_what_it_changes(before: str, change: str, topic: str) -> None:
    ((old,), (new,)) = items(before), items(change)

    assert (old.topic, new.topic) == (topic, topic)


@pytest.mark.parametrize(
    "content",
    [
        # a change of the moment, or of somebody else
        "I changed my mind about Paris.",
        "I switched my phone to silent.",
        "I moved my desk to the window.",
        "I changed my order to a latte.",
        "I turned 90 degrees left.",
        "I joined the gym.",
        "I'm 20 minutes late.",
        "I'm 80 percent sure.",
        "I turned 40 pages.",
        "I lost 5 kilos last month.",
        "My dog weighs 12 kilos now.",
        "My sister is 1.62 m tall.",
        "I used to weigh 95 kilos.",
        "I want to weigh 75 kilos by June.",
        "I make 20 pancakes a week.",
        "I pay 40 euros a month for the gym.",
        "My boss earns 9,000 euros a month.",
        "My car is 12 years old.",
        "Mein Sohn ist jetzt 1,20 m groß.",
        "Ich bin 20 Minuten zu spät.",
        # what only sounds like a home or a boss
        "My sister lives with her boyfriend.",
        "My brother lives in fear of spiders.",
        "My uncle lives in Rome.",  # one of several, maybe
        "My sister lived in Oslo for ten years.",
        "My dad was moved to Ward 6.",
        "My neighbour moved to Spain.",
        "I report to the police.",
        "I report to Dana about bugs.",
        "Mein Bruder lebt in Angst.",
        "Meine Tante wohnt in Bonn.",
        # how and when one works or lives
        "I work at night.",
        "I work for free these days.",
        "I work at the moment on a farm.",
        "I live on the third floor.",
        "I live in a small flat with Tom.",
        "I live in fear of spiders.",
        "I've lived in constant fear since Monday.",
        "I'm a smoker.",
        "I'm a former teacher.",
        "I'm a single mother.",
        "I'm Anna, a friend of your teacher.",
        "My car is in the garage.",
        "My back's a wreck.",
        "I work at a desk.",
        "I've been a customer for ten years.",
        "Ich arbeite im Homeoffice.",
        "Ich arbeite am liebsten nachts.",
        "Ich arbeite im Moment viel.",
        "Ich wohne zur Miete.",
        "Ich wohne im dritten Stock.",
        "Im Urlaub wohnen wir im Hotel Bellevue in Nizza.",
        "Wir wohnen gerade im Hotel Adlon in Berlin.",
        "Ich lebe in Angst.",
    ],
)
def test_what_only_sounds_like_a_value_has_no_key(content: str) -> None:
    assert {item.topic for item in items(content)} <= {None}


@pytest.mark.parametrize(
    ("before", "later", "is_new"),
    [
        ("I have two kids.", "I have three kids now.", True),
        ("I work four days a week.", "I now work five days a week.", True),
        ("I owe the bank 5,000 euros.", "I owe the bank 4,200 euros now.", True),
        ("Ich rauche zehn Zigaretten am Tag.", "Ich rauche jetzt fünf Zigaretten am Tag.", True),
        ("My daughter is six.", "My daughter is four.", False),
        ("I owe Tom 50 euros.", "I owe Eva 20 euros now.", False),
        ("I work four days a week.", "I work four days a month now.", False),
    ],
)
def test_another_amount_that_holds_now_is_a_new_one(before: str, later: str, is_new: bool) -> None:
    ((old,), (new,)) = contents(before), contents(later)

    assert has_new_amount(new, old) is is_new


@pytest.mark.parametrize(
    ("content", "memory_type"),
    [
        pytest.param("I love hiking in the Alps.", "preference", id="like"),
        pytest.param("I can't stand loud restaurants.", "preference", id="dislike"),
        pytest.param("I'm allergic to peanuts.", "fact", id="health"),
        pytest.param("I have two daughters.", "fact", id="family"),
        pytest.param("My brother Sam works as a pilot.", "fact", id="somebody else"),
        pytest.param("My wife's a dentist.", "fact", id="somebody else, contracted"),
        pytest.param("My son's called Otis.", "fact", id="somebody's name"),
        pytest.param("My daughter is a 6 year old.", "fact", id="somebody's age"),
        pytest.param("I'm on metformin.", "fact", id="medicine"),
        pytest.param("The doctor put me on ramipril.", "fact", id="medicine of a doctor"),
        pytest.param("My goal is to read 30 books.", "fact", id="goal"),
        pytest.param("I'm hoping to move to Lisbon.", "fact", id="hope"),
        pytest.param("I'd love to visit Peru.", "fact", id="wish"),
        pytest.param("We decided to drop Windows 7.", "event", id="decision"),
        pytest.param("I ran a marathon last Sunday.", "event", id="past"),
        pytest.param("My flight to Nairobi is on 9 July.", "event", id="date"),
        pytest.param("I need to renew my passport by the end of June.", "task", id="to be done"),
        pytest.param("Remind me to water the plants.", "task", id="to be reminded of"),
        pytest.param("I have to pick up the keys tomorrow.", "task", id="to be done soon"),
        pytest.param("Never use emojis in your replies.", "instruction", id="standing instruction"),
    ],
)
def test_a_fact_that_can_have_several_values_has_a_type_and_no_key(
    content: str, memory_type: str
) -> None:
    (item,) = items(content)

    assert (item.memory_type, item.topic) == (memory_type, None)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("Do you like jazz?", id="question"),
        pytest.param("How do I cook rice", id="question without a mark"),
        pytest.param("Thanks, that's perfect!", id="thanks"),
        pytest.param("Write me a function that sorts names.", id="request of the moment"),
        pytest.param("I need a poem about autumn.", id="wish of the moment"),
        pytest.param("If I lived in Rome I would eat gelato every day.", id="supposition"),
        pytest.param("Maybe I'll move to Spain in May.", id="doubt"),
        pytest.param("Suppose my budget is 500 dollars.", id="assumption"),
        pytest.param("I'm not a vegetarian.", id="denial"),
        pytest.param("I like it.", id="nothing without the conversation"),
        pytest.param("My point is that nobody reads those.", id="not a thing of mine"),
        pytest.param("The deadline is tight.", id="no value"),
        pytest.param('He said "I live in Boston".', id="quotation"),
        pytest.param('"It was late. I live in Boston. I left."', id="quotation of sentences"),
        pytest.param("Translate the following: My name is Juan.", id="material after a colon"),
        pytest.param("Tom: I live in Oslo.", id="what another one says behind his name"),
        pytest.param("Proofread the text below\nMy name is Juan.", id="material in the next line"),
        pytest.param("Dear Sir,\nMy name is Juan.", id="letter"),
        pytest.param("Act as a pirate. My name is Jack.", id="part to be played"),
        pytest.param("```\nMy name is Juan.\n```", id="code"),
        pytest.param("> My name is Juan.", id="quoted line"),
        pytest.param("My password is Hunter2.", id="secret"),
        pytest.param(f"My name is Juan {'and so on ' * 40}.", id="sentence too long"),
        pytest.param(f"{'Prose goes on. ' * 200}My name is Juan.", id="far down in a pasted text"),
        pytest.param("Remind me what we decided.", id="what is asked for again"),
        pytest.param("I have to see the code first.", id="what has to be done now"),
        pytest.param("I have to admit it is better today.", id="what nobody has to do"),
        pytest.param("My shift was changed to Monday just for this week.", id="only for a time"),
        pytest.param("I drink tea instead.", id="what points back"),
        pytest.param("I slept eight hours.", id="what once was so"),
        pytest.param("My wife's a bit late.", id="what somebody is at the moment"),
        pytest.param("My car's a mess today.", id="what a thing is at the moment"),
        pytest.param("My landlord is on holiday.", id="where somebody is at the moment"),
        pytest.param("My flat is in a state.", id="in what state a thing is"),
        pytest.param("I'm a big believer in naps.", id="what is no job"),
        pytest.param("I'm on a train.", id="where one is at the moment"),
        "In my dream, I live in Rome.",
        "In the new game, I'm a nurse.",
        "Wohne ich in Leipzig?",
        "Wenn ich in Leipzig wohne, ist alles gut.",
        "Vielleicht arbeite ich bald bei Bosch.",
        "Ich würde gern in Leipzig wohnen.",
        "Er sagt, ich bin Veganer.",
        "Er findet, ich bin Veganer.",
        "Alle denken, ich bin Vegetarier.",
        "Meine Eltern sagten, ich bin allergisch gegen Nüsse.",
        "Die Nachbarn behaupten, ich habe einen Hund.",
        "Du hast letztens geschrieben, ich wohne in Leipzig.",
        "Ich habe geträumt, ich bin verheiratet.",
        "Ich bin im Traum nach Rom gezogen.",
        "Stell dir vor, ich wohne in Tokio.",
        "Nehmen wir an, ich wohne in Rom.",
        "Gesetzt den Fall, ich bin allergisch gegen Latex.",
        "Scherz, ich bin Vegetarier.",
        "Übersetze: Ich wohne in Leipzig.",
        "Schreib mir ein Gedicht über meine Katze.",
        "Ich bin müde.",
        "Ich esse heute kein Eis.",
        "Ich habe eine Frage.",
        "Mein Passwort ist Hunter2.",
        "Meine Frage ist einfach.",
        "My email is full.",
        "My address is confidential.",
    ],
)
def test_passing_statements_and_those_about_others_are_left_out(content: str) -> None:
    assert items(content) == []


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("I study law because my mother did.",
                     "The user studies law because their mother did.", id="mine becomes theirs"),
        pytest.param("I don't eat pork.", "The user doesn't eat pork.", id="verb"),
        pytest.param("I really love opera.", "The user really loves opera.", id="adverb"),
        pytest.param("I grew up in Bergen.", "The user grew up in Bergen.", id="past"),
        pytest.param("I ought to write more often.", "The user ought to write more often.",
                     id="auxiliary"),
        pytest.param("We keep bees.", "The user said: We keep bees.", id="we"),
        pytest.param("I live with my wife and her mother in Bath.",
                     "The user said: I live with my wife and her mother in Bath.",
                     id="another person"),
        pytest.param("I'm studying World War I.", "The user said: I'm studying World War I.",
                     id="a numeral"),
        # without the request that follows from it
        ("I'm allergic to kiwi btw so don't put any in", "The user is allergic to kiwi."),
        ("I'm vegan so please no cheese", "The user is vegan."),
        ("I live in Oslo, so please use kroner.", "The user lives in Oslo."),
        ("I swim on Mondays, so never book anything for then.", "The user swims on Mondays."),
        # apostrophes may be left out
        ("im allergic to penicillin", "The user is allergic to penicillin."),
        ("im now 69 kilos", "The user is now 69 kilos."),
        ("im Garten habe ich drei Hühner", "The user said: Im Garten habe ich drei Hühner."),
        ("i cant stand olives", "The user can't stand olives."),
        ("ive got two cats", "The user has got two cats."),
        ("i dont eat pork", "The user doesn't eat pork."),
        (
            "im Sommer bin ich allergisch gegen Gras",
            "The user said: Im Sommer bin ich allergisch gegen Gras.",
        ),
        # who is named before what he is keeps the name
        ("And Theo, my son, is fifteen.", "The user's son Theo is fifteen."),
        ("Anna, my wife, works at Siemens.", "The user's wife Anna works at Siemens."),
    ],
)  # fmt: skip
def test_a_statement_is_reworded_only_if_that_is_safe(content: str, expected: str) -> None:
    assert contents(content) == [expected]


def test_each_clause_is_a_separate_fact() -> None:
    found = items("Hi, I'm Ana, and I live in Porto, but I work for a bank in Braga.")

    assert [item.topic for item in found] == ["user.name", "user.home", "user.employer"]


@pytest.mark.parametrize(
    ("content", "date"),
    [
        pytest.param("I have a check-up tomorrow.", "tomorrow (2026-05-02)", id="tomorrow"),
        pytest.param("My exam is next Friday.", "next Friday (2026-05-08)", id="next week's day"),
        pytest.param("Last Sunday I ran a marathon.", "last Sunday (2026-04-26)", id="past day"),
        pytest.param("I finished my thesis last week.", "(week of 2026-04-20)", id="past week"),
        pytest.param("My exam is next Sunday.", "(said on 2026-05-01)", id="either of two days"),
        pytest.param("I broke my arm two weeks ago.", "(said on 2026-05-01)", id="not exact"),
    ],
)
def test_relative_times_are_stored_with_their_date(content: str, date: str) -> None:
    (statement,) = contents(content)

    assert date in statement


@pytest.mark.parametrize(
    ("said", "correction", "right"),
    [
        ("The deadline is 14 June.", "Actually, it's 21 June.", "The deadline is 21 June."),
        ("My dentist appointment is on Tuesday.", "No, I meant Wednesday.", "on Wednesday"),
        ("My dentist appointment is on Tuesday.", "Sorry, Thursday, not Tuesday.", "on Thursday"),
        ("My daughter is turning seven in May.", "Eight, I mean.", "turning eight in May"),
        ("My wife's name is Annelise.", "Annelies, not Annelise.", "Annelies."),
        ("My rent is 900 euros.", "No wait, it's 950.", "950 euros"),
        ("My anniversary is June 12th.", "Not June 12th, July 12th.", "July 12th"),
        ("I have a dog called Rex.", "No, Max!", "Max"),
        (
            "My flight is on May 14th.",
            "Oh no, the flight is on May 15th, not 14th.",
            "is on May 15th",
        ),
        ("My appointment is on Monday.", "No, it's on Tuesday, not Monday.", "is on Tuesday"),
        ("Mein Zahnarzttermin ist am Dienstag.", "Nein, ich meinte Donnerstag.", "am Donnerstag"),
        ("Meine Miete beträgt 395 Euro.", "Nein, halt, 405.", "405 Euro"),
        ("Meine Tochter heißt Lena.", "Entschuldigung, Leni, nicht Lena.", "Leni"),
    ],
)
def test_a_correction_belongs_to_what_was_said_just_before(
    said: str, correction: str, right: str
) -> None:
    wrong, corrected = extract(
        Passage(messages=[utterance(said), utterance(correction, id_="2")]),
    )
    (at_once,) = items(f"{said} {correction}")

    assert (corrected.corrects, corrected.topic) == (wrong.content, wrong.topic)
    assert right in corrected.content
    assert at_once.content == corrected.content


@pytest.mark.parametrize(
    "said",
    [
        ("I work at Acme.", "No problem."),
        ("I work at Acme.", "Sorry, Tom is calling."),
        ("I work at Acme.", "Sorry Tom."),
        ("I work at Acme.", "No, thanks."),
        ("I work at Acme.", "No, it's Monday."),
        ("I work at Acme.", "Oh, it's 3 already."),
        ("I work at Acme.", "I meant well."),
        ("I work at Acme.", "Not bad, thanks."),
        ("I work at Acme.", "Actually, it's raining."),
        ("I work at Acme.", "Berta does the cleaning there, not Acme."),
        ("Ich arbeite bei Bosch.", "Ich arbeite freitags nicht bei Bosch."),
        ("My name is Ana.", "Thanks.", "Actually, it's Tom."),  # of something said since
    ],
)
def test_what_only_sounds_like_a_correction_corrects_nothing(said: tuple[str, ...]) -> None:
    messages = [utterance(text, id_=text) for text in said]

    assert [item.content for item in extract(Passage(messages=messages))] == contents(said[0])


def test_the_answer_to_a_question_corrects_nothing() -> None:
    messages = [
        utterance("I work at Acme."),
        utterance("Is that in Bonn?", id_="2", role="assistant"),
        utterance("No, Berlin.", id_="3"),
    ]

    assert [item.corrects for item in extract(Passage(messages=messages))] == [None]


@pytest.mark.parametrize(
    ("content", "topic"),
    [
        ("Ich wohne in Leipzig.", "user.home"),
        ("Wir sind nach Dresden gezogen.", "user.home"),
        ("Meine Adresse ist Am Hang 4.", "user.home"),
        ("Ich heiße Ana.", "user.name"),
        ("Ich bin Krankenpflegerin im Klinikum.", "user.job"),
        ("Seit März arbeite ich bei Bosch.", "user.employer"),
        ("Ab Mai zahle ich 710 Euro Miete.", "user.rent"),
        ("Meine Freundin heißt Eva.", "user.girlfriend"),
        ("Meine neue Chefin heißt Frau Okoye.", "user.boss"),
        ("Ich fahre einen alten Polo.", "user.car"),
        ("Ich bin Veganerin.", "user.diet"),
        ("Mein Hund heißt Rex.", "user.dog"),
        ("Mein Hund heisst Rex.", "user.dog"),
        ("Ich vertrage keine Laktose.", None),
        ("Ich bin allergisch gegen Nüsse.", None),
        ("Gegen Nüsse bin ich allergisch.", None),
        ("Ich habe einen Kater namens Felix.", None),
        ("Ich schulde meinem Vater 300 Euro.", None),
        ("Ich spiele seit drei Jahren Saxophon.", None),
        ("Ich will im Sommer nach Kreta fliegen.", None),
    ],
)
def test_german_is_read_by_its_own_table_with_the_same_keys(
    content: str, topic: str | None
) -> None:
    (item,) = items(content)

    assert (item.content, item.topic) == (f"The user said: {content}", topic)


@pytest.mark.parametrize(
    "lead_in",
    ["Denken Sie bitte daran", "Denkt dran", "Nein danke", "Ich bin umgezogen", "Nur zur Info"],
)
def test_a_german_statement_after_a_comma_is_extracted(lead_in: str) -> None:
    assert contents(f"{lead_in}, ich bin Vegetarier.") == ["The user said: Ich bin Vegetarier."]


def test_facts_of_a_named_speaker_have_that_persons_keys() -> None:
    (mel,) = items("I live in Porto.", by="Mel")
    (jon,) = items("I live in Leeds.", by="Jon")

    assert (mel.content, mel.topic) == ("Mel lives in Porto.", "user.mel.home")
    assert jon.topic == "user.jon.home"


def test_advice_between_people_is_not_an_instruction() -> None:
    assert items("Never give up on your garden.", by="Mel") == []


@pytest.mark.parametrize("role", ["assistant", "tool", "system"])
def test_only_user_messages_are_extracted(role: str) -> None:
    assert extract(Passage(messages=[utterance("My name is Ana.", role=role)])) == []


def test_nothing_is_extracted_from_the_context() -> None:
    passage = Passage(
        messages=[utterance("Thanks!", id_="2")], context=[utterance("My name is Ana.")]
    )

    assert extract(passage) == []


def test_a_repeated_statement_is_one_item() -> None:
    passage = Passage(
        messages=[utterance("I live in Porto."), utterance("I live in Porto.", id_="2")]
    )

    assert len(extract(passage)) == 1


STATUS = "Good morning. The harvest festival moves to the old mill. I paid the brass band."
REPLY = "So the harvest festival is at the old mill, and the brass band is paid."


def test_statements_that_an_answer_repeats_are_extracted_together() -> None:
    passage = Passage(messages=[utterance(STATUS), utterance(REPLY, id_="2", role="assistant")])

    (item,) = extract(passage)

    assert "harvest festival moves to the old mill" in item.content
    assert "brass band" in item.content
    assert item.durability == "ephemeral"
    assert item.confidence < items("I live in Porto.")[0].confidence


def test_lines_of_a_pasted_text_are_not_extracted_even_if_an_answer_repeats_them() -> None:
    lines = "I show my lines.\n予算策定とコスト管理\n新入社員の育成と指導"
    passage = Passage(messages=[utterance(lines), utterance(lines, id_="2", role="assistant")])

    assert extract(passage) == []


def test_statements_of_no_known_form_are_not_extracted_without_an_answer() -> None:
    assert items(STATUS) == []


def test_every_item_names_its_sources_and_the_questions_it_answers() -> None:
    (item,) = items("I live in Porto.")

    assert item.sources == ("1",)
    assert item.queries == ("What is the user's home?",)
    assert item.keywords == ("live", "porto")
    assert item.summary == "The user lives in Porto"


async def test_the_extractor_is_deterministic() -> None:
    passage = Passage(messages=[utterance("I live in Porto. My dog is called Rex.")])

    assert await RulesExtractor().extract(passage) == extract(passage) == extract(passage)


@pytest.mark.parametrize(
    ("before", "later", "topic"),
    [
        ("my sister lives in Oslo", "My sister has just moved to Bergen.", "user.sister.home"),
        ("My sister Jo lives in Oslo.", "My sister Jo moved to Ulm.", "user.sister_jo.home"),
        ("My mum lives in Leeds.", "My mother moved to a care home.", "user.mother.home"),
        ("My uncle Bob lives near York.", "My uncle Bob lives in Ely.", "user.uncle_bob.home"),
        ("Meine Schwester wohnt in Ulm.", "Meine Schwester ist nach Bonn gezogen.",
         "user.sister.home"),
        ("Meine Mama lebt in Kiel.", "Meine Mutter wohnt jetzt in Bremen.", "user.mother.home"),
        ("My boss is called Denise.", "I report to Anil now.", "user.boss"),
    ],
)  # fmt: skip
def test_where_a_relative_lives_and_whom_one_reports_to_have_keys(
    before: str, later: str, topic: str
) -> None:
    assert [item.topic for text in (before, later) for item in items(text)] == [topic, topic]


@pytest.mark.parametrize(
    ("content", "memory_type"),
    [
        ("From now on squash with Bernd is on Tuesdays.", "fact"),
        ("From now on the standup is at 9.", "fact"),
        ("From now on I work from home on Fridays.", "fact"),
        ("From now on make sure the report is at most a page.", "instruction"),
        ("From now on tell me when dinner is at seven.", "instruction"),
        ("From now on your name is Max.", "instruction"),
    ],
)
def test_what_is_so_from_now_on_is_no_instruction(content: str, memory_type: str) -> None:
    assert [item.memory_type for item in items(content)] == [memory_type]


@pytest.mark.parametrize(
    "content",
    [
        "I worked at Siemens last year.",
        "In 2012 we worked at Siemens.",
        "I've worked at Siemens before.",
        "I also work at Siemens on Saturdays.",
        "I moved to Rome when I was six.",
        "In 2010 I moved to Rome.",
        "I live in Rome during the winter.",
        "I also drive a Fiat.",
        "I drive a Fiat today.",
        "I drive a Fiat at work.",
        "I sometimes drive a Fiat.",
        "Sometimes, I drive a Fiat.",
        "On Saturdays, I work at Siemens.",
        "During the winter, I live in Rome.",
        "I've been a vegetarian before.",
        "Ich arbeite auch bei Siemens.",
        "Im Winter wohnen wir in Spanien.",
        "Diese Woche wohne ich bei Tom in Essen.",
        "Heute wohne ich bei Tom.",
        "Damals sind wir nach Rom gezogen.",
        "Ich fahre auch einen Fiat.",
        "Ich bin auch Yogalehrer.",
    ],
)
def test_what_is_one_of_several_or_was_so_once_replaces_nothing(content: str) -> None:
    assert [item.topic for item in items(content)] == [None]


@pytest.mark.parametrize(
    ("content", "topic"),
    [
        ("I live in a small flat in Leeds.", "user.home"),
        ("i live in oslo", "user.home"),
        ("We live in Paris, France.", "user.home"),
        ("I live in new york.", "user.home"),
        ("I live in the Netherlands.", "user.home"),
        ("We live at 12 Elm Street.", "user.home"),
        ("I work at the library.", "user.employer"),
        ("i work at initech", "user.employer"),
        ("I currently work for Amazon.", "user.employer"),
        ("I've worked for Amazon for two weeks.", "user.employer"),
        ("I work for Amazon as of today.", "user.employer"),
        ("I moved to Leeds today.", "user.home"),
        ("I also just moved to Leeds.", "user.home"),
        ("Ich wohne am Bodensee.", "user.home"),
        ("Diese Woche bin ich nach Linz gezogen.", "user.home"),
        ("Heute bin ich nach Linz gezogen.", "user.home"),
        ("Ich bin auch nach Linz umgezogen.", "user.home"),
        ("Meine Schicht ist im Sommer.", "user.schicht"),
        ("Ich arbeite im Klinikum Kassel.", "user.employer"),
        ("Ich arbeite bei der Stadt.", "user.employer"),
    ],
)
def test_a_place_is_a_home_and_whom_one_works_for_an_employer(content: str, topic: str) -> None:
    assert [item.topic for item in items(content)] == [topic]
