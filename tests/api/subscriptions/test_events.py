"""GET /jobs/{id}/events on a real web process: each task change once and in order, and the end of the stream."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.utils import timezone

from dalston_client import Client
from dalston_queue.api.subscriptions.changes import CHANGES, CHANGES_LIMIT, RUNNING, Cursor, read_changes
from dalston_queue.api.subscriptions.subscriber import Subscriber, still_allowed
from dalston_queue.broker import connect
from dalston_queue.broker.protocol.messages import Completed, TaskMessage
from dalston_queue.jobs.lifecycle.status import lock_jobs, move_jobs
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import ApiToken, Job, Project, Task, TaskEvent
from tests.api.conftest import Api
from tests.jobs import make
from tests.jobs.make import move
from tests.jobs.test_indexes import _MANY_JOBS, _MANY_TASKS
from tests.orchestrator.support import engine
from tests.support import WAIT_TIMEOUT_S, wait_until
from tests.web import Web, environment

pytestmark = pytest.mark.django_db(transaction=True)

ENGINE = "n.demo.0.b"


@pytest.fixture
def job(project: Project) -> Job:
    """Two stages, the first in its queue."""
    stages = (StageSpec(stage="echo"), StageSpec(stage="late", queue="echo", after=("echo",)))
    job = Job.objects.get(pk=submit(JobSpec(name="two", stages=stages), project=project).job_id)
    make.claim(job)
    move("enqueue", [first(job)])
    return job


def first(job: Job) -> Task:
    return job.tasks.get(stage="echo")


def end(job: Job, how: str = "complete", **more: Any) -> None:
    with transaction.atomic():
        lock_jobs([job.id])
        move_jobs(how, [job.id], timezone.now(), **more)


class Stream:
    """The events that a subscriber got so far, read by a thread."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.lines: list[str] = []
        self.over = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        try:
            for line in self.answer.iter_lines():
                self.lines.append(line)
        except (httpx.HTTPError, httpx.StreamError):
            pass
        self.over.set()

    @property
    def events(self) -> list[tuple[str, str | None, Any]]:
        """(event, id, data) of each whole event."""
        found = []
        fields: dict[str, str] = {}
        for line in list(self.lines):
            name, _, value = line.partition(": ")
            if line:
                fields[name] = value
            elif "data" in fields:
                found.append((fields["event"], fields.get("id"), json.loads(fields["data"])))
                fields = {}
        return found

    def named(self, name: str) -> list[Any]:
        return [data for event, _, data in self.events if event == name]

    def ids(self) -> list[int]:
        return [int(event_id) for _, event_id, _ in self.events if event_id]

    def wait_for(self, name: str, count: int = 1) -> list[Any]:
        wait_until(lambda: len(self.named(name)) >= count, what=f"{count} x {name} in {self.lines}")
        return self.named(name)

    def join(self) -> None:
        self._thread.join(WAIT_TIMEOUT_S)
        assert not self._thread.is_alive()


@contextmanager
def subscribe(client: httpx.Client, job: Job, **headers: str) -> Iterator[Stream]:
    with client.stream("GET", f"/api/v1/jobs/{job.id}/events", headers=headers) as answer:
        if answer.status_code != 200:
            answer.read()
            pytest.fail(answer.text)
        stream = Stream(answer)
        try:
            yield stream
        finally:  # as a closed browser does; close() alone would not wake the reading thread
            with suppress(OSError):
                answer.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
            stream.join()


def test_each_task_change_is_sent_then_the_end_and_the_stream_is_over(
    web: Web, token_for: Callable[..., str], job: Job
) -> None:
    with web.client(token_for("read")) as client, subscribe(client, job) as stream:
        assert stream.answer.headers["Content-Type"] == "text/event-stream"
        assert stream.answer.headers["Cache-Control"] == "no-store"
        assert stream.answer.headers["X-Accel-Buffering"] == "no"
        stream.wait_for("task", 2)
        assert not stream.named("end")
        move("start", [first(job)], seq=1, engine_id=ENGINE)
        stream.wait_for("task", 3)
        move("complete", [first(job)], seq=2, engine_id=ENGINE, result="1")
        move("skip", [job.tasks.get(stage="late")])
        end(job)
        assert stream.over.wait(WAIT_TIMEOUT_S)
    moves = [(it["stage"], it["from_status"], it["to_status"]) for it in stream.named("task")]
    assert moves == [
        ("echo", "pending", "ready"),
        ("echo", "ready", "queued"),
        ("echo", "queued", "running"),
        ("echo", "running", "completed"),
        ("late", "pending", "skipped"),
    ]
    assert stream.named("task")[2]["engine_id"] == ENGINE
    assert stream.ids() == list(TaskEvent.objects.order_by("id").values_list("id", flat=True))
    assert [event for event, _, _ in stream.events][-1] == "end"
    last = stream.named("end")[0]
    assert (last["job_id"], last["status"], last["progress"], last["error"]) == (str(job.id), "completed", 1, None)
    assert stream.lines[0].startswith("retry:")


