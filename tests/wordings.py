"""Statements in several wordings, and ones that only sound alike. The second half was put aside."""

from typing import NamedTuple

WORDINGS = (
    (
        "We meet on Thursdays at nine.",
        "Our meeting is on Thursdays at 9.",
        "On Thursdays at nine we meet.",
    ),
    ("I'm afraid of spiders.", "I am scared of spiders.", "Spiders frighten me."),
    (
        "The user wants answers in Spanish.",
        "The user would like answers in Spanish.",
        "The user wants to be answered in Spanish.",
    ),
    ("I drive a red Skoda.", "My car is a red Skoda.", "I have a red Skoda."),
    ("I live in Utrecht.", "My home is in Utrecht.", "I'm based in Utrecht."),
    ("I use Emacs for writing.", "For writing I use Emacs.", "I do my writing in Emacs."),
    (
        "Our rent is 950 euros a month.",
        "We pay 950 euros a month in rent.",
        "The monthly rent we pay is 950 euros.",
    ),
    (
        "The office closes at 18:00.",
        "The office is closed from 18:00.",
        "Our office closes at 6 pm.",
    ),
    ("I'm married to Olga.", "Olga is my wife.", "My wife is Olga."),
    (
        "I need a quiet room to work.",
        "I can only work in a quiet room.",
        "To work, I need a room that is quiet.",
    ),
    (
        "I work for a bakery in Lviv.",
        "I work at a bakery in Lviv.",
        "I am employed by a bakery in Lviv.",
    ),
    (
        "I sleep badly when it is hot.",
        "When it's hot, I sleep badly.",
        "I don't sleep well in the heat.",
    ),
    ("I was born in Tampere.", "My birthplace is Tampere.", "Tampere is where I was born."),
    ("I get migraines when I fly.", "Flying gives me migraines.", "When I fly I get a migraine."),
    ("I own a small sailing boat.", "I have a small sailboat.", "I've got a small sailing boat."),
    ("I hate cilantro.", "I can't stand cilantro.", "I really dislike cilantro."),
    ("I take the train to work.", "I go to work by train.", "I commute by train."),
    (
        "I'm allergic to penicillin.",
        "I have a penicillin allergy.",
        "Penicillin gives me an allergic reaction.",
    ),
    ("I work as a midwife.", "I am a midwife.", "My job is being a midwife."),
    (
        "I have been a volunteer firefighter since 2015.",
        "Since 2015 I have been a volunteer firefighter.",
        "I've volunteered as a firefighter since 2015.",
    ),
)
DIFFERENT = (
    ("I like swimming.", "I like to watch swimming."),
    ("I live in Paris, Texas.", "I live in Paris, France."),
    ("My son is six.", "My son is sixteen."),
    ("I enjoy cooking.", "I enjoy not cooking."),
    ("I am one of four children.", "I have four children."),
    ("I always lock the shed.", "I never lock the shed."),
    ("I painted the door of the shed.", "I painted the shed."),
    ("I have a peanut allergy.", "My son has a peanut allergy."),
    ("I love horror films.", "I hate horror films."),
    ("I call my mother every day.", "My mother calls me every day."),
    ("I work in the north of the city.", "I work in the south of the city."),
    ("My daughter is called Ronja.", "My dog is called Ronja."),
    ("I gave my sister my brother's bike.", "I gave my brother my sister's bike."),
    ("The stand-up is at 9:30.", "The stand-up is at 9:45."),
    ("My daughter is called Mira.", "My daughter is called Maja."),
    ("I might move to Porto.", "I will move to Porto."),
    ("I eat before training.", "I eat after training."),
    ("The key is under the mat.", "The key is on the mat."),
    ("I want a dog.", "I have a dog."),
    ("I live in Ghent.", "My sister lives in Ghent."),
    ("My budget is 1,500 euros.", "My budget is 1,500 dollars."),
    ("I like Thai food.", "I like Indian food."),
    ("My appointment is on 3 May.", "My appointment is on 5 March."),
    ("I like mild curry.", "I do not like mild curry."),
    ("I have two cats.", "I have three cats."),
    ("I run a marathon every year.", "I run a marathon every other year."),
    ("I like dark roast coffee.", "I like light roast coffee."),
    ("I'm allergic to walnuts.", "I'm allergic to peanuts."),
    ("I'd like to learn Thai.", "I learned Thai."),
    ("Ada is older than Ben.", "Ben is older than Ada."),
)
WORDINGS_ASIDE = (
    (
        "I enjoy baking sourdough bread.",
        "I love to bake sourdough bread.",
        "Baking sourdough bread is something I like.",
    ),
    (
        "I like dark roast coffee.",
        "I really enjoy coffee that is dark roasted.",
        "Dark roast coffee is my favourite.",
    ),
    (
        "My brother lives in Quito.",
        "My brother's home is in Quito.",
        "My brother is living in Quito.",
    ),
    (
        "The user is left-handed.",
        "The user is a left-hander.",
        "The user writes with the left hand.",
    ),
    ("I speak fluent Danish.", "I'm fluent in Danish.", "My Danish is fluent."),
    (
        "My doctor is Dr. Adeyemi.",
        "Dr. Adeyemi is my doctor.",
        "The name of my doctor is Dr. Adeyemi.",
    ),
    ("Please call me Fred.", "I want to be called Fred.", "I'd like you to call me Fred."),
    ("I don't eat pork.", "I never eat pork.", "Pork is something I do not eat."),
    ("I'm learning Portuguese.", "I am studying Portuguese.", "I have been learning Portuguese."),
    ("My daughter is called Mira.", "My daughter's name is Mira.", "I have a daughter named Mira."),
    (
        "The user plays the cello.",
        "The user is a cellist.",
        "The cello is the instrument that the user plays.",
    ),
    ("We have two cats.", "We own two cats.", "There are two cats in our house."),
    ("I collect old maps.", "Collecting old maps is my hobby.", "I'm a collector of old maps."),
    (
        "I'm studying marine biology.",
        "I study marine biology.",
        "I am a student of marine biology.",
    ),
    (
        "I dislike long meetings.",
        "I don't like long meetings.",
        "Long meetings are something I dislike.",
    ),
    (
        "My favourite colour is teal.",
        "Teal is my favorite color.",
        "The colour I like best is teal.",
    ),
    (
        "The user prefers tea without sugar.",
        "The user likes their tea without sugar.",
        "The user takes no sugar in tea.",
    ),
    ("I'm vegan.", "I am a vegan.", "I follow a vegan diet."),
    ("My boss is Henrike.", "Henrike is my boss.", "I report to Henrike."),
    (
        "I go running every Tuesday morning.",
        "Every Tuesday morning I go for a run.",
        "I run on Tuesday mornings.",
    ),
)
DIFFERENT_ASIDE = (
    ("My wife is a lawyer.", "My wife is my lawyer."),
    ("I trained as a baker.", "I train bakers."),
    ("The meeting is on Tuesday.", "The meeting is on Thursday."),
    ("The user likes short answers.", "The user likes long answers."),
    ("I'm allergic to cats.", "I'm not allergic to cats."),
    ("I am an employer.", "I am an employee."),
    ("I need glasses to read.", "I need glasses to drive."),
    ("I like espresso in the morning.", "I like espresso."),
    ("Only my brother knows the code.", "My brother knows only the code."),
    ("I like my boss.", "My boss likes me."),
    ("I earn more than Tom.", "I earn less than Tom."),
    ("I work from home on Mondays.", "I work from home except on Mondays."),
    ("I have a horse.", "I have horses."),
    ("I play the violin.", "I played the violin."),
    ("I live in Leiden.", "I lived in Leiden."),
    ("I prefer tea to coffee.", "I prefer coffee to tea."),
    ("I owe Ben 50 euros.", "Ben owes me 50 euros."),
    ("I cook for my mother.", "I cook with my mother."),
    ("I work as a nurse.", "I work with a nurse."),
    ("I used to smoke.", "I smoke."),
    ("We deploy on Fridays.", "We never deploy on Fridays."),
    ("I take 20 mg in the morning.", "I take 20 mg in the evening."),
    ("I'm careful with money.", "I'm careless with money."),
    ("My shift starts at eight.", "My shift ends at eight."),
    ("My favourite colour is green.", "My favourite colour is grey."),
    ("I speak Spanish.", "I teach Spanish."),
    ("My flight is from Oslo to Rome.", "My flight is from Rome to Oslo."),
    ("I bought a boat.", "I sold a boat."),
    ("I drink tea with milk.", "I drink tea without milk."),
    ("I live with Ada.", "I live near Ada."),
)


class Half(NamedTuple):
    """Texts that say the same, pairs that do not, and the least share of the first to be found."""

    wordings: tuple[tuple[str, str, str], ...]
    different: tuple[tuple[str, str], ...]
    least: float

    @property
    def group_of(self) -> dict[str, int]:
        """The number of each text's group."""
        groups = [*self.wordings, *self.different]
        return {text: number for number, group in enumerate(groups) for text in group}


HALVES = {
    "built with": Half(WORDINGS, DIFFERENT, 0.35),
    "put aside": Half(WORDINGS_ASIDE, DIFFERENT_ASIDE, 0.5),
}
