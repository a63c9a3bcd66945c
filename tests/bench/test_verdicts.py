"""How a run of `./dev bench broker` judges itself: by the rounds that rivals ran beside each other."""

import pytest

from bench.harness.figures import Target
from bench.sections.contest import PING, Figures, Table, Way, rivals, targets

PEERS = ("taskiq", "dramatiq", "dramatiq_ahead", "huey")
SURVIVORS = {"taskiq", "dramatiq", "dramatiq_ahead"}


def table(**rates: float) -> Table:
    """The same rates in each way; a peer without one was not measured."""
    made: Table = {}
    for way in Way:
        for peer in ("dalston", *PEERS, PING):
            made[peer, way] = Figures()
            if peer in rates:
                made[peer, way].rate.add(rates[peer])
    return made


def judged(made: Table) -> dict[str, Target]:
    """By the start of what is said: the way and with whom it is compared."""
    against = {way: rivals(made, way, SURVIVORS) for way in Way}
    found = targets(made, against, SURVIVORS)
    return {f"{target.text.partition(':')[0]} {target.text.partition(' x ')[2].split()[0]}": target for target in found}


def test_one_that_loses_tasks_is_no_rival_and_one_that_comes_near_the_fastest_is_one() -> None:
    made = table(taskiq=1000, dramatiq=900, huey=5000)
    assert rivals(made, Way.AWAKE, SURVIVORS) == ["dramatiq", "taskiq"]
    made["dramatiq", Way.AWAKE].rate.values[:] = [700]
    assert rivals(made, Way.AWAKE, SURVIVORS) == ["taskiq"]


def test_who_is_told_to_hold_many_is_a_rival_with_many_at_a_time_and_named_beside_the_others_with_one() -> None:
    made = table(dalston=3000, taskiq=1000, dramatiq_ahead=2000)
    assert rivals(made, Way.MANY, SURVIVORS) == ["dramatiq_ahead"]
    found = judged(made)
    assert found["1, server awake taskiq"].kept
    assert not found["1, server awake dramatiq_ahead"].kept
    assert not found["one thread for many dramatiq_ahead"].kept
    made["dalston", Way.MANY].rate.add(4000)
    assert judged(made)["one thread for many dramatiq_ahead"].kept


@pytest.mark.parametrize(("pairs", "kept"), [([2.1, 2.1, 1.0], True), ([1.9, 1.9, 9.0], False)])
def test_the_median_of_rounds_beside_each_other_decides_and_not_the_best(pairs: list[float], kept: bool) -> None:
    made = table(dalston=9000, taskiq=1000)
    made["dalston", Way.HALTING].contest = [1000 * pair for pair in pairs]
    made["taskiq", Way.HALTING].contest = [1000.0] * 3
    assert judged(made)["1, server halts taskiq"].kept is kept


def test_a_round_that_failed_is_in_no_pair() -> None:
    made = table(dalston=9000, taskiq=1000)
    made["dalston", Way.AWAKE].contest = [2500.0, None, 2500.0]
    made["taskiq", Way.AWAKE].contest = [1000.0, 1000.0, None]
    assert "2.50 x taskiq (target 2; median of 1 rounds" in judged(made)["1, server awake taskiq"].text