def test_it_continues_behind_the_last_event_id_without_a_gap_or_a_repetition(
    web: Web, token_for: Callable[..., str], job: Job
) -> None:
    with web.client(token_for("read")) as client:
        with subscribe(client, job) as stream:
            stream.wait_for("task", 2)
            seen = stream.ids()
        move("start", [first(job)], seq=1, engine_id=ENGINE)
        with subscribe(client, job, **{"Last-Event-ID": str(seen[-1])}) as stream:
            stream.wait_for("task", 1)
            seen += stream.ids()
        move("retry", [first(job)], scheduled_at=timezone.now(), cause="error", message="no\nluck\r\n")
        end(job, "fail", errors={job.id: "no luck"})
        with subscribe(client, job, **{"Last-Event-ID": str(seen[-1])}) as stream:
            assert stream.over.wait(WAIT_TIMEOUT_S)
            seen += stream.ids()
            assert stream.named("task")[0]["message"] == "no\nluck\r\n"
            assert stream.named("end")[0] | {"completed_at": None} == {
                "job_id": str(job.id), "status": "failed", "progress": 0, "error": "no luck", "completed_at": None,
            }  # fmt: skip
        assert seen == list(TaskEvent.objects.order_by("id").values_list("id", flat=True))
        with subscribe(client, job, **{"Last-Event-ID": str(seen[-1])}) as stream:
            assert stream.over.wait(WAIT_TIMEOUT_S)
            assert (stream.named("task"), len(stream.named("end"))) == ([], 1)
        for nonsense in ("abc", "-1", str(2**63)):
            answer = client.get(f"/api/v1/jobs/{job.id}/events", headers={"Last-Event-ID": nonsense})
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


def test_progress_is_sent_when_it_changes(
    web: Web, token_for: Callable[..., str], project: Project, redis_url: str
) -> None:
    job = Job.objects.get(pk=submit(JobSpec(name="one", stages=(StageSpec(stage="echo"),)), project=project).job_id)
    make.claim(job)
    task = first(job)
    broker = connect(redis_url, prefix=web.env["DALSTON_REDIS_PREFIX"])
    with web.client(token_for("read")) as client, engine(broker, "echo", name=ENGINE) as consumer:
        broker.append(
            [TaskMessage(task_id=str(task.id), job_id=str(job.id), queue="echo", task_type="echo", attempt=1)]
        )
        [claimed] = consumer.claim()
        move("start", [task], seq=1, engine_id=ENGINE)
        with subscribe(client, job) as stream:
            stream.wait_for("progress")
            claimed.progress({"fraction": 0.25, "message": "a quarter"})
            stream.wait_for("progress", 2)
        consumer.exchange([(claimed, Completed(None))], free=0)
    broker.close()
    before, after = stream.named("progress")
    one = {"task_id": str(task.id), "stage": "echo", "attempt": 1, "progress_known": True}
    assert before == {"status": "running", "progress": 0, "tasks": [{**one, "progress": None, "message": ""}]}
    assert after["tasks"] == [{**one, "progress": 0.25, "message": "a quarter"}]


def test_only_a_token_that_may_read_the_job_may_subscribe(web: Web, token_for: Callable[..., str], job: Job) -> None:
    other = Project.objects.create(name="beta")
    with web.client(token_for("read", project=other)) as client:
        answer = client.get(f"/api/v1/jobs/{job.id}/events")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    with web.client(token_for("read", "operate", project=other)) as client, subscribe(client, job) as stream:
        stream.wait_for("task", 2)


