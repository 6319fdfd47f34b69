"""Windows of time named in questions; most words that look like times name none."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from local2.language.time import LONGEST_QUESTION, find_window
from local2.language.wording import dated

NOW = datetime(2024, 5, 15, 10, 30, tzinfo=UTC)  # a Wednesday

EXPRESSIONS = [
    # Days
    ("What did I eat today?", "2024-05-15", "2024-05-16"),
    ("What have I eaten today?", "2024-05-15", "2024-05-16"),
    ("What didn\u2019t I eat today?", "2024-05-15", "2024-05-16"),
    ("Where was I yesterday?", "2024-05-14", "2024-05-15"),
    ("And the day before yesterday?", "2024-05-13", "2024-05-14"),
    ("What did I say this morning?", "2024-05-15", "2024-05-16"),
    ("Remind me of this morning", "2024-05-15", "2024-05-16"),
    ("Who called on Friday? Did Ann?", "2024-05-10", "2024-05-11"),
    ("Who came last Friday?", "2024-05-10", "2024-05-11"),
    ("Who came last Wednesday?", "2024-05-08", "2024-05-09"),
    ("WHO CAME LAST TUESDAY?", "2024-05-14", "2024-05-15"),
    ("two days ago", "2024-05-13", "2024-05-14"),
    ("10 days ago", "2024-05-03", "2024-05-08"),
    # Weeks, months, years
    ("What happened last week?", "2024-05-06", "2024-05-13"),
    ("What happened last weekend?", "2024-05-11", "2024-05-13"),
    ("What did I plan this week?", "2024-05-13", "2024-05-20"),
    ("What was last month's topic?", "2024-04-01", "2024-05-01"),
    ("Where did we travel last year?", "2023-01-01", "2024-01-01"),
    ("What did I decide earlier this year?", "2024-01-01", "2025-01-01"),
    ("a week ago", "2024-05-05", "2024-05-14"),
    ("two weeks ago", "2024-04-27", "2024-05-08"),
    ("a couple of weeks ago", "2024-04-18", "2024-05-10"),
    ("a few days ago", "2024-05-09", "2024-05-15"),
    ("five months ago", "2023-11-24", "2024-01-08"),
    ("three years ago", "2020-12-25", "2022-01-08"),
    # Seasons
    ("the trip last summer", "2023-06-01", "2023-09-01"),
    ("the trip last winter", "2023-12-01", "2024-03-01"),
    ("What did we read this winter?", "2023-12-01", "2024-03-01"),
    ("What did I learn this April?", "2024-04-01", "2024-05-01"),
    ("What did we plant this spring?", "2024-03-01", "2024-06-01"),
    ("in summer 2023", "2023-06-01", "2023-09-01"),
    ("in the fall of 2022", "2022-09-01", "2022-12-01"),
    # Days of a month
    ("on 8 May 2023", "2023-05-08", "2023-05-09"),
    ("on the 8th of May, 2023", "2023-05-08", "2023-05-09"),
    ("on May 8th, 2023", "2023-05-08", "2023-05-09"),
    ("on May 8,2023", "2023-05-08", "2023-05-09"),
    ("on 2023-05-08", "2023-05-08", "2023-05-09"),
    ("at 2023-05-08T09:30:00Z?", "2023-05-08", "2023-05-09"),
    ("the notes of March-15-2024", "2024-03-15", "2024-03-16"),
    ("Dec. 25, 2023", "2023-12-25", "2023-12-26"),
    ("on 12/25/2023", "2023-12-25", "2023-12-26"),
    ("on 25/12/2023", "2023-12-25", "2023-12-26"),
    ("What happened on May 8?", "2024-05-08", "2024-05-09"),
    ("What happened May 15?", "2024-05-15", "2024-05-16"),
    ("What happened on May 16?", "2023-05-16", "2023-05-17"),
    ("the party on 3 June", "2023-06-03", "2023-06-04"),
    ("on June 3 last year", "2023-06-03", "2023-06-04"),
    ("who was born on February 29?", "2024-02-29", "2024-03-01"),
    # Months and years
    ("in May 2023", "2023-05-01", "2023-06-01"),
    ("in early May of 2023", "2023-05-01", "2023-06-01"),
    ("at the end of December 2023", "2023-12-01", "2024-01-01"),
    ("How did it feel in May?", "2024-05-01", "2024-06-01"),
    ("what did i do in may", "2024-05-01", "2024-06-01"),
    ("what did i do in june", "2023-06-01", "2023-07-01"),
    ("the second week of November", "2023-11-01", "2023-12-01"),
    ("What did I learn last May?", "2023-05-01", "2023-06-01"),
    ("What did I learn last April?", "2024-04-01", "2024-05-01"),
    ("the beach in 2022", "2022-01-01", "2023-01-01"),
    ("in 2022 was it hot?", "2022-01-01", "2023-01-01"),
    ("in 2022 Ann moved", "2022-01-01", "2023-01-01"),
    ("late 2022", "2022-01-01", "2023-01-01"),
    # From one to another
    ("between March and May 2024", "2024-03-01", "2024-06-01"),
    ("between November and February 2024", "2023-11-01", "2024-03-01"),
    ("between August 11 and August 15 2023", "2023-08-11", "2023-08-16"),
    ("between August 11 and 15, 2023", "2023-08-11", "2023-08-16"),
    ("between 11 and 15 August 2023", "2023-08-11", "2023-08-16"),
    ("from the 11th to the 15th of August, 2023", "2023-08-11", "2023-08-16"),
    ("on 3-5 May 2023", "2023-05-03", "2023-05-06"),
    ("on May 3-5, 2023", "2023-05-03", "2023-05-06"),
    ("from 3 May 2023 to 2 January 2024", "2023-05-03", "2024-01-03"),
    ("between March and April", "2024-03-01", "2024-05-01"),
    ("between 2021 and 2023", "2021-01-01", "2024-01-01"),
    # With an open end
    ("before June 2023", None, "2023-06-01"),
    ("prior to 2023", None, "2023-01-01"),
    ("How many games has Nate won by July 10, 2022?", None, "2022-07-11"),
    ("until June 2023", None, "2023-07-01"),
    ("What did I read before April?", None, "2024-04-01"),
    ("after June 2023", "2023-07-01", None),
    ("since June 2023", "2023-06-01", None),
    ("since last Friday", "2024-05-10", None),
    ("since March", "2024-03-01", None),
    ("more than two weeks ago", None, "2024-05-08"),
    ("over a  year ago", None, "2024-01-08"),
    ("What did I say less than two weeks ago?", "2024-04-27", None),
    # Near a date
    ("the week before August 3, 2023", "2023-07-27", "2023-08-04"),
    ("two weeks before August 11, 2023", "2023-07-28", "2023-08-12"),
    ("the Sunday before October 25, 2022", "2022-10-18", "2022-10-26"),
    ("the day after 2023-05-08", "2023-05-08", "2023-05-10"),
    # The more exact of two, and one repeated
    ("last Friday on 23 January, 2022", "2022-01-23", "2022-01-24"),
    ("last week,as mentioned on November 6, 2023", "2023-11-06", "2023-11-07"),
    ("yesterday, that is on 14 May 2024, or May 14, 2024", "2024-05-14", "2024-05-15"),
]

NO_EXPRESSIONS = [
    # Months that are verbs or people
    "May I ask something?",
    "It may 2 or 3 times be so",
    "May 8 people come?",
    "in step 8 may I stop?",
    "What may be on the list?",
    "Can this may fail?",
    "Where does the band march?",
    "Where was the last march held?",
    "March 3 times around it",
    "What did April say to June?",
    "Is the present by June?",
    "Did they meet by June?",
    "Where was the last March held?",
    "What about May?",
    "How does Augustus decorate? Did Marian?",
    # Numbers
    "Is 2023 a prime?",
    "What did I do with 2023?",
    "Write it in 2000 words",
    "It took in 2000 users",
    "a box in 2000 px",
    "error 2023-99-99",
    "version 3.2, or 2023.1.4",
    "room 12-05",
    "CVE-2023-05-08",
    "/archive/2023-05-08/a",
    "file_2023-05-08",
    "port 2024?",
    "3/4 of it",
    "in 1984",
    "in 2023-24",
    "on 30 February 2023",
    # Words for times that may not be over, or that name no definite time
    "What will I do in June?",
    "What is next week?",
    "What should I eat today?",
    "What do I have on Friday?",
    "Who swims on Fridays? Did Ann?",
    "What are my plans for the summer?",
    "When did he last fall?",
    "in winter 2023",
    "What must be done before June?",
    "How long ago was it?",
    "a second thought, in the sun, in the fall",
    "the last week of the project",
    "the last question, and the last two answers",
    "What was the last day of school?",
    "day after day",
    'Who wrote "Yesterday"?',
    "Can you list the order in which I said it?",
    "How many days passed after April 5, 2024?",
    "How many months was it since May 2023?",
    "in which month",
    # From the future
    "on 16 May 2024",
    "in 2025",
    "before June 2025",
    "What shall we plant this autumn?",
    "Where do we go this June?",
    "What will we do between March and April?",
    "after June 2025",
    "after today, what did I say?",
    "between June and July 2024",
    # Ambiguous
    "on 05/08/2023",
    "on May 8 and 3",
    "on 8 to 3 May",
    "from 3 May 2023 to 31 June 2023",
    "on May 8, 2023 or on May 9, 2023",
    "yesterday or last week",
    "between May 8, 2023 and May 3, 2023",
    "from 2024-02-31 to 2024-03-05",
    # Nothing
    "",
    "What is the capital of Australia?",
]


def day(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(f"{text}T00:00:00+00:00")


@pytest.mark.parametrize(("text", "since", "until"), EXPRESSIONS)
def test_an_expression_names_its_window(text: str, since: str | None, until: str | None) -> None:
    window = find_window(text, NOW)
    assert window is not None
    assert (window.since, window.until) == (day(since), day(until))


@pytest.mark.parametrize("text", NO_EXPRESSIONS)
def test_a_text_with_no_or_several_windows_names_none(text: str) -> None:
    assert find_window(text, NOW) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("What did Ann paint in May 2023 for me?", "in May 2023"),
        ("Where was I two weeks before August 11, 2023?", "two weeks before August 11, 2023"),
        ("And between March and May 2024, then?", "between March and May 2024"),
        ("Who came yesterday?", "yesterday"),
    ],
)
def test_the_words_that_name_the_window_are_returned(text: str, words: str) -> None:
    window = find_window(text, NOW)
    assert window is not None
    assert window.text == words


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("an hour ago", 2),
        ("10 minutes ago", 1 / 3),
        ("48 hours ago", 96),
        ("the last 24 hours", 24),
        ("this past week", 168),
        ("What did I say in the last week?", 168),
        ("within the last month", 24 * 31),
    ],
)
def test_a_window_counted_back_from_now_ends_now(text: str, hours: float) -> None:
    window = find_window(text, NOW)
    assert window is not None
    assert (window.since, window.until) == (NOW - timedelta(hours=hours), NOW)


def test_last_night_lasts_until_the_morning() -> None:
    window = find_window("What did I dream last night?", NOW)
    assert window is not None
    assert (window.since, window.until) == (day("2024-05-14"), NOW.replace(hour=6, minute=0))


def test_days_begin_in_the_time_zone_of_now() -> None:
    tokyo = timezone(timedelta(hours=9))
    window = find_window("yesterday", datetime(2024, 5, 15, 1, 0, tzinfo=tokyo))
    assert window is not None
    assert window.since == datetime(2024, 5, 13, 15, 0, tzinfo=UTC)
    assert window.until == datetime(2024, 5, 14, 15, 0, tzinfo=UTC)
    assert window.since.tzinfo is UTC


@pytest.mark.parametrize(
    ("day", "hours"),
    [(datetime(2026, 3, 30), 23), (datetime(2026, 10, 26), 25)],  # noqa: DTZ001
)
def test_the_day_on_which_the_clocks_are_changed_has_23_or_25_hours(
    day: datetime, hours: int
) -> None:
    now = day.replace(hour=9, tzinfo=ZoneInfo("Europe/Zurich"))
    window = find_window("yesterday", now)
    assert window is not None
    assert window.until == now.replace(hour=0).astimezone(UTC)
    assert window.since == window.until - timedelta(hours=hours)


@pytest.mark.parametrize(
    ("text", "today", "since", "until"),
    [
        pytest.param("last weekend", "2024-05-12", "2024-05-04", "2024-05-06", id="on a Sunday"),
        pytest.param("last month", "2024-03-31", "2024-02-01", "2024-03-01", id="on the 31st"),
    ],
)
def test_the_last_one_is_over(text: str, today: str, since: str, until: str) -> None:
    window = find_window(text, datetime.fromisoformat(f"{today}T09:00:00+00:00"))
    assert window is not None
    assert (window.since, window.until) == (day(since), day(until))


def test_pasted_text_is_not_searched_for_times() -> None:
    text = "What happened yesterday? "
    assert find_window(text.ljust(LONGEST_QUESTION), NOW) is not None
    assert find_window(text.ljust(LONGEST_QUESTION + 1), NOW) is None
    assert find_window("yesterday " * 9, NOW) is None


ZONES = st.integers(-24 * 60 + 1, 24 * 60 - 1).map(
    lambda minutes: timezone(timedelta(minutes=minutes))
)
FIRST, LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)  # noqa: DTZ001 - of any zone
NEAR_THE_ENDS = st.datetimes(FIRST, FIRST + timedelta(days=800)) | st.datetimes(
    LAST - timedelta(days=800), LAST
)
ASKED = [text for text, _, _ in EXPRESSIONS]


@given(st.sampled_from(ASKED), st.datetimes() | NEAR_THE_ENDS, ZONES)
@example("What did I eat yesterday?", FIRST, UTC)
@example("What did I eat today?", LAST, UTC)
@example("What did I eat today?", FIRST, timezone(timedelta(hours=14)))
@example("What did I eat today?", LAST, timezone(timedelta(hours=-12)))
def test_a_window_ends_where_the_calendar_ends(text: str, now: datetime, zone: timezone) -> None:
    window = find_window(text, now.replace(tzinfo=zone))

    bounds = (window.since, window.until) if window else ()
    assert all(bound is None or bound.tzinfo is UTC for bound in bounds)


@given(
    st.sampled_from([*ASKED, "See you tomorrow.", "It ends by Friday.", "Until next Monday."]),
    NEAR_THE_ENDS,
    ZONES,
)
def test_a_statement_is_dated_at_any_time(text: str, at: datetime, zone: timezone) -> None:
    assert dated(text, at.replace(tzinfo=zone)).startswith(text[:4])


def test_every_expression_is_read_at_the_ends_of_the_calendar() -> None:
    for days in range(0, 800, 23):  # meets every day of a week
        for now in (FIRST + timedelta(days=days), LAST - timedelta(days=days)):
            for text in ASKED:
                find_window(text, now.replace(tzinfo=UTC))
