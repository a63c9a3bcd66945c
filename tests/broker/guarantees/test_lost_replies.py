"""Lost replies: each script runs, its reply is dropped, the call is repeated, and it counts once."""

from collections.abc import Callable
from typing import Any

import pytest

from dalston_queue.broker import Broker, Consumer, EventReader
from dalston_queue.broker.broker import Limit
from dalston_queue.broker.connection.scripts import files, load
from dalston_queue.broker.errors import Unavailable
from dalston_queue.broker.nodes.commands import Command, CommandState, Reply
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.operations.lanes import retire_empty
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo
from dalston_queue.broker.protocol.types import EngineState, NodeState, Priority, Role
from tests.broker.conftest import BUDGETS, clean, message, open_consumer
from tests.broker.proxy import LossyProxy

ERROR = ErrorInfo(message="test")


def repeat(call: Callable[[], Any]) -> Any:
    with pytest.raises(Unavailable):
        call()
    return call()


def running(broker: Broker, name: str = "e", **options: Any) -> Consumer:
    broker.append([message("a", timeout_ms=60_000)])
    made = open_consumer(broker, name, **options)
    assert len(made.claim()) == 1
    return made


# Each case returns the call whose reply is lost and that is repeated, and the check of its second result.


def _open(b: Broker) -> Any:
    made = Consumer(b, "e", ["echo"])
    return made.open, lambda _: b.registry.beat_counters() is not None and made.claim() == []


def _append(b: Broker) -> Any:
    def once(answer: Any) -> bool:
        return answer == ["duplicate", "duplicate"] and b.snapshot().queues[0].waiting == 2

    return lambda: b.append([message("a"), message("b")]), once


def _exchange(b: Broker) -> Any:
    made = running(b)
    b.append([message("b"), message("c")])
    (first,) = made.held

    def once(got: Any) -> bool:
        (second,) = got.claimed
        stats = b.snapshot().queues[0]
        assert got.settled == ["ok"] and second.task_id == "b" and made.held == [second]
        assert (stats.waiting, stats.running, stats.counters["completed"]) == (1, 1, 1)
        return made.exchange([(second, Completed())]).claimed[0].task_id == "c"

    return lambda: made.exchange([(first, Completed())]), once


def _renew_all(b: Broker) -> Any:
    made = running(b)
    return lambda: made.renew_all({"a": 1}), lambda renewed: renewed.lost == [] and renewed.missing == []


def _release(b: Broker) -> Any:
    made = running(b)

    def once(given: Any) -> bool:
        stats = b.snapshot().queues[0]
        assert given == [], "the second time it is no longer ours"
        return made.held == [] and stats.waiting == 1 and stats.counters["released"] == 1

    return made.release, once


def _reclaim(b: Broker) -> Any:
    running(b)
    return lambda: b.reclaim(
        "e", ["echo"], **BUDGETS
    ), lambda taken: taken.moved == 0 and b.records("echo", ["a"])["a"].deliveries == 1


def _expire(b: Broker) -> Any:
    running(b)
    return lambda: b.expire("echo", "a", 1, ERROR), lambda answer: answer == "absent" and b.pending("echo").total == 0


def _cancel(b: Broker) -> Any:
    b.append([message("a")])
    return lambda: b.remove("echo", "a"), lambda answer: answer == "absent" and b.snapshot().queues[0].waiting == 0


def _dead_letter(b: Broker) -> Any:
    made = open_consumer(b)
    keys = b.home.keys
    names = [keys.tasks("echo"), keys.lanes("echo"), keys.wake("echo"), keys.counters("echo")]
    names += [keys.running("echo"), keys.deadlines("echo"), keys.stream("echo")]
    b.home.run("append", names, ["", 32, 3, "bad", "job", 1, 0, 0, 0, 0, 0, b"not json"])
    b.home.command("SADD", keys.stages(), "echo")

    def call() -> Any:
        found = made.exchange()
        made.renew_all()
        return found

    return call, lambda _: b.snapshot().queues[0].counters["dead_lettered"] == 1 and b.pending("echo").total == 0


def _ack(b: Broker) -> Any:
    running(b).held[0].settle(Completed())
    reader = EventReader(b, "o")
    batch = reader.read(block_ms=0)
    return lambda: reader.ack(
        batch
    ), lambda _: b.records("echo", ["a"]) == {} and b.snapshot().queues[0].events_backlog == 0


def _close(b: Broker) -> Any:
    made = open_consumer(b)
    return made.close, lambda _: b.registry.beat_counters() == {}


def _forget(b: Broker) -> Any:
    b.publish_jobs_created(["j"])
    reader = EventReader(b, "o")
    reader.ack(reader.read(block_ms=0))
    home = b.home
    key = home.keys.events("_jobs")
    return reader.close, lambda _: home.client.xinfo_groups(key)[0]["consumers"] == 0


def _acquire(b: Broker) -> Any:
    lease = b.lease(Role.ORCHESTRATOR, "me")
    return lambda: lease.acquire(1), lambda held: held and lease.held


def _renew(b: Broker) -> Any:
    lease = b.lease(Role.ORCHESTRATOR, "me")
    lease.acquire(1)
    return lease.renew, lambda held: held and lease.held


