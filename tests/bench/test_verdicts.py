"""How a run of `./dev bench broker` judges itself: by the rounds that rivals ran beside each other."""

import pytest

from bench.harness.figures import Target
from bench.sections.contest import PING, Figures, Table, Way, contests_of, runners, verdict, without_target
from bench.sections.latency import Delays, quickest
from bench.sections.latency import targets as latency_targets

SURVIVORS = {"taskiq", "dramatiq", "dramatiq_ahead"}


def table(**rates: float) -> Table:
    """The same rates in each way; a peer with 0 was not measured."""
    made: Table = {}
    for way in Way:
        for peer, rate in rates.items():
            made[peer, way] = Figures()
            if rate:
                made[peer, way].rate.add(rate)
    return made


def judged(made: Table, way: Way) -> dict[str, Target]:
    """By the names of ours and of the rivals."""
    contests = contests_of(made, way, SURVIVORS)
    return {" ".join([contest.ours, *contest.rivals]): verdict(made, way, contest) for contest in contests}


def test_one_that_loses_tasks_is_no_rival_and_one_that_comes_near_the_fastest_is_one() -> None:
    made = table(dalston=9000, taskiq=1000, dramatiq=900, huey=5000)
    assert runners(contests_of(made, Way.AWAKE, SURVIVORS)) == ["dalston", "dramatiq", "taskiq"]
    made["dramatiq", Way.AWAKE].rate.values[:] = [700]
    assert runners(contests_of(made, Way.AWAKE, SURVIVORS)) == ["dalston", "taskiq"]


def test_the_rival_that_comes_nearest_decides() -> None:
    made = table(dalston=2000, taskiq=1000, dramatiq=1000)
    made["dalston", Way.AWAKE].beside = [2000.0]
    made["taskiq", Way.AWAKE].beside = [900.0]
    made["dramatiq", Way.AWAKE].beside = [1001.0]
    target = judged(made, Way.AWAKE)["dalston dramatiq taskiq"]
    assert not target.kept
    assert "2.00 x dramatiq" in target.text


def test_one_at_a_time_the_whole_engine_is_measured_by_all_and_the_bare_broker_by_all_but_the_ninth() -> None:
    made = table(dalston=3000, dalston_sdk=3999, taskiq=1000, dramatiq_ahead=2000)
    assert list(judged(made, Way.MANY)) == ["dalston dramatiq_ahead"]
    found = judged(made, Way.AWAKE)
    assert {name: target.kept for name, target in found.items()} == {
        "dalston taskiq": True,
        "dalston_sdk dramatiq_ahead": False,
    }
    made["taskiq", Way.AWAKE].rate.add(1999)
    assert "dalston_sdk dramatiq_ahead taskiq" in judged(made, Way.AWAKE)


def test_each_runs_once_beside_the_others_in_a_round() -> None:
    made = table(**{"dalston": 1, "dalston_sdk": 1, "taskiq": 1000, "dramatiq_ahead": 1100, PING: 1})
    contests = contests_of(made, Way.AWAKE, SURVIVORS)
    assert runners(contests) == ["dalston", "taskiq", "dalston_sdk", "dramatiq_ahead", PING]


@pytest.mark.parametrize(("rate", "kept"), [(5000, True), (4999, False)])
def test_half_of_a_ping_loop_is_wanted(rate: float, kept: bool) -> None:
    made = table(**{"dalston": rate, PING: 10_000})
    assert judged(made, Way.AWAKE)[f"dalston {PING}"].kept is kept


def test_a_run_without_figures_of_dalston_has_no_verdict() -> None:
    made = table(dalston=0, dalston_sdk=0, taskiq=1000)
    assert contests_of(made, Way.AWAKE, SURVIVORS) == []
    assert without_target(made, Way.AWAKE, []) == []


def test_what_another_of_ours_is_measured_by_is_said_without_a_target() -> None:
    made = table(dalston=9000, dalston_sdk=5000, taskiq=1000, dramatiq_ahead=2000)
    [said] = without_target(made, Way.MANY, contests_of(made, Way.MANY, SURVIVORS))
    assert "dalston_sdk 2.50 x dramatiq_ahead (no target; by the best rounds)" in said
    bare, whole = without_target(made, Way.AWAKE, contests_of(made, Way.AWAKE, SURVIVORS))
    assert "dalston 4.50 x dramatiq_ahead (no target" in bare
    assert "dalston_sdk 5.00 x taskiq (no target" in whole


@pytest.mark.parametrize(("pairs", "kept"), [([2.1, 2.1, 1.0], True), ([1.9, 1.9, 9.0], False)])
def test_the_median_of_rounds_beside_each_other_decides_and_not_the_best(pairs: list[float], kept: bool) -> None:
    made = table(dalston=9000, taskiq=1000)
    made["dalston", Way.HALTING].beside = [1000 * pair for pair in pairs]
    made["taskiq", Way.HALTING].beside = [1000.0] * 3
    assert judged(made, Way.HALTING)["dalston taskiq"].kept is kept


def test_a_round_that_failed_is_in_no_pair() -> None:
    made = table(dalston=9000, taskiq=1000)
    made["dalston", Way.AWAKE].beside = [2500.0, None, 2500.0]
    made["taskiq", Way.AWAKE].beside = [1000.0, 1000.0, None]
    assert "2.50 x taskiq (target 2; median of 1 rounds" in judged(made, Way.AWAKE)["dalston taskiq"].text


def delays(*medians: float, tail: float = 1.0) -> Delays:
    made = Delays()
    for median in medians:
        made.add([median] * 99 + [tail])
    return made


def test_the_quickest_peer_to_start_a_task_is_a_rival_and_so_is_who_comes_near_it() -> None:
    found = {"huey": delays(0.9, 0.5), "taskiq": delays(0.6), "rq": delays(0.7), "arq": Delays()}
    assert quickest(found, ["huey", "taskiq", "rq", "arq"]) == ["huey", "taskiq"]


@pytest.mark.parametrize(("theirs", "kept"), [([1.0, 1.0, 0.1], True), ([0.8, 0.8, 9.0], False)])
def test_latency_is_judged_by_the_median_of_rounds_beside_each_other(theirs: list[float], kept: bool) -> None:
    beside: list[dict[str, float | None]] = [{"dalston": 1.0, "huey": each, "taskiq": 9.0} for each in theirs]
    beside.append({"dalston": None, "huey": 0.1, "taskiq": 9.0})
    [middle, tail] = latency_targets(delays(1.0), beside)
    assert "x huey's" in middle.text
    assert (middle.kept, tail.kept) == (kept, True)


def test_a_p99_of_three_milliseconds_is_too_long() -> None:
    [tail] = latency_targets(delays(1.0, tail=3.0), [])
    assert not tail.kept
