"""Our evaluation, pure: each condition holds in its case, and an alert begins, fires and ends in time."""

from datetime import timedelta

import pytest

from dalston_queue.alerts.decide import MAX_SUBJECTS, QUIET, Standing, decide
from dalston_queue.alerts.facts import Facts
from dalston_queue.alerts.table import ALERTS, BY_NAME, Alert
from dalston_queue.dashboard.overview.values import Overview
from dalston_queue.metrics.reading import Reading
from tests.alerts.cases import CASES, NOW, facts

DEEP, BUSY = BY_NAME["DalstonQueueDeep"], BY_NAME["DalstonWorkersBusy"]
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_each_condition_holds_in_its_case_and_not_in_the_other(alert: Alert) -> None:
    case = CASES[alert.name]
    holding = alert.measure(case.our_fires)
    assert holding
    assert any(alert.holds(value) for value in holding.values()), holding
    silent = alert.measure(case.our_silent)
    assert silent is not None
    assert not any(alert.holds(value) for value in silent.values()), silent
    [subject, *_] = holding
    sentence = alert.sentence(subject, holding[subject])
    assert subject in sentence
    assert "{" not in sentence


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_without_its_servers_nothing_is_known_but_that_they_are_away(alert: Alert) -> None:
    unknown = Facts(NOW, Reading(Overview(NOW, None, None), None))
    found = alert.measure(unknown)
    if alert.name in ("DalstonRedisAway", "DalstonPostgresAway"):
        assert found is not None and alert.holds(found[""])
    else:
        assert found is None


def test_a_rate_of_a_few_attempts_is_none() -> None:
    few = facts(grown={"failed": 3, "completed": 1}, retries=3)
    assert BY_NAME["DalstonFailureRateHigh"].measure(few) == {}
    assert BY_NAME["DalstonRetriesHigh"].measure(few) == {}


def test_a_paused_queue_does_not_stall() -> None:
    waiting = CASES["DalstonQueueStalled"].our_fires.reading.overview.redis.snapshot.queues[0].lanes
    assert BY_NAME["DalstonQueueStalled"].measure(facts(lanes=waiting, grown={"ran": 0}, paused=True)) == {}


def test_one_without_a_time_fires_at_once_and_one_with_it_when_it_has_held() -> None:
    assert decide(DEEP, {"echo medium": 6000.0}, {}, NOW)["echo medium"].fired_at == NOW
    first = decide(BUSY, {"": 0.95}, {}, NOW)
    assert first[""].fired_at is None
    later = decide(BUSY, {"": 0.99}, first, NOW + 599 * SECOND)
    assert later[""].fired_at is None
    then = decide(BUSY, {"": 0.99}, later, NOW + 600 * SECOND)
    assert then[""].fired_at == NOW + 600 * SECOND
    assert then[""].since == NOW


def test_one_that_did_not_hold_all_the_time_begins_anew() -> None:
    first = decide(BUSY, {"": 0.95}, {}, NOW)
    assert decide(BUSY, {"": 0.5}, first, NOW + SECOND) == {}


def test_one_that_fires_ends_when_it_was_quiet() -> None:
    fired = decide(DEEP, {"a": 6000.0}, {}, NOW)
    assert decide(DEEP, {"a": 0.0}, fired, NOW + QUIET - SECOND) == fired
    assert decide(DEEP, {}, fired, NOW + QUIET) == {}
    again = decide(DEEP, {"a": 5500.0}, fired, NOW + QUIET)
    assert again["a"].fired_at == NOW


def test_while_nothing_is_known_what_stands_goes_on() -> None:
    standing = {"a": Standing("a", 6000.0, NOW, NOW, NOW)}
    assert decide(DEEP, None, standing, NOW + timedelta(hours=1)) == standing


def test_the_number_of_subjects_has_an_end_and_the_worst_come_first() -> None:
    values = {f"queue-{number}": 5001.0 + number for number in range(3 * MAX_SUBJECTS)}
    found = decide(DEEP, values, {}, NOW)
    assert len(found) == MAX_SUBJECTS
    assert f"queue-{3 * MAX_SUBJECTS - 1}" in found
    assert decide(DEEP, {**values, "new": 9e9}, found, NOW).keys() == found.keys(), "those that stand stay"
