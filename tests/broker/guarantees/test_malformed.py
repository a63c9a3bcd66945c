"""Malformed entries and events: they end no process and never vanish, but become events with the raw fields."""

from collections.abc import Callable
from typing import Any

import pytest

from dalston_queue.broker import Broker, EventReader
from dalston_queue.broker.connection.shard import Call
from dalston_queue.broker.orchestrator.events import forget_idle_readers
from dalston_queue.broker.protocol.messages import Completed, Event, Malformed
from dalston_queue.broker.protocol.types import Cause, EventKind
from tests.broker.conftest import BUDGETS, MakeEngine, events_of, message

GOOD = {"t": "bad", "h": "1\tjob\t1\t0\t0", "m": '{"task_type":"echo"}'}  # h: version, job, attempt, enqueued, timeout


def add_raw(broker: Broker, fields: dict[str, Any]) -> str:
    """As another program does: XADD into the work stream."""
    home = broker.home
    flat = [part for pair in fields.items() for part in pair]
    return str(home.command("XADD", home.keys.stream("echo"), "*", *flat).decode())


def without(name: str) -> dict[str, Any]:
    return {k: v for k, v in GOOD.items() if k != name}


HUGE = "x" * (10 * 1024 * 1024)
NO_RECORD = "the entry has no readable record"
WRONG_ORDER = "the fields of the entry or of its record are in the wrong order"
NO_VERSION = "the entry has no version"
UNKNOWN_VERSION = "the entry has an unknown version"
LACKS_A_FIELD = "the entry lacks a field"
WRONG_TYPE = "a field of the entry has the wrong type"
TOO_LARGE = "the entry is larger than 8388608 bytes"
CANNOT_BE_READ = "the entry can not be read: "
NO_NUMBER = f"{CANNOT_BE_READ}invalid literal for int() with base 10: "
# The fields of an entry, and why it is dead-lettered: when its task has no record, and when it has one (then the engine
# may be the one that can't read it).
UNREADABLE: list[tuple[dict[str, Any], str, str]] = [
    ({"foo": "bar"}, NO_VERSION, NO_VERSION),
    ({**GOOD, "h": "2\tjob\t1\t0\t0"}, UNKNOWN_VERSION, UNKNOWN_VERSION),
    ({**GOOD, "h": "12\tjob\t1\t0\t0"}, UNKNOWN_VERSION, UNKNOWN_VERSION),
    ({**GOOD, "h": "2\tnothing else as it was"}, UNKNOWN_VERSION, UNKNOWN_VERSION),
    (without("t"), LACKS_A_FIELD, LACKS_A_FIELD),
    (without("h"), NO_VERSION, NO_VERSION),
    (without("m"), LACKS_A_FIELD, LACKS_A_FIELD),
    ({**GOOD, "h": "1\tjob\t1\t0"}, LACKS_A_FIELD, f"{CANNOT_BE_READ}not enough values to unpack (expected 5, got 4)"),
    (
        {**GOOD, "h": "1\tjob\tone\t0\t0"},
        WRONG_TYPE,
        f"{CANNOT_BE_READ}it is of attempt b'one', and its record of b'1'",
    ),
    ({**GOOD, "h": "1\tjob\t2\t0\t0"}, NO_RECORD, f"{CANNOT_BE_READ}it is of attempt b'2', and its record of b'1'"),
    ({**GOOD, "h": "1\tjob\t1\tnow\t0"}, WRONG_TYPE, f"{NO_NUMBER}b'now'"),
    ({**GOOD, "h": "1\tjob\t1\t0\tsoon"}, WRONG_TYPE, f"{NO_NUMBER}b'soon'"),
    ({**GOOD, "t": ""}, WRONG_TYPE, WRONG_TYPE),
    ({**GOOD, "t": "x" * 201}, WRONG_TYPE, WRONG_TYPE),
    ({**GOOD, "t": b"\xff\xfe\t\n"}, WRONG_TYPE, WRONG_TYPE),
    (
        {**GOOD, "t": b"\xff\xfe"},
        NO_RECORD,
        f"{CANNOT_BE_READ}'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
    ),
    ({**GOOD, "m": b"\xff\xfe"}, NO_RECORD, f"{CANNOT_BE_READ}JSON is malformed: invalid character (byte 0)"),
    ({**GOOD, "m": '{"task_type":5}'}, NO_RECORD, f"{CANNOT_BE_READ}Expected `str`, got `int` - at `$.task_type`"),
    ({**GOOD, "t": HUGE}, TOO_LARGE, TOO_LARGE),
    ({**GOOD, "h": f"{GOOD['h']}\t{HUGE}"}, TOO_LARGE, TOO_LARGE),
    ({**GOOD, "m": HUGE}, TOO_LARGE, TOO_LARGE),
    ({**GOOD, "new": HUGE}, TOO_LARGE, TOO_LARGE),
    ({"h": GOOD["h"], "t": GOOD["t"], "m": GOOD["m"]}, NO_RECORD, WRONG_ORDER),
]


