"""Remove and cancel by the record, in O(1); expire a running task."""

from dalston_queue.broker import Broker, EventReader
from dalston_queue.broker.operations.reclaim import Expired
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo
from dalston_queue.broker.protocol.types import Cause, EventKind, Priority, Removed, Tier
from tests.broker.conftest import BUDGETS, Counted, MakeEngine, events_of, message


def test_a_waiting_task_is_removed_from_any_lane_and_tier(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a", priority=Priority.LOW), message("b", required_capabilities=("gpu",)), message("c")])
    assert broker.remove("echo", "a") is Removed.REMOVED
    assert broker.request_cancel("echo", "b", attempt=1) is Removed.REMOVED
    assert broker.remove("echo", "a") is Removed.ABSENT
    assert [c.task_id for c in engine(capabilities=["gpu"], capacity=3).claim()] == ["c"]
    assert broker.snapshot().queues[0].counters["removed"] == 2


def test_many_are_removed_in_two_round_trips_and_each_has_its_answer(
    broker: Broker, engine: MakeEngine, reader: EventReader, counted: Counted
) -> None:
    broker.append([message("ended", priority=Priority.HIGH), message("runs", priority=Priority.HIGH)])
    ended, _ = engine(capacity=2).claim()
    ended.settle(Completed())
    broker.append([message(f"w{n}", priority=Priority.LOW, required_capabilities=("gpu",)) for n in range(3)])
    broker.append([message("plain"), message("newer", attempt=2)])
    viewer, round_trips = counted
    asked: list[tuple[str, int | None]] = [(task, 1) for task in ("w0", "runs", "ended", "plain", "newer", "no", "w2")]
    answers: list[Removed] = []
    assert round_trips(lambda: answers.extend(viewer.remove_many("echo", asked))) == 2
    assert answers == ["removed", "running", "settled", "removed", "absent", "absent", "removed"]
    assert broker.remove_many("echo", asked)[0] is Removed.ABSENT, "repeatable"
    assert broker.remove_many("echo", []) == []
    assert broker.records("echo", [task for task, _ in asked]).keys() == {"runs", "ended", "newer"}
    stats = broker.snapshot().queues[0]
    assert (stats.waiting, stats.running, stats.counters["removed"]) == (2, 1, 3)


def test_another_attempt_is_left_alone(broker: Broker) -> None:
    broker.append([message("a", attempt=2)])
    assert broker.remove("echo", "a", attempt=1) is Removed.ABSENT
    assert broker.remove("echo", "a", attempt=2) is Removed.REMOVED


def test_a_running_task_is_flagged_not_removed(broker: Broker, engine: MakeEngine, reader: EventReader) -> None:
    broker.append([message("a")])
    (claimed,) = engine().claim()
    assert broker.remove("echo", "a") is Removed.RUNNING
    assert broker.request_cancel("echo", "a") is Removed.FLAGGED
    assert broker.request_cancel("echo", "a") is Removed.FLAGGED, "repeatable"
    assert claimed.settle(Completed()) == "ok", "finishing first is allowed; the database decides"
    assert broker.request_cancel("echo", "a") is Removed.SETTLED


def test_a_flag_survives_progress(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a")])
    (claimed,) = engine().claim()
    broker.request_cancel("echo", "a")
    assert claimed.progress(1) is False
    assert broker.records("echo", ["a"])["a"].cancel == 1


def test_removal_finds_a_task_that_moves_meanwhile(broker: Broker, engine: MakeEngine) -> None:
    """The task may move between the read of its record and the script; the script answers with its new stream."""
    broker.append([message("a")])
    engine("e").claim()
    home = broker.home
    keys = home.keys
    broker.reclaim("e", ["echo"], **BUDGETS)
    names = [keys.tasks("echo"), keys.counters("echo"), keys.stream("echo")]
    assert home.run("cancel", names, ["a", "", 0]) == [b"elsewhere", keys.stream("echo", "", Tier.RECOVERED).encode()]
    assert broker.remove("echo", "a") is Removed.REMOVED


def test_expiring_takes_the_task_and_reports_it_failed(broker: Broker, engine: MakeEngine, reader: EventReader) -> None:
    broker.append([message("a", timeout_ms=1)])
    (claimed,) = engine("e").claim()
    renewed = broker.records("echo", ["a"])["a"].renewed_at_ms
    error = ErrorInfo(message="ran past its deadline", cause=Cause.TIMEOUT)
    assert broker.expire("echo", "a", 2, error) is Expired.ABSENT
    assert broker.expire("echo", "a", 1, error, judged_ms=renewed - 1) is Expired.RENEWED
    assert broker.expire("echo", "a", 1, error, judged_ms=renewed) is Expired.EXPIRED
    assert broker.expire("echo", "a", 1, error, judged_ms=renewed) is Expired.ABSENT, "repeatable"
    (failed,) = [e for e in events_of(reader) if e.kind is EventKind.TASK_FAILED]
    assert failed.error == error and failed.engine_id == "e"
    assert claimed.settle(Completed()) == "lost"
    assert broker.pending("echo").total == 0 and broker.records("echo", ["a"]) == {}
