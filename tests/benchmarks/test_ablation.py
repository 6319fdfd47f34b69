"""The benchmark `ablate` can leave out whatever the ranking adds."""

from local2.memory.recall.ranking import STAGES, Shares
from suite.ablate import MODULES, SIGNALS


def test_each_share_of_a_score_is_a_signal_that_can_be_left_out() -> None:
    signals = {name.replace(" ", "_") for name in SIGNALS}
    of_ratings = {"feedback"}  # which no corpus has

    assert {*Shares.__struct_fields__} - of_ratings <= signals


def test_what_switches_a_signal_off_is_part_of_the_ranking() -> None:
    numbers = {name for module in MODULES for name in vars(module)}
    stages = {None, *(stage.__name__ for stage in STAGES)}

    missing = [
        name
        for name, signal in SIGNALS.items()
        if not (signal.numbers.keys() <= numbers and signal.stage in stages)
    ]
    assert missing == []
