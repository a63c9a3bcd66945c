"""Verdicts of `./dev bench broker`: ratios of rounds that ours and a peer ran one after the other."""

from collections.abc import Sequence

import pytest

from bench.harness.figures import Ratio, Rounds, Target, turns
from bench.peers import OURS, PEERS
from bench.subjects.latency import Delays
from bench.subjects.latency import targets as latency_targets
from bench.subjects.throughput import GOALS, PING, Figures, Table, contestants, verdict


def table(capacity: int, **rates: Sequence[float | None]) -> Table:
    """By peer, the rate of each round; None: the round failed."""
    made: Table = {}
    for peer, values in rates.items():
        made[peer, capacity] = Figures()
        for number, value in enumerate(values):
            if value is not None:
                made[peer, capacity].rate.add(value, number)
    return made


def judged(made: Table) -> dict[str, Target]:
    """By the capacity and the names of ours and of the first rival."""
    targets = {f"{goal.capacity} {goal.ours} {goal.rivals[0]}": verdict(made, goal) for goal in GOALS}
    return {name: target for name, target in targets.items() if target}


@pytest.mark.parametrize(
    ("ours", "rival", "capacity", "factor"),
    [
        ("dalston_engine_prefetch_8", "dramatiq_prefetch_100", 1, 2.0),
        ("dalston", "taskiq", 1, 1.4),
        ("dalston_engine", "taskiq", 1, 1.0),
        ("dalston", "bullmq", 1, 1.0),
        ("dalston", "dramatiq", 32, 8.0),
        ("dalston", "bullmq", 32, 1.0),
    ],
)
def test_each_target_of_throughput_is_kept_at_its_factor_and_missed_below(
    ours: str, rival: str, capacity: int, factor: float
) -> None:
    for rate, kept in ((1000 * factor, True), (1000 * factor - 1, False)):
        target = judged(table(capacity, **{ours: [rate], rival: [1000.0]}))[f"{capacity} {ours} {rival}"]
        assert target.kept is kept
        assert f"x {rival} (target {factor:g};" in target.text


def test_the_fastest_crash_safe_python_peer_decides() -> None:
    ours = "dalston_engine_prefetch_8"
    made = table(1, **{ours: [4000], "dramatiq_prefetch_100": [1900], "rq": [2001], "huey": [9000], "bullmq": [9000]})
    target = judged(made)[f"1 {ours} dramatiq_prefetch_100"]
    assert not target.kept
    assert "2.00 x rq" in target.text


@pytest.mark.parametrize(("pairs", "kept"), [([1.5, 1.5, 1.0], True), ([1.3, 1.3, 9.0], False)])
def test_the_median_of_rounds_beside_each_other_decides_and_not_the_best(pairs: list[float], kept: bool) -> None:
    made = table(1, dalston=[1000 * pair for pair in pairs], taskiq=[1000.0] * 3)
    assert judged(made)["1 dalston taskiq"].kept is kept


def test_a_round_that_failed_is_in_no_pair() -> None:
    made = table(1, dalston=[2500.0, None, 2500.0], taskiq=[1000.0, 1000.0, None])
    assert "2.50 x taskiq (target 1.4; median of 1 rounds" in judged(made)["1 dalston taskiq"].text


def test_a_run_without_figures_of_dalston_or_of_the_rival_has_no_verdict() -> None:
    assert judged(table(1, dalston=[], taskiq=[1000.0])) == {}
    assert judged(table(1, dalston=[1000.0], dalston_engine=[1000.0])) == {}


def test_peers_of_a_target_run_in_every_round_and_the_others_in_every_third() -> None:
    compared, others = contestants(1, list(PEERS))
    assert {*OURS, "taskiq", "dramatiq_prefetch_100", "bullmq", PING} == set(compared)
    assert "celery" in others
    by_round = [[name for number, name in turns(compared, others, 4) if number == each] for each in range(4)]
    assert by_round[0] == by_round[3] == [*compared, *others]
    assert by_round[1] == by_round[2] == compared


def test_32_at_a_time_without_peers_for_one_thread() -> None:
    compared, others = contestants(32, list(PEERS))
    assert compared == ["dalston", "dalston_engine", "dramatiq", "bullmq"]
    assert not {"rq", "dramatiq_prefetch_100", PING} & {*others}


def test_a_ratio_is_made_of_the_rounds_that_both_have() -> None:
    ours, theirs = Rounds(), Rounds()
    ours.add(2.0, 0)
    ours.add(9.0, 1)
    theirs.add(1.0, 0)
    assert Ratio.between(ours, theirs) == Ratio([2.0])
    assert Ratio.between(ours, Rounds()) is None


def delays(*medians: float | None, tail: float = 1.0) -> Delays:
    made = Delays()
    for number, median in enumerate(medians):
        if median is not None:
            made.add([median] * 99 + [tail], number)
    return made


@pytest.mark.parametrize(("theirs", "kept"), [([1.0, 1.0, 0.1], True), ([0.79, 0.79, 9.0], False)])
def test_latency_is_judged_by_the_median_of_rounds_beside_each_other(theirs: list[float], kept: bool) -> None:
    [middle, tail] = latency_targets(delays(1.0, 1.0, 1.0, None), delays(*theirs, 0.1))
    assert "x huey's (target at most 1.25;" in middle.text
    assert (middle.kept, tail.kept) == (kept, True)


def test_a_p99_of_three_milliseconds_is_too_long() -> None:
    [tail] = latency_targets(delays(1.0, tail=3.0), Delays())
    assert not tail.kept