def test_it_ends_with_the_token_or_the_login_that_opened_it(web: Web, token_for: Callable[..., str], job: Job) -> None:
    changes: list[dict[str, Any]] = [
        {"revoked_at": timezone.now()},
        {"scopes": ["submit"]},
        {"expires_at": timezone.now()},
        {"name": "another name"},
    ]
    vera = User.objects.create_user("vera")
    with ExitStack() as stack:
        clients = [stack.enter_context(web.client(token_for("read", name=str(n)))) for n in range(len(changes))]
        clients.append(stack.enter_context(web.log_in(vera)))
        *streams, unharmed, login = [stack.enter_context(subscribe(client, job)) for client in clients]
        for stream in (*streams, unharmed, login):
            stream.wait_for("task", 2)
        for number, change in enumerate(changes):
            ApiToken.objects.filter(name=str(number)).update(**change)
        Session.objects.all().delete()
        for stream in (*streams, login):
            assert stream.over.wait(WAIT_TIMEOUT_S)
            assert stream.named("closed")[0]["code"] == "unauthenticated"
        assert not unharmed.over.is_set()


def test_a_token_whose_scopes_changed_keeps_its_new_subscribers_only(token_for: Callable[..., str]) -> None:
    token_for("read", "operate")
    token = ApiToken.objects.get()
    before, after = (Subscriber(token_id=token.pk, scopes=frozenset(scopes)) for scopes in (["read"], token.scopes))
    for subscribers in ([before, after], [after, before]):
        assert still_allowed(subscribers, timezone.now()) == {after}


def threads_of(web: Web) -> int:
    return len(list(Path(f"/proc/{web.process.pid}/task").iterdir()))


@pytest.fixture
def small_web(db: None, tmp_path: Path) -> Iterator[Web]:
    """A web process that serves twelve subscribers of one project and has two database connections."""
    server = Web({**environment(), "DALSTON_MAX_EVENT_STREAMS": "24", "DALSTON_DB_POOL_SIZE": "2"}, tmp_path / "log")
    yield server
    server.process.reap()


def test_subscribers_cost_no_thread_and_no_connection_are_limited_and_outlive_a_restart(
    small_web: Web, token_for: Callable[..., str], job: Job
) -> None:
    token = token_for("read")
    with small_web.client(token) as client, subscribe(client, job) as one:
        one.wait_for("task", 2)
        before = threads_of(small_web)
        many = [subscribe(client, job) for _ in range(11)]
        streams = [each.__enter__() for each in many]
        for stream in streams:
            stream.wait_for("task", 2)
        # There are more subscribers than connections, and a read still gets one.
        assert client.get(f"/api/v1/jobs/{job.id}").status_code == 200
        wait_until(lambda: threads_of(small_web) <= before + 3, what="no thread per subscriber")
        full = client.get(f"/api/v1/jobs/{job.id}/events")
        assert (full.status_code, full.json()["code"]) == (503, "streams_full")
        assert full.headers["Retry-After"] == "5"
        # A subscriber that leaves frees its slot at once, without a log line.
        for each in many:
            each.__exit__(None, None, None)
        wait_until(lambda: _opens(client, job), what="a free slot")
        # The process can end while there are subscribers; they see the end of the stream.
        with ThreadPoolExecutor(1) as thread, Client(small_web.url, token) as dalston:
            watched = thread.submit(lambda: [event for event in dalston.watch(str(job.id)) if event.name != "progress"])
            assert small_web.process.stop() in {0, -15}
            assert one.over.wait(WAIT_TIMEOUT_S)
            assert not one.named("closed")
            assert "Traceback" not in small_web.process.output
            assert "was destroyed but it is pending" not in small_web.process.output
            # Our client reconnects to the next process, and has missed no change.
            move("start", [first(job)], seq=1, engine_id=ENGINE)
            small_web.start()
            end(job)
            *moves, last = watched.result()
    assert [event.id for event in moves] == list(TaskEvent.objects.order_by("id").values_list("id", flat=True))
    assert (last.name, last.data["status"]) == ("end", "completed")


def _opens(client: httpx.Client, job: Job) -> bool:
    with client.stream("GET", f"/api/v1/jobs/{job.id}/events") as answer:
        return answer.status_code == 200


