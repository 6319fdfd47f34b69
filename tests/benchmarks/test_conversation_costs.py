"""A short run of the benchmark `conversation.py` has all figures, and its prompts fit."""

from suite.conversation import measure


async def test_the_benchmark_measures_every_length_and_prompts_fit_the_context() -> None:
    figures = {figure.key: figure for figure in await measure(lengths=(10, 20, 40), turns=100)}

    assert {
        "add_us_40",
        "get_us_10",
        "add_growth",
        "get_growth",
        "over_growth",
        "compact_growth",
    } <= set(figures)
    assert all(value > 0 for figure in figures.values() for value in figure.blocks)
    assert 0.4 < figures["fullest_prompt"].value <= 1
