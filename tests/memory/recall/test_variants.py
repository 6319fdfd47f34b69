"""Variants of a statement: another value of the same fact, and texts that only look like one."""

import pytest

from local2.language.statements import differ_in_value, sentences_of


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("My rent is 900 euros.", "By the way, my rent is 950 euros now."),
        ("My flight is on 3 May at 9:15.", "My flight was moved to 4 May at 7:40."),
        ("I live in Turku.", "I've moved to Malmo last month."),
        ("I live in Turku.", "I moved from Turku to Malmo."),
        ("I live in Turku.", "We have moved from Turku to Malmo."),
        ("My sister lives in Turku.", "My sister has just moved to Malmo."),
        ("My sister Jo lives in Turku.", "My sister Jo moved from Turku to Malmo."),
        ("The code of the gate is falk42.", "The code of the gate is now berg77."),
        ("I wake up at 6.", "I wake up at 7 these days."),
        ("The budget is 40,000.", "The budget was cut to 32,000."),
        ("My rent is 900 euros.", "Since January my rent is 950 euros."),
        ("The ferry leaves on June 5.", "As of next week the ferry leaves on June 7."),
        ("The ferry leaves on June 5.", "The ferry leaves on June 7."),
        ("Ada Falk is married to Bo Lind.", "Ada Falk is married to Jan Berg."),
        ("Kim Berg plays the position of striker.", "Kim Berg plays the position of keeper."),
        ("My favourite colour is blue.", "My favourite colour is green."),
        ("The bill goes to pay@falk.example.", "The bill goes to cash@falk.example."),
        ("I drink coffee.", "I no longer drink coffee."),
        ("Never paint on Sundays.", "New rule: always paint on Sundays."),
        ("I live in Turku.", "Correction: the user lives in Malmo."),
        ("The user works at Nokia.", "I work at Volvo."),
        ("The review is at 9:30.", "review's at 10 starting now"),
        ("Our retry limit is 5.", "The retry limit is back to 3."),
        ("I live in Turku.", "We finally moved to Malmo."),
        ("My cat is called Minka.", "My cat is called Pepper."),
        ("My cat is called Minka.", "By the way, my cat is now called Pepper."),
        ("The user's cat is named Minka.", "The user's cat is named Pepper."),
        ("My cat's name is Minka.", "My cat is called Pepper."),
        ("Ada's boat is named Luna.", "Ada's boat is called Stella."),
        ("I'm called Sam.", "My name is Alex."),
        ("My dentist is Dr. Ines Falk.", "Update: the user's dentist is Dr. Bo Lind."),
        ("I live in Turku.", "As I said, I live in Malmo."),
        ("I live in Turku.", "I told you: I live in Malmo."),
    ],
)
def test_another_value_and_a_denial_are_variants(older: str, newer: str) -> None:
    assert differ_in_value(older, newer)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I like tea.", "I like coffee."),
        ("I have a dog named Rex.", "I have a cat named Tom."),
        ("I have a dog called Rex.", "I have a dog called Max."),
        ("One of my dogs is called Rex.", "One of my dogs is called Max."),
        ("My dog is called Rex.", "My cat is called Max."),
        ("My dog is called Rex.", "My other dog is called Max."),
        ("My dog is called Rex.", "My dog is a Beagle."),
        ("My dog is called Rex.", "My dog is Swedish."),
        ("The ship is named after Ada.", "The ship is named after Kim."),
        ("The meeting is called off on Monday.", "The meeting is called off on Tuesday."),
        ("I like jazz.", "I like rock."),
        ("I visited Paris.", "I visited Rome."),
        ("I am learning Spanish.", "I am learning French."),
        ("I am allergic to Brie.", "I am allergic to Gouda."),
        ("My day was great.", "My day was awful."),
        ("Ada lives in Bergen.", "Bo lives in Bergen."),
        ("My sister lives in Turku.", "My sister Ann moved to Malmo."),
        ("My sister lives in Turku.", "My brother moved to Malmo."),
        ("Ada lives in Bergen.", "The sister of Ada lives in Oslo."),
        ("Ada lives in Bergen.", "Ada lives in Bergen with her husband Bo."),
        ("The capital of Italy is Rome.", "The capital of Spain is Madrid."),
        ("Is my rent 900 euros?", "Is my rent 950 euros?"),
        ("My rent is 900 euros.", "My rent is 900 euros."),
        ("Ada Falk is married to Bo Lind.", "Ada Falk is employed by Jan Berg."),
        ("It was special, I won't forget it.", "It was special."),
        ("The shop's on Mill Road.", "Our shop's sign is on loan."),
        ("My friend is from Oslo.", "Another friend is from Rome."),
        ("I live in Turku.", "My friend says: I live in Malmo."),
        ("I live in Turku.", "According to Bo, I live in Malmo."),
        ("I live in Turku.", "If I get the flat, I live in Malmo."),
        ("I live in Turku.", "In my dream, I live in Malmo."),
        ("I live in Turku.", "Translate this: I live in Malmo."),
        ("I live in Turku.", "> I live in Malmo.\nWhat does she want?"),
        ("I live in Turku.", "```\nI live in Malmo.\n```"),
        ("I live in Turku.", "The book begins: “I am Bo. I live in Malmo.”"),
        ("I work at Nokia.", 'She wrote: "I live in Malmo. I work at Volvo."'),
    ],
)
def test_lists_other_things_questions_and_details_are_not_variants(older: str, newer: str) -> None:
    assert not differ_in_value(older, newer)


def test_an_assistants_statement_to_the_user_is_about_the_user() -> None:
    (own,) = sentences_of("My gate code is 4471.")
    (told,) = sentences_of("Your gate code is 4471.", to_user=True)
    assert (told.opening, told.statement) == (own.opening, own.statement)
    (other,) = sentences_of("Your gate code is 4471.")
    assert other.opening != own.opening
