"""Events: none is lost when a reader dies, and acknowledging deletes them."""

import pytest

from dalston_queue.broker import Broker, EventReader
from dalston_queue.broker.protocol.keys import JOBS
from dalston_queue.broker.protocol.messages import Completed, Event
from dalston_queue.broker.protocol.types import EventKind
from tests.broker.conftest import MakeEngine, events_of, message


def test_events_written_before_any_reader_are_read(broker: Broker, engine: MakeEngine) -> None:
    """A group created at `$` would skip them."""
    broker.append([message("a")])
    engine().claim()[0].settle(Completed())
    broker.publish_jobs_created(["j1", "j2"])
    reader = EventReader(broker, "late")
    kinds = [e.kind for e in events_of(reader)]
    assert kinds.count(EventKind.JOB_CREATED) == 2 and EventKind.TASK_COMPLETED in kinds
    reader.close()


def test_two_readers_share_the_events(broker: Broker, engine: MakeEngine) -> None:
    one, two = EventReader(broker, "one"), EventReader(broker, "two")
    broker.publish_jobs_created([f"j{n}" for n in range(10)])
    first, second = one.read(count=5, block_ms=0), two.read(count=50, block_ms=0)
    assert len(first) == 5 and len(second) == 5
    for reader, batch in ((one, first), (two, second)):
        reader.ack(batch)
        reader.close()


def test_a_blocked_reader_wakes_for_an_event(broker: Broker, engine: MakeEngine, reader: EventReader) -> None:
    broker.append([message("a")])
    assert reader.read(block_ms=10) == []
    consumer = engine()
    consumer.claim()
    (started,) = reader.read(block_ms=1000)
    assert isinstance(started, Event) and started.kind is EventKind.TASK_STARTED
    reader.ack([started])


def test_what_is_not_acknowledged_comes_again_after_a_restart(broker: Broker) -> None:
    broker.publish_jobs_created(["j1"])
    first = EventReader(broker, "same-name")
    before = first.read(block_ms=0)
    again = EventReader(broker, "same-name")
    after = again.read(block_ms=0)
    assert [e.entry_id for e in after] == [e.entry_id for e in before]
    assert again.ack(after) == 1 and again.ack(after) == 0, "repeatable"
    again.close()


def test_another_reader_takes_over_what_a_dead_one_held(broker: Broker) -> None:
    broker.publish_jobs_created([f"j{n}" for n in range(25)])
    dead = EventReader(broker, "dead")
    assert len(dead.read(block_ms=0)) == 25
    heir = EventReader(broker, "heir")
    assert heir.take_over(idle_ms=60_000) == []
    taken = []
    while batch := heir.take_over(idle_ms=0, count=10):
        taken += batch
        heir.ack(batch)
    assert len(taken) == 25, "the cursor reaches the rest"
    heir.close()


def test_an_entry_with_several_events_is_deleted_when_all_are_acknowledged(
    broker: Broker, engine: MakeEngine, reader: EventReader
) -> None:
    broker.append([message(f"t{n}") for n in range(3)])
    engine(capacity=3).claim()
    batch = reader.read(block_ms=0)
    assert len(batch) == 3 and len({e.entry_id for e in batch}) == 1
    key = broker.home.keys.events("echo")
    reader.ack(batch[:2])
    assert broker.home.command("XLEN", key) == 1
    assert reader.ack(batch[2:]) == 1
    assert broker.home.command("XLEN", key) == 0


def test_a_stream_that_is_deleted_just_before_taking_over_does_not_stop_the_reader(broker: Broker) -> None:
    """A flush at the wrong moment ended the orchestrator: it reads only once a second which streams there are."""
    broker.publish_jobs_created(["j1"])
    reader = EventReader(broker, "one")
    reader.ack(reader.read(block_ms=0))
    home = broker.home
    home.command("DEL", home.keys.events(JOBS))
    assert reader.take_over(idle_ms=0) == []
    broker.publish_jobs_created(["j2"])
    (created,) = reader.read(block_ms=0)
    assert isinstance(created, Event) and created.job_id == "j2"
    reader.ack([created])
    reader.close()


def test_a_deleted_event_stream_is_created_again(broker: Broker, engine: MakeEngine, reader: EventReader) -> None:
    broker.append([message("a"), message("b")])
    consumer = engine()
    consumer.claim()
    events_of(reader)
    home = broker.home
    home.command("DEL", home.keys.events("echo"))
    assert reader.read(block_ms=0) == []
    consumer.exchange([(consumer.held[0], Completed())])
    kinds = {e.kind for e in events_of(reader)}
    assert EventKind.TASK_COMPLETED in kinds


def test_unread_hints_about_jobs_are_capped(
    broker: Broker, reader: EventReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are only hints: pending jobs are polled as well. The oldest are trimmed, in steps."""
    monkeypatch.setattr("dalston_queue.broker.operations.append.JOB_HINTS", 100)
    broker.publish_jobs_created(f"j{n}" for n in range(500))
    left = [event.job_id for event in events_of(reader)]
    assert 100 <= len(left) < 300
    assert left[-1] == "j499"
