"""Conformance of the worker protocol: plain HTTP against a real web process and a real orchestrator.

Every test has queues of its own. A worker counts as dead after 5 s here.
"""

from __future__ import annotations

import itertools
import secrets
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import ExitStack
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import redis
from pytest_django import DjangoDbBlocker

from dalston_queue.models import Task
from dalston_site.embedded.server import Server
from dalston_site.embedded.valkey import Valkey
from tests.api.workers.http_worker import Json, Worker, hold, refused
from tests.orchestrator.processes import FAST
from tests.support import Spawned, keeps_time, wait_until
from tests.web import ROOT, Web, environment

pytestmark = pytest.mark.django_db(transaction=True)
DEAD_AFTER_S = 5.0
_numbers = itertools.count()


class Site:
    """A web process and an orchestrator, on a Redis that a test may restart."""

    def __init__(self, redis: Server, web: Web) -> None:
        self.redis = redis
        self.web = web

    def stop_redis(self) -> None:
        self.redis.process.kill()
        self.redis.process.wait()

    def start_redis(self) -> None:
        port = int(urlsplit(self.redis.url).port or 0)
        self.redis._spawn(self.redis.recipe.command(port))
        wait_until(lambda: self.redis.recipe.is_ready(port, self.redis.pid), what="Redis again")