def add_with_record(broker: Broker, fields: dict[str, Any]) -> None:
    """As a dispatcher of another version would: the entry, and the record of the task that it is about."""
    home = broker.home
    task, stream = fields.get("t", GOOD["t"]), home.keys.stream("echo")
    line = f"w\t{add_raw(broker, fields)}\t{stream}\t0\tjob\t1\t1\t0\t0"
    home.command("HSET", home.keys.tasks("echo"), task, line)


def name_of(value: Any) -> str:
    return value if isinstance(value, str) else " ".join(f"{k}={str(v)[:20]!r}" for k, v in value.items())


@pytest.mark.parametrize(
    ("fields", "reason"), [*((fields, reason) for fields, reason, _ in UNREADABLE), (GOOD, NO_RECORD)], ids=name_of
)
def test_an_unreadable_entry_is_dead_lettered_raw_and_the_next_one_runs(
    broker: Broker, engine: MakeEngine, reader: EventReader, fields: dict[str, Any], reason: str
) -> None:
    check_dead_letter(broker, engine, reader, add_raw, fields, reason)


@pytest.mark.parametrize(("fields", "reason"), [(fields, reason) for fields, _, reason in UNREADABLE], ids=name_of)
def test_an_unreadable_entry_is_dead_lettered_even_if_its_task_has_a_record(
    broker: Broker, engine: MakeEngine, reader: EventReader, fields: dict[str, Any], reason: str
) -> None:
    """As a newer dispatcher writes it: the record is valid, only the entry is not."""
    dead_lettered = check_dead_letter(broker, engine, reader, add_with_record, fields, reason)
    task = fields.get("t", GOOD["t"])
    if fields.get("t") == GOOD["t"]:
        assert (dead_lettered.task_id, dead_lettered.attempt) == (task, 1), "the event names the task"
        assert broker.records("echo", [task]) == {}, "the tombstone went with the event"
    if task == GOOD["t"]:
        assert broker.append([message(task)]) == ["added"], "what is left of it stops no new attempt"


@pytest.mark.parametrize("task", [b"\xff\xfe", b"a\tb", b"a\nb"])
def test_a_task_id_that_no_event_can_hold_makes_no_other_event_unreadable(
    broker: Broker, engine: MakeEngine, reader: EventReader, task: bytes
) -> None:
    """All events of one call share an entry: a head that can't be read would make the others unreadable."""
    broker.append([message("a")])
    consumer = engine()
    (claimed,) = consumer.claim()
    add_with_record(broker, {**GOOD, "t": task})
    got = consumer.exchange([(claimed, Completed("done"))])
    assert got.settled == ["ok"] and got.claimed == [] and len(got.dead_lettered) == 1
    events = events_of(reader)
    assert [(e.task_id, e.result) for e in events if e.kind is EventKind.TASK_COMPLETED] == [("a", "done")]
    (dead_lettered,) = [e for e in events if e.kind is EventKind.TASK_DEAD_LETTERED]
    assert dead_lettered.raw is not None and dead_lettered.raw["t"] == task


def check_dead_letter(
    broker: Broker,
    engine: MakeEngine,
    reader: EventReader,
    add: Callable[[Broker, dict[str, Any]], object],
    fields: dict[str, Any],
    reason: str,
) -> Event:
    broker.append([message("first")])
    broker.remove("echo", "first")
    add(broker, fields)
    broker.append([message("good")])
    got = engine(capacity=2).exchange()
    assert [c.task_id for c in got.claimed] == ["good"]
    (malformed,) = got.dead_lettered
    (dead_lettered,) = [e for e in events_of(reader) if e.kind is EventKind.TASK_DEAD_LETTERED]
    assert dead_lettered.error is not None and dead_lettered.error.cause is Cause.REJECTED
    assert (malformed.reason, dead_lettered.error.message) == (reason, reason)
    expected = {k: v if isinstance(v, bytes) else v.encode() for k, v in fields.items()}
    assert dead_lettered.raw == expected
    stats = broker.snapshot().queues[0]
    assert stats.counters["dead_lettered"] == 1 and stats.waiting == 0 and stats.lanes[2].pending == 1
    return dead_lettered


