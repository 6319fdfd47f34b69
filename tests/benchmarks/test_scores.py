"""The benchmark `retrieval.py` computes the scores counted by hand."""

from pathlib import Path

from harness.baselines import full_text, fused
from harness.dataset import Conversation, Dataset, Message, Question, Session
from harness.scores import Run, cuts, summary, tasks


def message(id_: str) -> Message:
    return Message(id=id_, role="user", content=f"Text {id_}.", time="2024-03-15")


def dataset(*questions: Question) -> Dataset:
    """Return a data set with messages a1 to a8 in session A, and b1 to b8 in session B."""
    sessions = [
        Session(id=name, messages=[message(f"{name.lower()}{n}") for n in range(1, 9)])
        for name in "AB"
    ]
    conversation = Conversation(id="c", sessions=sessions, questions=list(questions))
    return Dataset(name="made up", conversations=[conversation])


def question(*evidence: str, category: str | int = "one") -> Question:
    return Question(text="?", evidence=list(evidence), category=category)


def run(*rankings: list[str]) -> Run:
    return Run(adds=[0.001], queries=[0.002] * len(rankings), rankings=list(rankings))


def test_turn_recall_is_the_mean_share_of_evidence_within_each_depth() -> None:
    questions_ = list(tasks(dataset(question("a1", "b1"), question("a2"))))
    first = ["a1", "a3", "a4", "a5", "a6", "b1"]

    found = summary(questions_, run(first, ["b2"]))

    assert found.turn_recall == {"5": 0.25, "10": 0.5, "20": 0.5}


def test_session_recall_counts_each_session_once_in_the_order_of_its_first_turn() -> None:
    conversation = Conversation(
        id="c",
        sessions=[Session(id=f"s{n}", messages=[message(str(n))]) for n in range(7)],
        questions=[question("5"), question("6")],
    )
    questions_ = list(tasks(Dataset(name="made up", conversations=[conversation])))
    ranking = ["0", "1", "2", "3", "4", "5"]

    found = summary(questions_, run(ranking, ranking))

    assert found.session_recall == {"5": 0.0, "10": 0.5}


def test_several_turns_of_one_session_count_as_one_session() -> None:
    questions_ = list(tasks(dataset(question("b1"))))

    found = summary(questions_, run([*(f"a{n}" for n in range(1, 9)), "b7"]))

    assert found.turn_recall["20"] == 0
    assert found.session_recall["5"] == 1


def test_mrr_is_the_mean_reciprocal_rank_and_0_for_a_miss() -> None:
    questions_ = list(tasks(dataset(question("a1", "a2"), question("a1"), question("a1"))))

    found = summary(questions_, run(["b1", "a2", "a1"], ["a1"], ["b1"]))

    assert found.mrr == 0.5


def test_evidence_missing_from_the_data_is_counted_and_not_scored() -> None:
    [task] = tasks(dataset(question("a1", "a1", "gone")))

    assert task.missing == 1
    assert summary([task], run(["a1"])).turn_recall["5"] == 1


def test_categories_are_scored_separately() -> None:
    questions_ = list(tasks(dataset(question("a1", category=4), question("a1", category=5))))

    found = summary(questions_, run(["a1"], ["b1"])).categories

    assert {name: (each.questions, each.mrr) for name, each in found.items()} == {
        "4": (1, 1.0),
        "5": (1, 0.0),
    }


def test_times_are_in_milliseconds() -> None:
    found = summary(list(tasks(dataset(question("a1")))), run(["a1"]))

    assert (found.add_ms.p50, found.query_ms.p95) == (1.0, 2.0)


def test_fusion_counts_ranks_from_1_with_a_constant_of_60() -> None:
    def winner(rank: int) -> str:
        """Return the winner of one item ranked first once, and one with this rank in both."""
        before = rank - 1
        first = ["first", *(f"x{n}" for n in range(before - 1)), "both"]
        second = [*(f"y{n}" for n in range(before)), "both"]
        return fused([first, second], 1)[0]

    assert winner(61) == "both"  # 2 / (60 + 61) is more than 1 / (60 + 1)
    assert winner(63) == "first"


def test_full_text_stems_words_and_ignores_stop_words(tmp_path: Path) -> None:
    with full_text(tmp_path / "text.sqlite3") as words:
        words.add(["1", "2"], ["She was painting.", "What did they do?"])

        assert words.best("What did she paint?", 20) == ["1"]
        assert words.best("What did they do?", 20) == []


def test_a_cut_keeps_items_with_enough_of_the_best_score() -> None:
    questions_ = list(tasks(dataset(question("a2", "a3"), question("b1"))))
    scored = Run(rankings=[["a1", "a2", "a3"], []], scores=[[1.0, 0.6, 0.2], []])

    left = {cut.min_relevance: (cut.turn_recall, cut.items) for cut in cuts(questions_, scored)}

    assert left[0.0] == (0.5, 1.5)
    assert left[0.6] == (0.25, 1.0)
    assert left[0.7] == (0.0, 0.5)