@pytest.fixture(scope="module")
def site(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("workers")
    with ExitStack() as ending:  # ends what has started, also if a later one fails to start
        server = Server(Valkey(folder / "valkey", {"appendfsync": "always"}), folder)
        ending.callback(server.stop)
        with django_db_blocker.unblock():
            env = {**environment(), **FAST, "REDIS_URL": server.url, "DALSTON_DEAD_AFTER_S": str(DEAD_AFTER_S)}
            env["DALSTON_BREAKER_OPEN_S"] = "3"
        orchestrator = Spawned([sys.executable, "manage.py", "runorchestrator"], folder / "orchestrator", env, ROOT)
        ending.callback(_end, orchestrator)
        orchestrator.wait_for("orchestrator ready", 60)  # one after the other: both load Django
        web = Web(env, folder / "web")
        ending.callback(_end, web.process)
        yield Site(server, web)


def _end(process: Spawned) -> None:
    process.stop()
    process.reap()


@pytest.fixture
def http(site: Site, token_for: Callable[..., str]) -> Iterator[httpx.Client]:
    with site.web.client(token_for("submit", "read", "worker")) as client:
        yield client


@pytest.fixture
def queue() -> str:
    return f"q{next(_numbers)}-{secrets.token_hex(3)}"


def submit(http: httpx.Client, queue: str, **fields: Any) -> str:
    answer = http.post("/api/v1/tasks", json={"task_type": queue, **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["task_id"])


def read(http: httpx.Client, task_id: str, wait: float = 30) -> Json:
    found: Json = http.get(f"/api/v1/tasks/{task_id}", params={"wait": wait}).json()
    return found


def test_a_worker_that_names_no_capacity_runs_five_tasks_at_once(http: httpx.Client, queue: str) -> None:
    path = "/api/v1/internal/workers"
    worker_id = http.post(f"{path}/register", json={"stages": [queue]}).json()["worker_id"]
    for _ in range(6):
        submit(http, queue)

    def claimed() -> list[Json]:
        tasks: list[Json] = http.post(f"{path}/{worker_id}/poll", json={"held": []}).json()["tasks"]
        return tasks

    wait_until(lambda: len(claimed()) == 5, what="five tasks")
    assert len(claimed()) == 5
    http.delete(f"{path}/{worker_id}")


def test_a_worker_runs_a_job_to_its_end(http: httpx.Client, queue: str) -> None:
    first, second = f"{queue}-a", f"{queue}-b"
    worker = Worker(http, first, second, name="stranger", version="1.2", capacity=2)
    assert worker.facts["heartbeat_seconds"] == 0.2
    assert (worker.facts["heartbeat_interval_ms"], worker.facts["poll_interval_ms"]) == (200, 1000)
    assert worker.facts["dead_after_seconds"] == DEAD_AFTER_S
    stages = [
        {"stage": first, "parameters": {"n": 1}, "timeout_seconds": 60},
        {"stage": second, "after": [first]},
    ]
    job = http.post("/api/v1/jobs", json={"name": "two", "stages": stages}).json()
    task = worker.take()
    assert (task["stage"], task["parameters"], task["attempt"], task["timeout_seconds"]) == (first, {"n": 1}, 1, 60)
    assert worker.call("start", hold(task)).json() == {"acknowledged": True, "cancel_requested": False}
    answer = worker.call("progress", {**hold(task), "fraction": 0.5, "message": "half"})
    assert answer.json() == {"acknowledged": True, "cancel_requested": False}
    wait_until(lambda: read(http, task["task_id"], wait=0)["status"] == "running", what="the orchestrator knows")
    nodes = http.get("/api/v1/nodes").json()
    [engines] = [node["engines"] for node in nodes if node["node_id"] == "http"]
    [mine] = [engine for engine in engines if engine["engine_id"] == worker.facts["worker_id"]]
    assert (mine["state"], mine["queues"], mine["info"]["engine"]) == ("ready", [first, second], "stranger")
    assert worker.result(task, result={"sum": 3}).json()["accepted"]
    task = worker.take()
    assert (task["stage"], task["inputs"]) == (second, {first: {"sum": 3}})
    assert worker.result(task, result=None).status_code == 200
    done = http.get(f"/api/v1/jobs/{job['job_id']}?wait=30").json()
    assert done["status"] == "completed"
    assert [each["assigned_worker_id"] for each in done["tasks"]] == [worker.facts["worker_id"]] * 2
    assert done["tasks"][0]["result"] == {"sum": 3}


def test_no_task_is_delivered_to_two_workers(http: httpx.Client, queue: str) -> None:
    total, got = 40, Counter[str]()
    done = threading.Event()
    jobs = [{"name": "many", "stages": [{"stage": "one", "queue": queue}]} for _ in range(total)]
    http.post("/api/v1/jobs:batch", json={"jobs": jobs}).raise_for_status()

    def work() -> None:
        worker = Worker(http, queue, capacity=3)
        while not done.is_set():
            for task in worker.poll(0.5):
                got[task["task_id"]] += 1
                assert worker.result(task).status_code == 200
            if got.total() >= total:
                done.set()

    with ThreadPoolExecutor() as threads:
        for future in [threads.submit(work) for _ in range(4)]:
            future.result()
    assert set(got.values()) == {1} and len(got) == total
    wait_until(lambda: Task.objects.filter(status="completed").count() == total, what="all are stored")


def test_a_worker_without_heartbeats_loses_its_task_and_one_with_heartbeats_keeps_it(
    site: Site, http: httpx.Client, queue: str, token_for: Callable[..., str]
) -> None:
    mute, keeper, heir = Worker(http, queue, capacity=2), Worker(http, queue), Worker(http, queue)
    done, kept, task = (submit_and_take(http, queue, worker) for worker in (mute, keeper, mute))
    assert mute.result(done, result="done").status_code == 200
    with ThreadPoolExecutor() as threads:
        asked = time.monotonic()
        waiting = threads.submit(heir.take)  # the poll of a worker that has nothing is its heartbeat
        while not waiting.done():
            nothing = {"acknowledged": True, "should_drain": False, "cancelled": [], "lost": [], "missing": []}
            assert keeper.heartbeat(kept).json() == nothing
            wait_for([waiting], timeout=0.1)
        again = waiting.result()
    assert time.monotonic() - asked > 1
    assert (again["task_id"], again["attempt"], again["redelivered"]) == (task["task_id"], 1, False)
    for answer in (mute.result(task), mute.heartbeat(task), mute.call("poll", {"held": []})):
        assert refused(answer) == (409, "worker_lost")
    with site.web.client(token_for("operate")) as operator:
        late = operator.post(f"/api/v1/workers/{mute.facts['worker_id']}/drain", json={})
        assert refused(late) == (409, "state_conflict")
    assert heir.result(again, result="mine").status_code == 200
    assert read(http, again["task_id"])["result"] == "mine"
    assert refused(mute.result(task, result="late")) == (409, "worker_lost")
    assert mute.result(done, result="done").status_code == 200  # it was accepted, and still is
    assert keeper.result(kept).status_code == 200


def submit_and_take(http: httpx.Client, queue: str, worker: Worker) -> Json:
    task_id = submit(http, queue)
    wait_until(lambda: Task.objects.get(pk=task_id).status == "queued", what="it is queued")
    [task] = [task for task in worker.poll() if task["task_id"] == task_id]
    return task


def test_a_task_whose_poll_got_lost_is_redelivered(site: Site, http: httpx.Client, queue: str) -> None:
    worker = Worker(http, queue, capacity=2)
    task_id = submit(http, queue)
    address = urlsplit(site.web.url)
    wait_until(lambda: Task.objects.filter(status="queued").exists(), what="it is queued")
    with socket.create_connection((address.hostname or "", address.port or 0)) as connection:
        head = f"POST {worker.path}/poll HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
        token = http.headers["Authorization"]
        connection.sendall(f'{head}Authorization: {token}\r\nContent-Length: 11\r\n\r\n{{"held":[]}}'.encode())
        # the answer is never read
        wait_until(lambda: Task.objects.filter(status="running").exists(), what="it was claimed")
    assert worker.heartbeat().json()["missing"] == [{"task_id": task_id, "attempt": 1}]
    [task] = worker.poll()
    assert (task["task_id"], task["redelivered"]) == (task_id, True)
    assert worker.poll(0, held=[task]) == []
    assert worker.result(task).status_code == 200


def test_a_repeated_result_gets_the_same_answer_and_another_one_is_refused(http: httpx.Client, queue: str) -> None:
    first, second = submit(http, queue), submit(http, queue, max_retries=0)
    worker = Worker(http, queue)
    task = worker.take()
    answers = [worker.result(task, result=1) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert len({answer.text for answer in answers}) == 1
    assert refused(worker.result(task, "failed", error="no")) == (409, "task_lost")
    failed = worker.take()
    assert {task["task_id"], failed["task_id"]} == {first, second}
    assert [worker.result(failed, "failed", error="no").status_code for _ in range(2)] == [200] * 2
    assert refused(worker.result(failed, result=1)) == (409, "task_lost")
    assert read(http, failed["task_id"])["error"]["message"].startswith("no")


def test_results_that_fail_are_retried_or_rejected(http: httpx.Client, queue: str) -> None:
    worker = Worker(http, queue, capacity=2)
    submit(http, queue)
    task = worker.take()
    error = {"error": "try later", "error_type": "Busy", "cause": "rate_limited", "retry_after_seconds": 600}
    assert worker.result(task, "failed", **error).status_code == 200
    wait_until(lambda: Task.objects.get().status == "scheduled", what="it waits for its retry")
    found = read(http, task["task_id"], wait=0)
    assert found["error"] == {"message": "try later", "type": "Busy", "retriable": True, "cause": "rate_limited"}
    rejected = submit(http, queue)
    assert worker.result(worker.take(), "rejected", error="no such file").status_code == 200
    assert read(http, rejected)["status"] == "dead_letter"


def test_a_deadline_is_enforced_within_seconds_while_the_worker_beats(http: httpx.Client, queue: str) -> None:
    def once() -> float:
        task_id = submit(http, queue, timeout_seconds=1, max_retries=0)
        worker = Worker(http, queue)
        task = worker.take()
        deadline = datetime.fromisoformat(task["deadline_at"]).timestamp()
        lost = wait_until(lambda: worker.heartbeat(task).json()["lost"], what="the worker lost it")
        late = time.time() - deadline
        assert lost == [hold(task)]
        assert refused(worker.result(task, result=1)) == (409, "task_lost")
        assert read(http, task_id)["error"]["cause"] == "timeout"
        return late

    keeps_time(4.0, once)


def test_a_failure_that_is_not_retriable_is_a_dead_letter_at_once(http: httpx.Client, queue: str) -> None:
    worker = Worker(http, queue)
    hopeless = submit(http, queue)
    task = worker.take()
    assert refused(worker.result(task, "rejected", error="no", retriable=False)) == (422, "invalid")
    answers = [worker.result(task, "failed", error="no licence", retriable=False) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200] * 2
    found = read(http, hopeless)
    assert (found["status"], found["retry_count"]) == ("dead_letter", 0)
    assert (found["error"]["cause"], found["error"]["retriable"]) == ("error", False)
    letters = http.get("/api/v1/dead_letters?retriable=false").json()["items"]
    assert [(letter["task_id"], letter["retriable"]) for letter in letters] == [(hopeless, False)]
    assert http.get("/api/v1/dead_letters?retriable=true").json()["items"] == []


def test_a_worker_that_only_fails_gets_no_task_and_then_three_trials(http: httpx.Client, queue: str) -> None:
    worker = Worker(http, queue, capacity=8)
    for _ in range(5):
        submit(http, queue, max_retries=0)
        assert worker.result(worker.take(), "failed", error="no disk").status_code == 200
    for _ in range(5):
        submit(http, queue)
    assert worker.poll(0) == []
    engines = [engine for node in http.get("/api/v1/nodes").json() for engine in node["engines"]]
    [shown] = [engine for engine in engines if engine["engine_id"] == worker.facts["worker_id"]]
    assert shown["state"] == "unhealthy"
    assert shown["info"]["breaker"] in {"open", "half_open"}, "it opened 3 s ago at most, or a slow test ago"
    assert shown["info"]["why"].startswith("5 tasks failed in a row: ")
    trials = wait_until(lambda: worker.poll(0), what="the trial tasks")
    assert len(trials) == 3
    assert worker.poll(0, held=trials) == []
    for task in trials:
        assert worker.result(task).status_code == 200
    assert len(worker.poll(0)) == 2


def test_a_worker_sees_that_its_task_is_cancelled(http: httpx.Client, queue: str) -> None:
    task_id = submit(http, queue)
    worker = Worker(http, queue)
    task = worker.take()
    assert refused(worker.result(task, "cancelled")) == (422, "invalid")
    assert http.delete(f"/api/v1/tasks/{task_id}").json()["was_running"]
    assert worker.heartbeat(task).json()["cancelled"] == [hold(task)]
    assert worker.call("progress", {**hold(task), "fraction": 0.1}).json()["cancel_requested"]
    assert [worker.result(task, "cancelled").status_code for _ in range(2)] == [200] * 2
    assert read(http, task_id)["status"] == "cancelled"


def test_a_waiting_poll_wakes_within_a_second(http: httpx.Client, queue: str) -> None:
    def once() -> float:
        worker = Worker(http, queue)
        with ThreadPoolExecutor() as threads:
            waiting = threads.submit(lambda: (worker.take(), time.time()))
            submit(http, queue)
            task, at = waiting.result()
        enqueued = Task.objects.get(pk=task["task_id"]).first_enqueued_at
        assert enqueued is not None
        worker.result(task)
        return at - enqueued.timestamp()

    keeps_time(1.0, once)


def test_a_newer_poll_ends_an_older_one(site: Site, http: httpx.Client, queue: str) -> None:
    worker = Worker(http, queue)
    entry = f"{site.web.env['DALSTON_REDIS_PREFIX']}:engine:{worker.facts['worker_id']}"
    with ThreadPoolExecutor() as threads, redis.Redis.from_url(site.redis.url) as keys:
        older = threads.submit(worker.poll, 20)
        wait_until(lambda: keys.hget(entry, "poll"), what="it has arrived")
        newer = threads.submit(worker.poll, 15)
        assert older.result(10) == []
        submit(http, queue)
        [task] = newer.result()
    assert worker.result(task).status_code == 200


def test_a_worker_gets_no_more_than_its_capacity(http: httpx.Client, queue: str) -> None:
    worker = Worker(http, queue, capacity=2)
    for _ in range(4):
        submit(http, queue)
    wait_until(lambda: Task.objects.filter(status="queued").count() >= 2, what="the window has enough")
    [one] = worker.poll(available_capacity=1)
    [two] = worker.poll(held=[one], available_capacity=10)
    assert worker.poll(0, held=[one, two]) == []
    assert len(worker.poll(0)) == 2  # both again: they were not named
    worker.result(one)
    assert len(worker.poll(held=[two])) == 1


def test_leaving_releases_the_tasks_uncounted(http: httpx.Client, queue: str) -> None:
    submit(http, queue)
    leaver, heir = Worker(http, queue), Worker(http, queue)
    task = leaver.take()
    beat = leaver.call("heartbeat", {"held": [hold(task)], "status": "draining"})
    assert beat.status_code == 200
    assert http.delete(leaver.path).json() == {"requeued": [hold(task)]}
    again = heir.take()
    assert (again["task_id"], again["attempt"], again["deliveries"]) == (task["task_id"], 1, 0)
    assert refused(leaver.result(task)) == (404, "not_found")
    assert heir.result(again).status_code == 200


def test_a_worker_outlives_a_restart_of_redis(site: Site, http: httpx.Client, queue: str) -> None:
    task_id = submit(http, queue)
    worker = Worker(http, queue)
    task = worker.take()
    site.stop_redis()
    try:
        assert refused(worker.result(task, result="kept")) == (503, "redis_unavailable")
    finally:
        site.start_redis()
    assert worker.heartbeat(task).json()["lost"] == []
    assert worker.result(task, result="kept").status_code == 200
    assert read(http, task_id)["result"] == "kept"


def test_bad_input_and_other_tokens_are_refused(
    site: Site, http: httpx.Client, queue: str, token_for: Callable[..., str]
) -> None:
    register = "/api/v1/internal/workers/register"
    bodies: list[Json] = [
        {},
        {"stages": []},
        {"stages": ["Not A Queue"]},
        {"stages": [queue], "capacity": 0},
        {"stages": [queue], "capacity": 257},
        {"stages": [queue], "capabilities": ["GPU!"]},
        {"stages": [queue], "name": "no spaces"},
        {"stages": [queue], "color": "red"},
    ]
    for body in bodies:
        assert http.post(register, json=body).status_code == 422, body
    worker = Worker(http, queue)
    submit(http, queue)
    task = worker.take()
    for verb, bad in (
        ("poll", {}),
        ("poll", {"available_capacity": 1}),
        ("poll", {"held": [{"task_id": task["task_id"]}]}),
        ("poll", {"held": [], "capabilities": ["gpu"]}),
        ("heartbeat", {"held": [], "current_load": 3}),
        ("heartbeat", {"held": [], "status": "busy"}),
        ("result", {**hold(task), "status": "completed", "execution_duration_seconds": 45.2}),
        ("start", {"task_id": "no-uuid", "attempt": 1}),
        ("progress", {**hold(task), "fraction": 2}),
        ("result", {**hold(task), "status": "done"}),
        ("result", {**hold(task), "status": "failed"}),
        ("result", {**hold(task), "status": "completed", "error": "what now"}),
        ("result", {**hold(task), "status": "rejected", "error": "x", "result": 1}),
    ):
        assert worker.call(verb, bad).status_code == 422, (verb, bad)
        assert worker.heartbeat(task).json()["lost"] == []
    assert worker.call("poll", {"held": []}, wait=21).status_code == 422
    assert refused(worker.result(task, result="x" * 262_144)) == (413, "payload_too_large")
    assert refused(worker.call("start", {**hold(task), "attempt": 2})) == (409, "task_lost")
    bystander = Worker(http, queue)
    assert refused(bystander.result(task)) == (409, "task_lost")
    assert bystander.heartbeat(task).json()["lost"] == [hold(task)]
    with site.web.client(token_for("worker", "operate", "read")) as stranger:
        worker.http = stranger
        assert refused(worker.result(task)) == (404, "not_found")
        assert refused(stranger.delete(worker.path)) == (404, "not_found")
    worker.http = http
    assert worker.result(task).status_code == 200