@pytest.mark.parametrize("dies", [False, True])
def test_an_entry_without_a_record_is_dead_lettered_also_when_the_answer_to_its_claim_got_lost(
    broker: Broker, engine: MakeEngine, reader: EventReader, dies: bool
) -> None:
    home = broker.home
    consumer = engine("e1")
    add_raw(broker, GOOD)
    stream = home.keys.stream("echo")
    broker.append([message("first")])
    home.command("XGROUP", "CREATE", stream, "engines", "0")
    home.call(Call(stream, ("XREADGROUP", "GROUP", "engines", "e1", "COUNT", 1, "STREAMS", stream, ">")))
    if dies:
        assert broker.reclaim("e1", ["echo"], **BUDGETS).lost == ()
    else:
        assert consumer.renew_all().missing == []
    (dead_lettered,) = [e for e in events_of(reader) if e.kind is EventKind.TASK_DEAD_LETTERED]
    assert dead_lettered.error is not None and (dead_lettered.error.message, dead_lettered.job_id) == (NO_RECORD, "")
    assert dead_lettered.raw == {name: value.encode() for name, value in GOOD.items()}
    assert broker.snapshot().queues[0].counters["dead_lettered"] == 1


@pytest.mark.parametrize(
    "body", [b"\xff\xfe", b"not json", b"[]", b'{"task_type":5}', b'{"priority":"urgent","task_type":"x"}', b"{}",
    b"[" * 20_000]
)  # fmt: skip
def test_an_entry_of_ours_whose_json_cannot_be_read_is_dead_lettered_with_its_task(
    broker: Broker, engine: MakeEngine, reader: EventReader, body: bytes
) -> None:
    append_body(broker, body)
    broker.append([message("good")])
    consumer = engine(capacity=2)
    got = consumer.exchange()
    assert [c.task_id for c in got.claimed] == ["good"] and len(got.dead_lettered) == 1
    (dead_lettered,) = [e for e in events_of(reader) if e.kind is EventKind.TASK_DEAD_LETTERED]
    assert (dead_lettered.task_id, dead_lettered.attempt, dead_lettered.job_id) == ("bad", 1, "job")
    assert dead_lettered.raw is not None and dead_lettered.raw["m"] == body
    assert broker.records("echo", ["bad"]) == {}, "the tombstone went with the event"
    assert broker.snapshot().queues[0].lanes[2].pending == 1


def append_body(broker: Broker, body: bytes) -> None:
    home = broker.home
    keys = home.keys
    names = [keys.tasks("echo"), keys.lanes("echo"), keys.wake("echo"), keys.counters("echo")]
    names += [keys.running("echo"), keys.deadlines("echo"), keys.stream("echo")]
    home.run("append", names, ["", 32, 3, "bad", "job", 1, 0, 0, 0, 0, 0, body])
    home.command("SADD", keys.stages(), "echo")


NEWER: dict[str, dict[str, Any]] = {
    "entry": {**GOOD, "new": "field"},
    "head": {**GOOD, "h": f"{GOOD['h']}\tnew\tfields"},
    "json": {**GOOD, "m": '{"task_type":"echo","new":{"x":1}}'},
    "all": {**GOOD, "h": f"{GOOD['h']}\tnew", "m": '{"task_type":"echo","new":1}', "new": "field"},
}


@pytest.mark.parametrize("newer", NEWER)
def test_an_entry_with_an_unknown_field_is_run_by_an_older_engine(
    broker: Broker, engine: MakeEngine, reader: EventReader, newer: str
) -> None:
    """In the entry, in its head, in its JSON; also when it is redelivered, released or reclaimed."""
    broker.append([message("first")])
    broker.remove("echo", "first")
    add_with_record(broker, NEWER[newer])
    consumer = engine("e")
    (claimed,) = consumer.claim()
    assert (claimed.task_id, claimed.attempt, claimed.message.task_type) == ("bad", 1, "echo")
    assert consumer.release() == ["bad"]
    assert [c.task_id for c in consumer.claim()] == ["bad"]
    consumer.open()
    assert [c.task_id for c in consumer.renew_all().missing] == ["bad"]
    assert broker.reclaim("e", ["echo"], **BUDGETS).recovered == ("bad",)
    consumer.open()
    (claimed,) = consumer.claim()
    assert claimed.deliveries == 1 and claimed.settle(Completed()) == "ok"
    kinds = [event.kind for event in events_of(reader)]
    assert kinds[-1] is EventKind.TASK_COMPLETED and EventKind.TASK_DEAD_LETTERED not in kinds
    assert broker.snapshot().queues[0].counters["completed"] == 1


