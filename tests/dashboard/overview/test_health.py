"""Health: findings in sentences, the worst first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from dalston_queue.broker.protocol.types import Tier
from dalston_queue.broker.views.snapshot import LaneStats, QueueStats, Rates, Snapshot
from dalston_queue.dashboard.overview.health import Tone, judge, queue_finding
from dalston_queue.dashboard.overview.values import (
    DutyLine,
    EngineLine,
    InPostgres,
    InRedis,
    NodeLine,
    Overview,
    Past,
)
from dalston_queue.jobs.queries.lanes import Ready

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DUTIES = (DutyLine("scanner", 60, NOW - timedelta(seconds=50), ""),)


def engine(state: str = "ready", queue: str = "echo", note: str = "") -> EngineLine:
    return EngineLine("n.demo.0.b", "n", state, (queue,), (), 1, note)


FULL = replace(engine(), is_full=True, is_empty=False)


def lane(waiting: int, running: int = 0, tier: Tier = Tier.MEDIUM, capabilities: str = "", ready: int = 0) -> LaneStats:
    return LaneStats(
        queue="echo",
        capabilities=capabilities,
        tier=tier,
        stream="s",
        shard=0,
        length=waiting + running,
        pending=running,
        lag=waiting,
        consistent=True,
        consumers=1,
        oldest_age_ms=None,
        added=16,
        removed=10,
        ready=ready,
    )


def queue(waiting: int = 0, running: int = 0, paused: bool = False, lanes: Sequence[LaneStats] = ()) -> QueueStats:
    return QueueStats(
        queue="echo",
        lanes=list(lanes) or [lane(waiting, running)],
        running=running,
        events_backlog=0,
        paused=paused,
        counters={},
    )


def overview(
    *queues: QueueStats, engines: tuple[EngineLine, ...] = (engine(),), node: str = "active", rates: Rates | None = None
) -> Overview:
    snapshot = Snapshot(at_ms=0, queues=list(queues))
    nodes = (NodeLine("n", node, engines),)
    return Overview(
        NOW, InRedis(snapshot, (), nodes, True, {"echo": rates} if rates else {}), InPostgres((), 0, DUTIES)
    )


def per_second(in_: float, out: float) -> Rates:
    return Rates(in_per_s=in_, out_per_s=out)


def text_of(view: Overview) -> str:
    return " ".join(finding.text for finding in judge(view).findings)


def test_all_is_well() -> None:
    health = judge(overview(queue(running=1)))
    assert health.tone is Tone.OK
    assert health.headline == "Healthy: nothing waiting, 1 running, 1 engine ready."
    assert health.findings == ()


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        (None, "rate not known yet"),
        (per_second(0, 2), "clear in about 60 s"),
        (per_second(0, 0.1), "clear in about 20 min"),
        (per_second(1, 1.01), "clear in about 3 h"),
        (per_second(2, 1), "and the queue grows"),
        (per_second(1, 1), "and the queue does not shrink"),
    ],
)
def test_a_queue_says_when_it_will_be_clear(rates: Rates | None, words: str) -> None:
    health = judge(overview(queue(waiting=120, running=1), rates=rates))
    assert health.tone is Tone.OK
    assert [finding.text for finding in health.findings] == [f"echo: 120 waiting, 1 engine, {words}."]


def test_work_and_engines_and_nothing_moves() -> None:
    view = overview(queue(waiting=5), rates=per_second(0, 0))
    assert judge(view).tone is Tone.BAD
    assert "echo: 5 waiting, 1 engine, and nothing moves." in text_of(view)


def test_work_whose_engines_are_busy_with_other_queues_is_a_warning() -> None:
    view = overview(queue(waiting=5), engines=(FULL,), rates=per_second(0, 0))
    assert judge(view).tone is Tone.WARN
    assert text_of(view) == "echo: 5 waiting, 1 engine, all busy with other queues."
    assert judge(overview(queue(waiting=5), engines=(FULL, engine()), rates=per_second(0, 0))).tone is Tone.BAD


def test_a_queue_whose_engines_are_all_full_says_that_they_are_busy() -> None:
    health = judge(overview(queue(waiting=5, running=1), engines=(FULL,), rates=per_second(0, 0.1)))
    assert health.tone is Tone.OK
    assert health.headline == "Healthy: 5 waiting, 1 running, 1 engine ready, all busy."
    assert [finding.text for finding in health.findings] == [
        "echo: 5 waiting, 1 engine, all busy, clear in about 50 s."
    ]
    assert "busy" not in judge(overview(queue(waiting=5, running=1), engines=(FULL, engine()))).headline
    assert "busy" not in judge(overview(queue(running=1), engines=(FULL,))).headline, "nothing waits for them"
    idle_elsewhere = overview(
        queue(waiting=5, running=1), engines=(FULL, engine(queue="other")), rates=per_second(0, 0.1)
    )
    assert judge(idle_elsewhere).headline == "Healthy: 5 waiting, 1 running, 2 engines ready."
    assert text_of(idle_elsewhere) == "echo: 5 waiting, 1 engine, all busy, clear in about 50 s."


def test_a_suspect_waits_for_an_empty_engine_without_an_alarm() -> None:
    suspects = queue(waiting=2, lanes=[lane(2, tier=Tier.SUSPECT)])
    half = replace(engine(), is_empty=False)
    assert judge(overview(suspects, engines=(half,), rates=per_second(0, 0))).tone is Tone.WARN
    assert judge(overview(suspects, engines=(half, engine()), rates=per_second(0, 0))).tone is Tone.BAD
    both = queue(waiting=3, lanes=[lane(2, tier=Tier.SUSPECT), lane(1)])
    assert judge(overview(both, engines=(half,), rates=per_second(0, 0))).tone is Tone.BAD, "the other one has room"


def test_only_engines_that_can_run_what_waits_count_as_having_room() -> None:
    large = queue(waiting=2, lanes=[lane(2, capabilities="large")])
    able = replace(FULL, capabilities=("large",))
    assert judge(overview(large, engines=(able, engine()), rates=per_second(0, 0))).tone is Tone.WARN
    free = replace(able, is_full=False, is_empty=True)
    assert judge(overview(large, engines=(free, engine()), rates=per_second(0, 0))).tone is Tone.BAD


def test_work_that_no_engine_serves_is_named() -> None:
    view = overview(queue(waiting=5), engines=(engine(queue="sleep"),))
    assert judge(view).tone is Tone.BAD
    assert "echo: 5 waiting, and no ready engine serves it." in text_of(view)


def test_many_queues_hide_nothing_else_that_is_wrong() -> None:
    view = overview(queue(waiting=5), engines=())
    assert view.redis is not None
    many = [structs.replace(queue(waiting=5), queue=f"q{number}") for number in range(30)]
    redis = replace(view.redis, snapshot=Snapshot(at_ms=0, queues=many))
    texts = [finding.text for finding in judge(replace(view, redis=redis)).findings]
    assert sum("no ready engine serves it" in text for text in texts) == 10
    assert "20 more findings about queues." in texts
    assert any(text.startswith("No engine is ready") for text in texts)


def test_no_orchestrator_leads() -> None:
    view = overview(queue())
    assert view.redis
    view = replace(view, redis=replace(view.redis, is_led=False))
    assert judge(view).tone is Tone.BAD
    assert "runorchestrator" in text_of(view)


def test_a_duty_that_is_late_or_failing_is_named() -> None:
    def with_duty(age_s: float, error: str = "") -> Overview:
        duty = DutyLine("scanner", 60, NOW - timedelta(seconds=age_s), error)
        return replace(overview(queue()), postgres=InPostgres((), 0, (duty,)))

    assert text_of(with_duty(170)) == ""
    assert "The scanner has not run for 10 min" in text_of(with_duty(600))
    assert judge(with_duty(600)).tone is Tone.BAD
    assert "The scanner failed: KeyError: x" in text_of(with_duty(10, "KeyError: x"))
    assert "No housekeeping has run yet" in text_of(replace(overview(queue()), postgres=InPostgres((), 0, ())))


def test_a_dead_node_is_one_finding_without_its_engines() -> None:
    view = overview(queue(), engines=(engine("dead"), engine("dead")), node="dead")
    assert text_of(view).count("dead") == 1


def test_a_crash_loop_has_its_reason() -> None:
    assert "n.demo.0.b is crashloop: exit 1 five times." in text_of(
        overview(engines=(engine(), engine("crashloop", note="exit 1 five times")))
    )


def test_a_paused_queue_is_a_warning() -> None:
    view = overview(queue(waiting=2, paused=True), engines=(engine(queue="sleep"),))
    assert judge(view).tone is Tone.WARN
    assert "echo is paused with 2 waiting." in text_of(view)


def test_dead_letters_are_counted_to_a_thousand() -> None:
    view = overview(queue())
    assert "1 open dead letter." in text_of(replace(view, postgres=InPostgres((), 1, DUTIES)))
    assert "3 open dead letters." in text_of(replace(view, postgres=InPostgres((), 3, DUTIES)))
    assert "More than 1000 open dead letters" in text_of(replace(view, postgres=InPostgres((), 1001, DUTIES)))


def test_what_cannot_be_read_is_not_known_and_never_zero() -> None:
    health = judge(replace(overview(queue()), redis=None))
    assert health.tone is Tone.BAD
    assert "not known" in health.headline
    health = judge(replace(overview(queue()), postgres=None))
    assert "Postgres does not answer" in health.headline


def test_what_waits_in_postgres_counts_as_waiting() -> None:
    both = queue(lanes=[lane(waiting=2, ready=118)])
    assert "echo: 120 waiting, 1 engine, clear in about 60 s." in text_of(overview(both, rates=per_second(0, 2)))
    only = queue(lanes=[lane(waiting=0, ready=5)])
    assert "echo: 5 waiting, 1 engine, and nothing moves." in text_of(overview(only, rates=per_second(0, 0)))
    assert judge(overview(only, engines=(FULL,), rates=per_second(0, 0))).tone is Tone.WARN, "they wait for capacity"


def test_without_postgres_waiting_is_what_redis_has() -> None:
    view = replace(overview(queue()), postgres=None)
    assert "What waits in Postgres is not known: waiting is what is in Redis." in text_of(view)
    assert queue_finding(view, "echo").text == "Nothing waits in Redis, nothing running, 1 engine ready."


def test_without_redis_what_waits_in_postgres_is_counted() -> None:
    ready = {"echo": {("", Tier.LOW): Ready(7, NOW)}}
    view = Overview(NOW, None, InPostgres((), 0, DUTIES, ready=ready))
    assert "7 tasks ready in Postgres. Submissions are still accepted" in text_of(view)


def test_each_finding_links_to_its_page() -> None:
    view = overview(queue(waiting=5), engines=(engine(queue="sleep"), engine("crashloop")))
    links = {finding.text[:12]: finding.link for finding in judge(view).findings}
    assert links == {"echo: 5 wait": "/queues/echo/", "Engine n.dem": "/nodes/n/"}
    assert judge(replace(view, postgres=InPostgres((), 1, DUTIES))).findings[-1].link == "/dead-letters/"


def test_the_worst_comes_first() -> None:
    view = replace(overview(queue(waiting=5), node="dead"), postgres=InPostgres((), 1, DUTIES))
    assert [finding.tone for finding in judge(view).findings] == [Tone.BAD, Tone.WARN, Tone.OK]


def test_the_age_of_the_oldest_is_shown() -> None:
    old = structs.replace(lane(312, 6), oldest_age_ms=240_000)
    waits = queue(running=6, lanes=[old])
    assert "echo: 312 waiting, oldest 4 min, 1 engine, clear in about 9 min." in text_of(
        overview(waits, rates=per_second(0, 0.58))
    )


def test_a_queue_in_which_nothing_ended_for_long_is_named_although_engines_are_busy() -> None:
    stuck = overview(queue(waiting=5, running=1), rates=per_second(0, 0))

    def with_samples(minutes: int, removed: int = 10, waiting: int = 5) -> Overview:
        samples = [{"waiting": waiting, "removed": removed}] * minutes
        return replace(stuck, past=Past(lanes={"0 s": [None] * (60 - minutes) + samples}))

    assert "nothing has ended for 15 min" in text_of(with_samples(15))
    assert judge(with_samples(15)).tone is Tone.BAD
    for fine in (with_samples(14), with_samples(15, removed=9), with_samples(15, waiting=0), stuck):
        assert "nothing has ended" not in text_of(fine), "a minute that is not known proves nothing"
    full = overview(queue(waiting=5, running=1), engines=(FULL,))
    full = replace(full, past=with_samples(15).past)
    assert (
        text_of(full)
        == "echo: 5 waiting, 1 engine, all busy, and nothing has ended for 15 min. See what its engines run."
    )
    assert judge(full).tone is Tone.WARN, "long tasks: each has its deadline"


def test_new_dead_letters_are_counted() -> None:
    view = replace(overview(queue()), postgres=InPostgres((), 7, DUTIES))
    grown = replace(view, past=Past(dead_letters=[{"made": 4, "open": 4}, None, {"made": 3, "open": 7}]))
    assert "7 open dead letters, 7 new in the last 10 min." in text_of(grown)
    still = replace(view, past=Past(dead_letters=[{"made": 4}] + [{"made": 0}] * 10))
    assert "grow" not in text_of(still)
