"""The judge of dead engines, by a clock of the test."""

from dalston_queue.orchestrator.judge import Judge


def judge() -> Judge[str, int]:
    return Judge(dead_after_s=20, max_gap_s=10)


def test_a_counter_that_stands_still_over_the_judges_polls_is_death() -> None:
    court = judge()
    verdicts = [court.observe({"a": 1, "b": beat}, 5.0 * beat) for beat in range(5)]
    assert verdicts == [[], [], [], [], ["a"]]


def test_one_beat_starts_the_clock_anew() -> None:
    court = judge()
    for now in (0, 5, 10, 15):
        court.observe({"a": 1}, now)
    assert court.observe({"a": 2}, 20) == []
    assert court.observe({"a": 2}, 35) == []
    assert court.observe({"a": 2}, 45) == ["a"]


def test_an_outage_of_the_judge_kills_no_engine() -> None:
    court = judge()
    court.observe({"a": 1}, 0)
    assert court.observe({"a": 1}, 3600) == []
    assert court.idle_s("a") == 10


def test_the_dead_are_named_until_they_beat_or_are_gone() -> None:
    court = judge()
    for now in (0, 10, 20):
        court.observe({"a": 1}, now)
    assert court.observe({"a": 1}, 25) == ["a"]
    assert court.observe({"a": 2}, 30) == []
    assert court.observe({}, 35) == []
    assert not court.knows("a")


def test_an_engine_that_was_gone_is_judged_anew() -> None:
    court = judge()
    court.observe({"a": 1}, 0)
    court.observe({}, 5)
    for now in (10, 20):
        court.observe({"a": 1}, now)
    assert court.observe({"a": 1}, 25) == []