def _release_lease(b: Broker) -> Any:
    lease = b.lease(Role.ORCHESTRATOR, "me")
    lease.acquire(1)
    return lease.release, lambda _: lease.leader() is None


def _retire(b: Broker) -> Any:
    b.append([message("a", required_capabilities=("gpu",))])
    b.remove("echo", "a")
    return lambda: retire_empty(b.home, "echo"), lambda _: b.lanes("echo") == []


def _forget_queue(b: Broker) -> Any:
    b.append([message("a")])
    b.remove("echo", "a")
    return lambda: b.forget_lane("echo"), lambda _: b.queues() == []


def _ghosts(b: Broker) -> Any:
    (claimed,) = running(b).held
    b.home.command("XDEL", claimed.stream, claimed.entry_id)
    return lambda: b.acknowledge_ghosts("echo"), lambda _: b.snapshot().queues[0].lanes[2].consistent


def _beats(b: Broker) -> Any:
    beat = EngineBeat(engine_id="e", state=EngineState.READY, queues=("echo",))
    b.registry.beat_node("n", NodeState.ACTIVE, [beat])
    return lambda: b.registry.beat_node("n", NodeState.ACTIVE, [beat]), lambda _: len(b.registry.engines()) == 1


def _condemn(b: Broker) -> Any:
    open_consumer(b)
    beats = b.registry.beat_counters()["e"]
    return lambda: b.registry.condemn(beats), lambda _: list(b.registry.dead("echo")) == ["e"]


def _group(b: Broker) -> Any:
    b.publish_jobs_created(["j"])
    reader = EventReader(b, "o")
    return lambda: reader.read(block_ms=0), lambda batch: reader.ack(batch) == 1


def _send(b: Broker) -> Any:
    node = b.node("n")
    b.registry.beat_node("n", NodeState.ACTIVE, [])
    sent = Command(name="drain", command_id="c1")
    return lambda: node.send(sent), lambda _: [c.name for c in node.receive("0")] == ["drain"]


def _answer(b: Broker) -> Any:
    node = b.node("n")
    b.registry.beat_node("n", NodeState.ACTIVE, [])
    node.send(Command(name="drain", command_id="c1"))
    done = Reply(command_id="c1", state=CommandState.DONE, message="drained")

    def once(_: Any) -> bool:
        status = node.status("c1")
        return status is not None and (status.state, status.message) == (CommandState.DONE, "drained")

    return lambda: node.reply(done), once


def _write_log(b: Broker) -> Any:
    """The batch may be there twice; its lines have positions, so that a reader shows each once."""
    logs = b.logs("n")
    b.registry.beat_node("n", NodeState.ACTIVE, [])
    return lambda: logs.write(
        "demo.0", [(7, "a line")]
    ), lambda _: {line.position for batch in logs.read("0") for line in batch.lines} == {7}


def _rate(b: Broker) -> Any:
    """Each request has a name of its own, so one that is repeated by its caller counts as two: never above the
    limit."""
    limits = [Limit(2, 60)]

    def once(wait: Any) -> bool:
        spent = b.take_rate("caller", limits) > 0
        b.home.command("DEL", b.home.keys.rate("caller"))
        return wait == 0 and spent

    return lambda: b.take_rate("caller", limits), once


def _requeue(b: Broker) -> Any:
    running(b)
    return lambda: b.requeue("echo", "a", 1, ERROR), lambda again: again == "waiting"


def _reads(call: Callable[[Broker], Any]) -> Callable[[Broker], Any]:
    def prepare(b: Broker) -> Any:
        b.append([message("a", priority=Priority.LOW)])
        return lambda: call(b), lambda _: True

    return prepare


CASES = {
    "open_session": _open,
    "append": _append,
    "settle_and_claim": _exchange,
    "renew": _renew_all,
    "release": _release,
    "reclaim": _reclaim,
    "expire": _expire,
    "cancel": _cancel,
    "dead_letter": _dead_letter,
    "ack_events": _ack,
    "close_session": _close,
    "forget_consumer": _forget,
    "lease_acquire": _acquire,
    "lease_renew": _renew,
    "lease_release": _release_lease,
    "retire_lane": _retire,
    "forget_queue": _forget_queue,
    "ghosts": _ghosts,
    "register": _beats,
    "count_beats": _beats,
    "index": _beats,
    "put_field": _condemn,
    "send_command": _send,
    "answer_command": _answer,
    "add_capped": _write_log,
    "ensure_group": _group,
    "take_rate": _rate,
    "requeue": _requeue,
    "waiting_page": _reads(lambda b: b.waiting("echo")),
    "held_page": _reads(lambda b: b.held("echo")),
    "queue_stats": _reads(lambda b: b.snapshot()),
    "pending_page": _reads(lambda b: b.pending("echo")),
}


def test_every_script_has_its_case() -> None:
    assert CASES.keys() == files().keys()


@pytest.mark.parametrize("name", CASES)
def test_a_lost_reply_changes_nothing(name: str, broker: Broker, lossy: Broker, proxy: LossyProxy) -> None:
    call, check = CASES[name](lossy)
    proxy.lose(load(name).sha.encode())
    assert check(repeat(call))
    assert proxy.lost == 1
    clean(lossy)