def test_a_long_history_comes_in_pieces_and_whole(job: Job) -> None:
    task = first(job)
    TaskEvent.objects.bulk_create(
        TaskEvent(
            task=task, transition="x", from_status="ready", to_status="ready", attempt=1, deliveries=0, at=make.NOW
        )
        for _ in range(CHANGES_LIMIT)
    )
    end(job)
    cursor, seen = Cursor(job.id, 0), []
    while True:
        changes = read_changes([cursor])[cursor]
        seen += [it.event_id for it in changes.tasks]
        cursor = Cursor(job.id, seen[-1])
        if changes.is_last:
            break
    assert seen == list(TaskEvent.objects.order_by("id").values_list("id", flat=True))


def test_no_event_appears_behind_a_cursor_while_threads_move_tasks_of_one_job() -> None:
    job = make.dag(**{f"s{number}": "" for number in range(24)})
    make.claim(job)

    def work(tasks: list[Task]) -> None:
        try:
            for task in tasks:
                for name in ("enqueue", "start", "recover", "start", "complete"):
                    with transaction.atomic():
                        move(name, [task], **({"result": "1"} if name == "complete" else {}))
                        with connection.cursor() as cursor:  # long enough for the other threads to commit in between
                            cursor.execute("SELECT pg_sleep(0.001)")
        finally:
            connection.close()

    tasks, seen, cursor = list(job.tasks.all()), list[int](), Cursor(job.id, 0)
    with ThreadPoolExecutor(4) as threads:
        working = [threads.submit(work, tasks[number::4]) for number in range(4)]
        while len(seen) < 24 * 6:
            broken = [it for it in working if it.done() and it.exception()]
            assert not broken, broken[0].exception()
            over = all(it.done() for it in working)
            seen += [it.event_id for it in read_changes([cursor])[cursor].tasks]
            cursor = Cursor(job.id, seen[-1])
            assert not over or len(seen) == 24 * 6, "a change was missed"
    assert seen == list(TaskEvent.objects.order_by("id").values_list("id", flat=True))


def test_subscribers_with_different_cursors_are_read_at_once(job: Job, django_assert_num_queries: Any) -> None:
    other = make.dag(a="")
    make.claim(other)
    ids = list(TaskEvent.objects.filter(task__job=job).order_by("id").values_list("id", flat=True))
    gone = Cursor(UUID(int=7), 0)
    cursors = [Cursor(job.id, 0), Cursor(job.id, ids[0]), Cursor(job.id, ids[-1]), Cursor(other.id, 0), gone]
    with django_assert_num_queries(2):
        found = read_changes([*cursors, *cursors])
    assert [len(found[cursor].tasks) for cursor in cursors[:4]] == [2, 1, 0, 1]
    assert gone not in found


def test_the_statements_use_indexes_only(job: Job) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_MANY_JOBS, [job.project_id])
        cursor.execute(_MANY_TASKS)
        cursor.execute(
            "INSERT INTO dalston_task_event (task_id, transition, from_status, to_status, attempt, deliveries,"
            " engine_id, cause, message, at)"
            " SELECT id, 'x', 'ready', 'ready', 1, 0, '', '', '', now() FROM dalston_task"
        )
        cursor.execute("ANALYZE dalston_job, dalston_task, dalston_task_event")
        wanted: list[tuple[str, Any]] = [
            (CHANGES, {"jobs": f"{{{job.id}}}", "event_ids": [0]}),
            (RUNNING, [f"{{{job.id}}}"]),
        ]
        for statement, arguments in wanted:
            cursor.execute("EXPLAIN " + statement, arguments)
            plan = "\n".join(row[0] for row in cursor.fetchall())
            assert "Seq Scan" not in plan, plan


def test_the_schema_documents_the_stream(api: Api) -> None:
    schema = api.get("/openapi.json").json()
    operation = schema["paths"]["/api/v1/jobs/{job_id}/events"]["get"]
    assert list(operation["responses"]["200"]["content"]) == ["text/event-stream"]
    assert "Last-Event-ID" in [parameter["name"] for parameter in operation["parameters"]]
    assert {"401", "403", "404", "422", "503"} <= set(operation["responses"])