@pytest.mark.parametrize("newer", NEWER)
def test_a_copy_of_an_attempt_that_runs_is_not_run_twice(broker: Broker, engine: MakeEngine, newer: str) -> None:
    """Whatever its fields."""
    broker.append([message("bad"), message("good")])
    consumer = engine(capacity=3)
    assert [c.task_id for c in consumer.claim(1)] == ["bad"]
    add_raw(broker, NEWER[newer])
    assert [c.task_id for c in consumer.claim()] == ["good"]
    assert broker.snapshot().queues[0].counters == {"appended": 2, "duplicates": 1}


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
        assert len(got.dead_lettered) == 10
    assert rounds == 5
    assert sum(e.kind is EventKind.TASK_DEAD_LETTERED for e in events_of(reader)) == 50


def test_a_malformed_event_is_read_raw_and_can_be_acknowledged(broker: Broker, reader: EventReader) -> None:
    broker.append([message("a")])
    home = broker.home
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
    home = broker.home
    heads = "task.completed\ta\tj\t3\t7\t0\t0\te\t5\t\ntask.started\tb\tj\t1\t1\t0\t0\te\t5\t"
    home.command("XADD", home.keys.events("echo"), "*", "h", heads, "m", body)
    failed, started = events_of(reader)
    assert (failed.kind, failed.task_id, failed.attempt, failed.seq) == (EventKind.TASK_FAILED, "a", 3, 7)
    assert failed.error is not None and failed.error.cause is Cause.REJECTED
    assert failed.error.message.startswith("what its engine reported with task.completed can't be read: ")
    assert failed.error.evidence["bytes"] == len(body) and len(failed.error.evidence["start"]) <= 4096
    assert (started.kind, started.task_id) == (EventKind.TASK_STARTED, "b")


def test_a_member_that_is_no_queue_name_is_skipped_and_logged_once(
    broker: Broker, reader: EventReader, caplog: pytest.LogCaptureFixture
) -> None:
    broker.append([message("a")])
    home = broker.home
    home.command("SADD", home.keys.stages(), b"\xff", "Not A Queue", "x" * 42)
    home.command("SADD", home.keys.engines(), b"\xff")
    assert broker.queues() == ["echo"]
    assert [stats.queue for stats in broker.snapshot().queues] == ["echo"]
    assert reader.read(block_ms=0) == []
    assert broker.registry.engines() == []
    forget_idle_readers(broker, 0)
    [logged] = [record.getMessage() for record in caplog.records]
    assert logged.endswith(f"has members that are no queue names: Not A Queue, \\xff, {'x' * 42}")
    home.command("SREM", home.keys.stages(), b"\xff", "Not A Queue", "x" * 42)
    home.command("SREM", home.keys.engines(), b"\xff")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda fields: fields[:5], NO_RECORD),
        (lambda fields: [*fields[:6], b"x", *fields[7:]], NO_RECORD),
        (lambda fields: [*fields[:4], b"a\nb", *fields[5:]], NO_RECORD),
        (lambda fields: [*fields[:8], b"x"], NO_RECORD),
        (lambda fields: [*fields, b"newer"], WRONG_ORDER),
    ],
)
def test_an_entry_whose_record_is_unreadable_is_dead_lettered_alone(
    broker: Broker, engine: MakeEngine, reader: EventReader, damage: Callable[[list[bytes]], list[bytes]], reason: str
) -> None:
    """Tasks that were claimed with it are run and settled, and the events that they share an entry with are read."""
    broker.append([message("a"), message("b")])
    home = broker.home
    raw = home.command("HGET", home.keys.tasks("echo"), "a")
    home.command("HSET", home.keys.tasks("echo"), "a", b"\t".join(damage(raw.split(b"\t"))))
    consumer = engine(capacity=2)
    got = consumer.exchange()
    assert [each.reason for each in got.dead_lettered] == [reason]
    assert [c.task_id for c in got.claimed] == ["b"]
    assert consumer.exchange([(got.claimed[0], Completed())]).settled == ["ok"]
    kinds = [(event.kind, event.task_id) for event in events_of(reader)]
    assert kinds == [("task.started", "b"), ("task.dead_lettered", "a"), ("task.completed", "b")]


def test_a_value_of_another_program_is_no_record(broker: Broker, engine: MakeEngine) -> None:
    home = broker.home
    for raw in (b"", b"\xc1", b"\x01", b"text", b"\x93\x01\x02\xa1?"):
        home.command("HSET", home.keys.tasks("echo"), "a", raw)
        assert broker.records("echo", ["a"]) == {}
        assert broker.remove("echo", "a") in ("absent", "removed")
    home.command("HSET", home.keys.tasks("echo"), "a", b"\xc1")
    assert broker.append([message("a")]) == ["added"]
    assert [c.task_id for c in engine().claim()] == ["a"]
