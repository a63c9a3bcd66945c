"""Overlapping calls of one worker in two web processes: each gets its own answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis
from django.test import Client

from dalston_queue.api.requests.worker_polling import poll
from dalston_queue.broker import Broker, connect
from dalston_queue.broker.engine.remote import NODE, Hold, RemoteWorker, Renewal
from dalston_queue.broker.errors import Fenced
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo, TaskMessage
from dalston_queue.broker.protocol.types import Cause, EngineState, Priority, RecordState, Settled
from dalston_queue.ids import uuid7
from tests.api.conftest import Api
from tests.support import wait_until


def append(broker: Broker, *queues: str, priority: Priority = Priority.MEDIUM) -> list[str]:
    messages = [
        TaskMessage(task_id=str(uuid7()), job_id=str(uuid7()), queue=queue, task_type="t", attempt=1, priority=priority)
        for queue in queues
    ]
    broker.append(messages)
    return [message.task_id for message in messages]


def register(broker: Broker, *queues: str, capacity: int = 4) -> Callable[[], RemoteWorker]:
    """Returns a function that finds and resumes the worker, as a web process does first in each call."""
    engine = EngineBeat(engine_id="http.test.1", state=EngineState.READY, queues=queues, capacity=capacity)
    RemoteWorker.register(broker, engine)

    def resumed() -> RemoteWorker:
        worker = RemoteWorker.find(broker, engine.engine_id)
        assert worker is not None
        worker.resume()
        return worker

    return resumed


def test_two_results_at_once_are_both_settled(broker: Broker) -> None:
    resumed = register(broker, "echo")
    tasks = append(broker, "echo", "echo")
    worker = resumed()
    assert {task.message.task_id for task in worker.claim(2, Renewal())} == set(tasks)
    here, there = resumed(), resumed()  # both at the same number
    assert [one.settle(Hold(task, 1), Completed(1)) for one, task in zip((here, there), tasks, strict=True)] == [
        Settled.ACCEPTED
    ] * 2
    states = [record.state for record in broker.records("echo", tasks).values()]
    assert states == [RecordState.SETTLED] * 2
    assert here.settle(Hold(tasks[1], 1), Completed(1)) is Settled.LOST


def test_a_poll_that_meets_a_result_claims_only_for_itself(broker: Broker) -> None:
    resumed = register(broker, "echo")
    [first] = append(broker, "echo")
    resumed().claim(1, Renewal())
    polling, reporting = resumed(), resumed()
    [second] = append(broker, "echo")
    assert reporting.settle(Hold(first, 1), Completed(1)) is Settled.ACCEPTED
    assert polling.claim(1, Renewal()) == []  # its number was taken
    assert [task.message.task_id for task in polling.claim(1, Renewal())] == [second]


def test_a_worker_of_several_queues_is_served_from_all_and_renews_all(broker: Broker) -> None:
    resumed = register(broker, "a", "b")
    tasks = append(broker, "a", "a", "b")
    worker = resumed()
    holds = [task.hold for task in worker.claim(4, Renewal())]
    assert sorted(hold.task_id for hold in holds) == sorted(tasks)
    renewal = resumed().renew(holds, find_missing=True)
    assert (sorted(renewal.held), renewal.missing, renewal.lost) == (sorted(holds), [], [])
    broker.request_cancel("b", tasks[2], 1)
    renewal = resumed().renew([Hold(tasks[2], 1), Hold(tasks[0], 2)], find_missing=True)
    assert (renewal.cancelled, renewal.lost) == ([Hold(tasks[2], 1)], [Hold(tasks[0], 2)])
    assert sorted(task.message.task_id for task in renewal.missing) == sorted(tasks[:2])
    assert sorted(resumed().leave()) == sorted(holds)
    assert broker.registry.engines() == []


def test_a_queue_on_two_servers_is_served_from_both(redis_url: str, prefix: str) -> None:
    other = redis_url.removesuffix("/0") + "/1"
    broker = connect(redis_url, prefix=prefix, shards=f"echo/high={other}")
    resumed = register(broker, "echo")
    [medium], [high] = append(broker, "echo"), append(broker, "echo", priority=Priority.HIGH)
    holds = [task.hold for task in resumed().claim(4, Renewal())]
    assert [hold.task_id for hold in holds] == [high, medium]
    assert sorted(resumed().renew(holds, find_missing=True).held) == sorted(holds)
    assert [resumed().settle(hold, Completed(1)) for hold in holds] == [Settled.ACCEPTED] * 2
    worker = resumed()
    with ExitStack() as files:
        for _ in range(1100):
            files.enter_context(Path("/dev/null").open())
        assert worker.claim(4, Renewal()) == [] and not worker.wait(0.05)  # on both at once, whatever else is open
    assert worker.leave() == []
    worker.close()
    broker.reset_queue("echo")
    broker.close()
    with redis.Redis.from_url(other) as client:
        assert list(client.scan_iter(f"{prefix}:*")) == []


def test_a_poll_that_is_woken_in_vain_is_a_heartbeat(broker: Broker) -> None:
    """Other workers claim first each time."""
    worker = register(broker, "echo")()
    home, over = broker.home, threading.Event()

    def wake() -> None:
        while not over.wait(0.01):
            home.command("RPUSH", home.keys.wake("echo"), "1")

    waking = threading.Thread(target=wake)
    waking.start()
    [before] = broker.registry.engines()
    poll(worker, [], None, 1.5)
    over.set()
    waking.join()
    worker.close()
    [after] = broker.registry.engines()
    assert after.beat > before.beat


def test_a_poll_after_the_worker_left_makes_no_entry(broker: Broker) -> None:
    resumed = register(broker, "echo")
    late = resumed()
    resumed().leave()
    late.start_poll()
    home = broker.home
    assert not late.is_newest_poll() and not home.command("EXISTS", home.keys.engine(late.engine.engine_id))


def test_a_suspect_runs_alone(broker: Broker) -> None:
    resumed = register(broker, "echo")
    [suspect] = append(broker, "echo")
    for attempt in range(2):
        doomed = f"doomed.{attempt}"
        engine = EngineBeat(engine_id=doomed, state=EngineState.READY, queues=("echo",))
        RemoteWorker.register(broker, engine)
        worker = RemoteWorker(broker, engine)
        worker.resume()
        assert len(worker.claim(1, Renewal())) == 1
        broker.reclaim(doomed, ["echo"], max_deliveries=5, max_losses=5)
    [other] = append(broker, "echo")
    worker = resumed()
    [task] = worker.claim(4, Renewal())  # the suspect comes last, and never with another task
    assert task.message.task_id == other
    worker.settle(task.hold, Completed(1))
    [task] = worker.claim(4, Renewal())
    assert (task.message.task_id, task.alone) == (suspect, True)
    append(broker, "echo")
    assert worker.claim(4, worker.renew([task.hold], find_missing=True)) == []


def is_shown(client: Client, page: str, part: str) -> None:
    """The pages share a reading for a moment, also with the test before."""
    wait_until(lambda: part in client.get(page).content.decode(), what=f"{part} on {page}")


def test_workers_are_shown_among_the_engines(
    broker: Broker, token_for: Callable[..., str], admin_client: Client
) -> None:
    answer = Api(token_for("worker")).post("/internal/workers/register", {
        "stages": ["echo"], "name": "cpu-box", "version": "1.2", "capabilities": ["gpu"], "capacity": 3,
    })  # fmt: skip
    worker_id = answer.json()["worker_id"]
    [engine] = broker.registry.engines()
    assert (engine.node_id, engine.engine_id, engine.report.engine) == (NODE, worker_id, "cpu-box")
    assert (engine.capabilities, engine.capacity, engine.report.version) == (("gpu",), 3, "1.2")
    assert 0 < engine.report.started_at_ms <= engine.at_ms
    for page, shown in (("/", f'id="node-{NODE}"'), ("/nodes/", worker_id), (f"/nodes/{NODE}/", worker_id)):
        is_shown(admin_client, page, shown)


def test_a_worker_shows_what_it_runs_as_an_engine_does(
    broker: Broker, token_for: Callable[..., str], admin_client: Client
) -> None:
    api = Api(token_for("worker"))
    answer = api.post("/internal/workers/register", {"stages": ["echo"], "capacity": 3})
    worker = f"/internal/workers/{answer.json()['worker_id']}"

    def shown() -> tuple[int, list[str]]:
        [engine] = broker.registry.engines()
        return engine.report.running, [task.task_id for task in engine.report.tasks]

    ended, lost, kept = append(broker, "echo", "echo", "echo")
    tasks = api.post(f"{worker}/poll", {"held": []}).json()["tasks"]
    holds = {task["task_id"]: {"task_id": task["task_id"], "attempt": 1} for task in tasks}
    assert shown() == (3, [ended, lost, kept])
    assert api.post(f"{worker}/result", {**holds[ended], "status": "completed"}).status_code == 200
    assert shown() == (2, [lost, kept])
    broker.expire("echo", lost, 1, ErrorInfo(message="too long", cause=Cause.TIMEOUT))
    assert api.post(f"{worker}/heartbeat", {"held": [holds[lost], holds[kept]]}).json()["lost"] == [holds[lost]]
    assert shown() == (1, [kept])
    api.post(f"{worker}/progress", {**holds[kept], "fraction": 0.25, "message": "a quarter"})
    [engine] = broker.registry.engines()
    [task] = engine.report.tasks
    assert task.queue == "echo" and task.started_at_ms >= engine.report.started_at_ms > 0
    for part in (kept[-8:], "25 %", "a quarter"):
        is_shown(admin_client, f"/nodes/{NODE}/", part)
    assert api.post(f"{worker}/poll", {"held": []}).json()["tasks"][0]["task_id"] == kept, "delivered again"
    assert shown() == (0, []), "until it names it"
    assert api.post(f"{worker}/heartbeat", {"held": []}).json()["missing"] == [holds[kept]]
    assert shown() == (1, [kept])


def test_a_draining_worker_that_polls_is_draining_still(broker: Broker, token_for: Callable[..., str]) -> None:
    api = Api(token_for("worker"))
    worker = "/internal/workers/" + api.post("/internal/workers/register", {"stages": ["echo"]}).json()["worker_id"]
    for status, state in (("draining", EngineState.DRAINING), ("active", EngineState.READY)):
        assert api.post(f"{worker}/heartbeat", {"held": [], "status": status}).status_code == 200
        assert api.post(f"{worker}/poll", {"held": []}).status_code == 200
        assert [engine.state for engine in broker.registry.engines()] == [state]


def test_an_unused_wake_up_token_is_returned(broker: Broker) -> None:
    """Woken for one queue a worker may claim from the other; and a full worker takes no token."""
    worker = register(broker, "echo", "sleep", capacity=1)()
    home = broker.home

    def tokens(queue: str) -> int:
        return int(home.command("LLEN", home.keys.wake(queue)))

    worker.start_poll()
    first, second = (session.queue for session in worker._in_turn())
    append(broker, second)
    assert worker.wait(1.0) and tokens(second) == 0
    append(broker, first)
    renewal = Renewal()
    (claimed,) = worker.claim(1, renewal)
    assert claimed.message.queue == first, "the other queue has its turn"
    assert tokens(second) == 1, "an idle engine of that queue must wake up"
    renewal.held.append(claimed.hold)
    assert worker.claim(1, renewal) == [] and not worker.wait(0.01) and tokens(second) == 1
    worker.leave()
    worker.close()


def test_a_worker_whose_claim_fails_returns_its_token(broker: Broker) -> None:
    worker = register(broker, "echo")()
    home = broker.home
    append(broker, "echo")
    assert worker.wait(1.0)
    home.command("DEL", home.keys.session("echo", worker.engine.engine_id))
    with pytest.raises(Fenced):
        worker.claim(1, Renewal())
    worker.close()
    assert home.command("LLEN", home.keys.wake("echo")) == 1
    broker.registry.forget([worker.engine.engine_id])


@pytest.mark.parametrize("report", ["junk", "{}", None])
def test_a_worker_with_an_unreadable_entry_must_register_again(broker: Broker, report: str | None) -> None:
    resumed = register(broker, "echo")
    worker = resumed()
    worker.start_poll()
    home = broker.home
    key = home.keys.engine(worker.engine.engine_id)
    home.command("HSET", key, "poll", "junk")
    assert not worker.is_newest_poll()
    _ = home.command("HDEL", key, "report") if report is None else home.command("HSET", key, "report", report)
    assert RemoteWorker.find(broker, worker.engine.engine_id) is None
    worker.leave()
    worker.close()
