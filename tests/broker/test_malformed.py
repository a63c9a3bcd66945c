"""Bad input never kills a process and never vanishes: it becomes an event with the raw fields, and is acknowledged."""

from typing import Any

import pytest

from dalston_queue.broker import Broker, EventReader
from dalston_queue.broker.events import forget_idle_readers
from dalston_queue.broker.messages import Completed, Event, Malformed
from dalston_queue.broker.types import Cause, EventKind
from tests.broker.conftest import MakeEngine, events_of, message

GOOD = {"t": "bad", "h": "1\tjob\t1\t0\t0", "m": '{"task_type":"echo"}'}  # h: version, job, attempt, enqueued, timeout


def add_raw(broker: Broker, fields: dict[str, Any]) -> str:
    """A foreign XADD into the work stream."""
    home = broker.topology.home
    flat = [part for pair in fields.items() for part in pair]
    return str(home.command("XADD", home.keys.stream("echo"), "*", *flat).decode())


def without(name: str) -> dict[str, Any]:
    return {k: v for k, v in GOOD.items() if k != name}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"foo": "bar"}, "no version"),
        ({**GOOD, "h": "2\tjob\t1\t0\t0"}, "unknown version"),
        (without("t"), "lacks a field"),
        (without("m"), "lacks a field"),
        ({**GOOD, "h": "1\tjob\t1\t0"}, "lacks a field"),
        ({**GOOD, "h": "1\tjob\tone\t0\t0"}, "wrong type"),
        ({**GOOD, "h": "1\tjob\t1\t0\tsoon"}, "wrong type"),
        ({**GOOD, "t": ""}, "wrong type"),
        ({**GOOD, "t": "x" * 201}, "wrong type"),
        ({**GOOD, "m": "x" * (10 * 1024 * 1024)}, "larger than"),
        ({**GOOD, "t": b"\xff\xfe\t\n"}, "no record"),
        (GOOD, "no record"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unreadable_entry_is_buried_raw_and_the_next_one_runs(
    broker: Broker, engine: MakeEngine, reader: EventReader, fields: dict[str, Any], reason: str
) -> None:
    broker.append([message("first")])
    broker.remove("echo", "first")
    add_raw(broker, fields)
    broker.append([message("good")])
    consumer = engine()
    got = consumer.exchange()
    assert [c.task_id for c in got.claimed] == ["good"]
    assert len(got.buried) == 1 and reason in got.buried[0].reason
    (buried,) = [e for e in events_of(reader) if e.kind is EventKind.TASK_BURIED]
    assert buried.error is not None and reason in buried.error.message
    expected = {k: v if isinstance(v, bytes) else v.encode() for k, v in fields.items()}
    assert buried.raw == expected
    stats = broker.snapshot().queues[0]
    assert stats.counters["buried"] == 1 and stats.waiting == 0 and stats.lanes[2].pending == 1


@pytest.mark.parametrize(
    "body", [b"\xff\xfe", b"not json", b"[]", b'{"task_type":5}', b'{"priority":"urgent","task_type":"x"}', b"{}",
    b"[" * 20_000]
)  # fmt: skip
def test_an_entry_of_ours_whose_json_cannot_be_read_is_buried_with_its_task(
    broker: Broker, engine: MakeEngine, reader: EventReader, body: bytes
) -> None:
    append_body(broker, body)
    broker.append([message("good")])
    consumer = engine(capacity=2)
    got = consumer.exchange()
    assert [c.task_id for c in got.claimed] == ["good"] and len(got.buried) == 1
    (buried,) = [e for e in events_of(reader) if e.kind is EventKind.TASK_BURIED]
    assert (buried.task_id, buried.attempt, buried.job_id) == ("bad", 1, "")
    assert buried.raw is not None and buried.raw["m"] == body
    assert broker.records("echo", ["bad"]) == {}, "the tombstone went with the event"
    assert broker.snapshot().queues[0].lanes[2].pending == 1


def append_body(broker: Broker, body: bytes) -> None:
    home = broker.topology.home
    keys = home.keys
    names = [keys.tasks("echo"), keys.lanes("echo"), keys.wake("echo"), keys.ageing("echo"), keys.counters("echo")]
    names += [keys.running("echo"), keys.deadlines("echo"), keys.stream("echo")]
    home.run("append", names, ["", 32, 0, 3, "bad", "job", 1, 0, 0, 0, 0, 0, body])
    home.command("SADD", keys.stages(), "echo")


def test_an_unknown_field_does_not_break_an_older_engine(broker: Broker, engine: MakeEngine) -> None:
    append_body(broker, b'{"task_type":"echo","from_the_future":{"x":1},"parameters":5}')
    (claimed,) = engine().claim()
    assert claimed.message.parameters == 5 and claimed.settle(Completed()) == "ok"


def test_an_unknown_entry_field_does_not_break_an_older_engine(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a")])
    home = broker.topology.home
    ((_, fields),) = home.command("XRANGE", home.keys.stream("echo"), "-", "+")
    consumer = engine()
    (claimed,) = consumer.claim()
    home.command("XDEL", claimed.stream, claimed.entry_id)
    home.command("XADD", claimed.stream, "*", *fields, "new", "field")
    # a copy without a record of its own is not run twice, whatever its fields
    assert consumer.claim(1) == []
    assert broker.snapshot().queues[0].counters["duplicates"] == 1


def test_a_stream_full_of_rubbish_does_not_hold_the_server(
    broker: Broker, engine: MakeEngine, reader: EventReader
) -> None:
    broker.append([message("last")])
    broker.remove("echo", "last")
    for n in range(50):
        add_raw(broker, {"rubbish": str(n)})
    broker.append([message("last")])
    consumer = engine()
    rounds = 0
    while not (got := consumer.exchange()).claimed:
        rounds += 1
        assert len(got.buried) == 10
    assert rounds == 5
    assert sum(e.kind is EventKind.TASK_BURIED for e in events_of(reader)) == 50


def test_a_malformed_event_is_given_raw_and_can_be_acknowledged(broker: Broker, reader: EventReader) -> None:
    broker.append([message("a")])
    home = broker.topology.home
    key = home.keys.events("echo")
    bad: list[list[Any]] = [
        ["x", "y"],
        ["h", b"\xff", "m", ""],
        ["h", "task.exploded\ta\tj\t1\t1\t0\t0\te\t0\t", "m", ""],
        ["h", "task.completed\ta\tj\tone\t1\t0\t0\te\t0\t", "m", ""],
        ["h", "task.started\ta\tj\t1\t1\t0\t0\te\t0\t", "m", b"\xff{"],
        ["h", "too few fields", "m", ""],
    ]
    for fields in bad:
        home.command("XADD", key, "*", *fields)
    home.command("XADD", key, "*", "h", "task.completed\ta\tj\t1\t7\t0\t0\te\t0\t", "m", '{"result":1,"newer":2}')
    got = reader.read(block_ms=0)
    malformed = [e for e in got if isinstance(e, Malformed)]
    assert len(malformed) == len(bad) and malformed[0].raw == {"x": b"y"}
    (good,) = [e for e in got if isinstance(e, Event)]
    assert (good.seq, good.result) == (7, 1), "an unknown field of a newer sender is ignored"
    assert reader.ack(got) == len(bad) + 1
    assert home.command("XLEN", key) == 0


@pytest.mark.parametrize(
    "body",
    [
        b"\xff{",
        b'{"error":{"message":null,"cause":"rejected"}}',
        b'{"error":{"message":"x","retry_after_s":"soon"}}',
        b'{"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"x" * 100_000,
    ],
    ids=lambda body: str(body[:40]),
)
def test_an_end_whose_body_cannot_be_read_is_a_failure_of_its_task(
    broker: Broker, reader: EventReader, body: bytes
) -> None:
    broker.append([message("a")])
    home = broker.topology.home
    heads = "task.completed\ta\tj\t3\t7\t0\t0\te\t5\t\ntask.started\tb\tj\t1\t1\t0\t0\te\t5\t"
    home.command("XADD", home.keys.events("echo"), "*", "h", heads, "m", body)
    failed, started = events_of(reader)
    assert (failed.kind, failed.task_id, failed.attempt, failed.seq) == (EventKind.TASK_FAILED, "a", 3, 7)
    assert failed.error is not None and failed.error.cause is Cause.REJECTED
    assert failed.error.message.startswith("what its engine reported with task.completed can't be read: ")
    assert failed.error.evidence["bytes"] == len(body) and len(failed.error.evidence["start"]) <= 4096
    assert (started.kind, started.task_id) == (EventKind.TASK_STARTED, "b")


def test_a_foreign_member_among_the_queues_is_passed_over_and_said_once(
    broker: Broker, reader: EventReader, caplog: pytest.LogCaptureFixture
) -> None:
    broker.append([message("a")])
    home = broker.topology.home
    home.command("SADD", home.keys.stages(), b"\xff", "Not A Queue", "x" * 42)
    home.command("SADD", home.keys.engines(), b"\xff")
    assert broker.queues() == ["echo"]
    assert [stats.queue for stats in broker.snapshot().queues] == ["echo"]
    assert reader.read(block_ms=0) == []
    assert broker.registry.engines() == []
    forget_idle_readers(broker.topology, 0)
    [said] = [record.getMessage() for record in caplog.records]
    assert said.endswith(f"holds what is no name of a queue: Not A Queue, \\xff, {'x' * 42}")
    home.command("SREM", home.keys.stages(), b"\xff", "Not A Queue", "x" * 42)
    home.command("SREM", home.keys.engines(), b"\xff")


def test_a_foreign_value_in_the_records_is_no_record(broker: Broker, engine: MakeEngine) -> None:
    home = broker.topology.home
    for raw in (b"", b"\xc1", b"\x01", b"text", b"\x93\x01\x02\xa1?"):
        home.command("HSET", home.keys.tasks("echo"), "a", raw)
        assert broker.records("echo", ["a"]) == {}
        assert broker.remove("echo", "a") in ("absent", "removed")
    home.command("HSET", home.keys.tasks("echo"), "a", b"\xc1")
    assert broker.append([message("a")]) == ["added"]
    assert [c.task_id for c in engine().claim()] == ["a"]
