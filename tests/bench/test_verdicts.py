"""How a run of `./dev bench broker` judges itself: by the rounds that rivals ran beside each other."""

import pytest

from bench.harness.figures import Target
from bench.sections.contest import PING, Figures, Table, Way, beside_ahead, contests_of, names, verdict

PEERS = ("taskiq", "dramatiq", "dramatiq_ahead", "huey")
SURVIVORS = {"taskiq", "dramatiq", "dramatiq_ahead"}


def table(**rates: float) -> Table:
    """The same rates in each way; a peer without one was not measured."""
    made: Table = {}
    for way in Way:
        for peer in ("dalston", "dalston_ahead", *PEERS, PING):
            made[peer, way] = Figures()
            if peer in rates:
                made[peer, way].rate.add(rates[peer])
    return made


def judged(made: Table, way: Way) -> dict[str, Target]:
    """By who of us and who of them is compared."""
    known = {peer for peer, _ in made}
    found = [verdict(made, way, contest) for contest in contests_of(made, way, SURVIVORS)]
    return {" ".join(word for word in target.text.split() if word in known): target for target in found}


def test_one_that_loses_tasks_is_no_rival_and_one_that_comes_near_the_fastest_is_one() -> None:
    made = table(dalston=9000, taskiq=1000, dramatiq=900, huey=5000)
    assert names(contests_of(made, Way.AWAKE, SURVIVORS)) == ["dalston", "dramatiq", "taskiq"]
    made["dramatiq", Way.AWAKE].rate.values[:] = [700]
    assert names(contests_of(made, Way.AWAKE, SURVIVORS)) == ["dalston", "taskiq"]


def test_who_is_told_to_hold_many_is_a_rival_with_many_at_a_time_and_of_our_own_that_takes_ahead_with_one() -> None:
    made = table(dalston=3000, dalston_ahead=3900, taskiq=1000, dramatiq_ahead=2000)
    assert list(judged(made, Way.MANY)) == ["dalston dramatiq_ahead"]
    found = judged(made, Way.AWAKE)
    assert found["dalston taskiq"].kept
    assert not found["dalston_ahead dramatiq_ahead"].kept
    made["dalston_ahead", Way.AWAKE].rate.add(4000)
    assert judged(made, Way.AWAKE)["dalston_ahead dramatiq_ahead"].kept


def test_how_a_dalston_with_one_task_in_hand_stands_beside_one_with_many_is_said_too() -> None:
    made = table(dalston=3000, dalston_ahead=4000, taskiq=1000, dramatiq_ahead=2000)
    said = [beside_ahead(made, way, contests_of(made, way, SURVIVORS)) for way in Way]
    assert [len(each) for each in said] == [1, 1, 0]
    assert "dalston 1.50 x dramatiq_ahead" in said[0][0]


@pytest.mark.parametrize(("pairs", "kept"), [([2.1, 2.1, 1.0], True), ([1.9, 1.9, 9.0], False)])
def test_the_median_of_rounds_beside_each_other_decides_and_not_the_best(pairs: list[float], kept: bool) -> None:
    made = table(dalston=9000, taskiq=1000)
    made["dalston", Way.HALTING].contest = [1000 * pair for pair in pairs]
    made["taskiq", Way.HALTING].contest = [1000.0] * 3
    assert judged(made, Way.HALTING)["dalston taskiq"].kept is kept


def test_a_round_that_failed_is_in_no_pair() -> None:
    made = table(dalston=9000, taskiq=1000)
    made["dalston", Way.AWAKE].contest = [2500.0, None, 2500.0]
    made["taskiq", Way.AWAKE].contest = [1000.0, 1000.0, None]
    assert "2.50 x taskiq (target 2; median of 1 rounds" in judged(made, Way.AWAKE)["dalston taskiq"].text
