"""The overview: what it shows, and how many queries it takes."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dalston_queue.broker import Broker, connect
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.messages import TaskMessage
from dalston_queue.broker.protocol.types import EngineState, NodeState, Priority, Tier
from dalston_queue.broker.views.snapshot import rates
from dalston_queue.dashboard.overview.from_redis import read
from dalston_queue.dashboard.overview.read import latest
from dalston_queue.dashboard.overview.render import lane_row
from dalston_queue.dashboard.parts.charts import History
from dalston_queue.jobs.queries.lanes import read_lanes
from dalston_queue.jobs.submit.spec import single_task
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import DeadLetter, Duty, Leadership, Project, Sample, Task
from dalston_queue.orchestrator.duties.samples import take_samples
from engines.sdk.manifest import Manifest
from supervisor.policy.lifecycle import Life
from supervisor.process.slot import Slot
from tests.broker.conftest import message
from tests.broker.servers import nodes
from tests.jobs import make
from tests.orchestrator.support import Steps, engine
from tests.support import wait_until

pytestmark = [pytest.mark.django_db, pytest.mark.keeps_keys, pytest.mark.usefixtures("broker")]


def page(viewer: Client) -> str:
    answer = viewer.get("/")
    assert answer.status_code == 200
    return answer.content.decode()


def test_an_empty_installation_shows_the_first_steps(viewer: Client) -> None:
    text = page(viewer)
    assert "curl http://testserver/api/v1/tasks" in text
    assert "No task yet" in text
    assert "manage.py runsupervisor" in text
    assert "No orchestrator is the leader" in text


def test_it_shows_lanes_tasks_nodes_and_engines(viewer: Client, broker: Broker) -> None:
    project = Project.objects.create(name="alpha")
    made = submit(single_task("echo"), project=project)
    broker.append(
        [TaskMessage(task_id=str(made.task_ids[0]), job_id=str(made.job_id), queue="echo", task_type="echo", attempt=1)]
    )
    beat = EngineBeat(engine_id="gpu-01.demo.0.b1", state=EngineState.READY, queues=("echo",), capacity=4)
    broker.registry.beat_node("gpu-01", NodeState.ACTIVE, [beat])

    text = page(viewer)

    assert f'id="task-{made.task_ids[0]}"' in text
    assert 'id="queue-echo"' in text
    assert 'id="lane-0-' not in text, "a queue of one lane is one row"
    assert 'id="node-gpu-01"' in text
    assert "1 of 1 engine ready" in text
    assert "1 waiting, nothing running, 1 engine ready." in text


def test_a_lane_has_the_rates_of_its_own_shard(tmp_path: Path) -> None:
    def task(name: str, priority: Priority = Priority.MEDIUM) -> TaskMessage:
        return TaskMessage(task_id=name, job_id="j", queue="echo", task_type="echo", attempt=1, priority=priority)

    with nodes() as servers:
        home, low = (servers.start(tmp_path / name) for name in ("home", "low"))
        broker = connect(home.url, shards=f"*/low={low.url}")
        broker.append([task("here"), task("there", Priority.LOW)])
        before = broker.snapshot()
        broker.append([task(f"t{n}") for n in range(10)])
        wait_until(lambda: broker.home.now_ms() > before.at_ms, what="the clock to move")
        medium = [lane for lane in read(broker, before).lanes if lane.tier == Tier.MEDIUM]
        growing = {lane.waiting: lane.rates.in_per_s > 0 for lane in medium if lane.rates}
        assert growing == {11: True, 0: False}
        assert len({lane_row(lane, ()).id for lane in medium}) == 2, "each is updated by its own name"
        broker.close()


def test_a_lane_counts_the_engines_that_can_run_it_and_warns_when_there_is_none(viewer: Client, broker: Broker) -> None:
    wants = ("big", "fast")
    task = TaskMessage(
        task_id="t1", job_id="j1", queue="echo", task_type="echo", attempt=1, required_capabilities=wants
    )
    broker.append([task])
    plain = EngineBeat(engine_id="gpu-01.demo.0.b1", state=EngineState.READY, queues=("echo",), capabilities=("big",))
    broker.registry.beat_node("gpu-01", NodeState.ACTIVE, [plain])

    def engines() -> int:
        [lane] = [lane for lane in read(broker).lanes if lane.capabilities]
        return lane.engines

    warning = "echo: 1 waiting for big and fast, and no ready engine has that."
    assert (engines(), warning in page(viewer)) == (0, True)
    able = EngineBeat(engine_id="gpu-01.demo.1.b1", state=EngineState.READY, queues=("echo",), capabilities=wants)
    broker.registry.beat_node("gpu-01", NodeState.ACTIVE, [plain, able])
    assert (engines(), warning in page(viewer)) == (1, False)


def test_an_engine_that_runs_a_suspect_has_no_room_for_others(broker: Broker) -> None:
    def is_full(queue: str) -> bool:
        tasks = [{"task_id": "t1", "queue": queue}]
        beat = EngineBeat(
            engine_id="gpu-01.demo.0.b1",
            state=EngineState.READY,
            queues=("echo", "sleep"),
            capacity=4,
            info={"running": 1, "tasks": tasks},
        )
        broker.registry.beat_node("gpu-01", NodeState.ACTIVE, [beat])
        [node] = [node for node in read(broker).nodes if node.id == "gpu-01"]
        return node.engines[0].is_full

    broker.append([TaskMessage(task_id="t1", job_id="j", queue="echo", task_type="echo", attempt=1, deliveries=2)])
    assert not is_full("echo"), "the suspect only waits"
    with engine(broker, "echo", "sleep", capacity=4) as consumer:
        assert consumer.claim()
        assert is_full("echo")
        assert not is_full("sleep"), "its task is of another queue: no suspect"


def test_an_engine_in_trouble_is_shown_with_the_reason_its_supervisor_gives(viewer: Client, broker: Broker) -> None:
    slot = Slot("gpu-01", 0, Manifest(id="demo", stages=("echo",), command=("true",)))
    slot.life = Life(state=EngineState.CRASHLOOP, why="exit code 3, five times in ten minutes")
    broker.registry.beat_node("gpu-01", NodeState.ACTIVE, [slot.beat()])
    text = page(viewer)
    assert "is crashloop: exit code 3, five times in ten minutes." in text
    assert 'href="/nodes/gpu-01/"' in text


def test_a_node_shows_its_labels_and_the_notes_of_its_supervisor(viewer: Client, broker: Broker) -> None:
    report = {"labels": {"rack": "7"}, "why": "drained by ada", "config_error": "node.yaml: replicas: <not> a number"}
    broker.registry.beat_node("gpu-01", NodeState.DRAINING, [], report)
    text = page(viewer)
    assert "rack: 7" in text
    assert "drained by ada; node.yaml: replicas: &lt;not&gt; a number" in text


def test_a_task_that_ends_late_is_shown_among_newer_ones(viewer: Client) -> None:
    project = Project.objects.create(name="alpha")
    old = submit(single_task("slow"), project=project).task_ids[0]
    for _ in range(30):
        submit(single_task("echo"), project=project)
    assert f"task-{old}" not in page(viewer)
    Task.objects.filter(pk=old).update(status="completed", finished_at=timezone.now() + timedelta(seconds=1))
    assert f"task-{old}" in page(viewer)


def test_a_clock_runs_only_for_running_tasks(viewer: Client) -> None:
    task = make.single("echo")
    started = {"started_at": timezone.now(), "assigned_worker_id": "gpu-01.demo.0.b"}
    for path in ("/", f"/jobs/{task.job_id}/"):
        Task.objects.filter(pk=task.pk).update(status="running", **started)
        assert 'data-show="clock"' in viewer.get(path).content.decode()
        # reclaimed from a lost engine, and waiting again
        Task.objects.filter(pk=task.pk).update(status="queued")
        assert 'data-show="clock"' not in viewer.get(path).content.decode()


def test_what_users_send_is_escaped(viewer: Client) -> None:
    project = Project.objects.create(name="alpha")
    task = submit(single_task("echo"), project=project).task_ids[0]
    Task.objects.filter(pk=task).update(error="<script>alert(1)</script>", error_cause="error")
    assert "<script>alert" not in page(viewer)
    assert "&lt;script&gt;alert" in page(viewer)


def test_it_takes_five_queries_beside_the_login_and_the_samples(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for history in (latest._lanes, latest._dead_letters):
        monkeypatch.setattr(history, "fresh_s", 1e9)  # a test before may have read them some seconds ago
    project = Project.objects.create(name="alpha")
    for _ in range(40):
        submit(single_task("echo"), project=project)
    with CaptureQueriesContext(connection) as captured:
        page(viewer)
    asked = [query["sql"] for query in captured if "dalston_" in query["sql"] and "dalston_sample" not in query["sql"]]
    assert len(asked) == 5
    assert sum("dalston_depth" in query for query in asked) == 1
    with CaptureQueriesContext(connection) as captured:
        page(viewer)
    assert not [query for query in captured if "dalston_sample" in query["sql"]], "samples are read every few seconds"


def test_a_lane_has_its_last_hour_and_a_running_task_its_progress(
    viewer: Client, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest, "_lanes", History("lane"))
    monkeypatch.setattr(latest, "_queues", History("queue"))
    task = submit(single_task("echo"), project=Project.objects.create(name="alpha")).task_ids[0]
    broker.append([TaskMessage(task_id=str(task), job_id="j", queue="echo", task_type="echo", attempt=1)])
    broker.append([message("low", priority=Priority.LOW)])
    take_samples(timezone.now() - timedelta(minutes=2))
    with engine(broker, capacity=1) as consumer:
        [claimed] = consumer.claim()
        consumer.renew_all({claimed.task_id: {"fraction": 0.25, "message": "minute 1 of 4"}})
        Task.objects.filter(pk=task).update(status="running", started_at=timezone.now())
        text = page(viewer)
    assert "waiting in echo  medium, the last hour: not known now, lowest 1, highest 1" in text
    assert "waiting in echo, the last hour: not known now, lowest 2, highest 2" in text
    assert 'value="25"' in text
    assert "minute 1 of 4" in text


def test_a_queue_is_above_its_tiers_with_what_its_last_hour_did(
    viewer: Client, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest, "_queues", History("queue"))
    broker.append([message("m"), message("h", priority=Priority.HIGH), message("o", queue="other")])
    minute = timezone.now().replace(second=0, microsecond=0)
    for back, completed, failed, wait_s in ((1, 10, 0, 0.5), (2, 1, 2, 9.0), (3, 5, 0, 0.7)):
        numbers = {"completed": completed, "failed": failed, "median_wait_s": wait_s, "p95_wait_s": 2 * wait_s}
        Sample.objects.create(kind="queue", name="echo", at=minute - timedelta(minutes=back), numbers=numbers)
    text = page(viewer)
    rows = re.findall(r'<tr id="((?:queue|lane)-[^"]+)"', text)
    stream = broker.home.keys.stream
    tiers = [f"lane-0-{stream('echo', tier=Tier.HIGH)}", f"lane-0-{stream('echo')}"]
    assert rows == ["queue-echo", *tiers, "queue-other"]
    row = text.split('<tr id="queue-echo"')[1].split("</tr>")[0]
    assert 'a-waiting" title="0 in Postgres, 2 in the window">2<' in row
    assert 'a-done">16<' in row and 'href="/dead-letters/?queue=echo">2<' in row
    assert "0.50 s" in row and "at most 18.0 s in the worst minute" in row
    other = text.split('<tr id="queue-other"')[1].split("</tr>")[0]
    assert 'unknown a-done">…<' in other, "without a sample nothing is known, and nothing is zero"


def test_leaders_and_duties_are_shown_with_their_last_run(viewer: Client) -> None:
    now = timezone.now()
    Leadership.objects.create(role="orchestrator", term=4, holder="web-1:77", since=now)
    Duty.objects.create(name="scanner", every_s=60, last_run_at=now, duration_ms=120, repaired=3, holder="h")
    old = now - timedelta(hours=2)
    Duty.objects.create(name="expiry", every_s=60, last_run_at=old, duration_ms=1, repaired=0, holder="h")
    text = page(viewer)
    assert "no leader" in text
    assert "web-1:77" in text
    row = re.search(r'<tr id="duty-scanner">.*?</tr>', text).group()
    assert ">ok<" in row
    assert ">3<" in row
    assert ">late<" in re.search(r'<tr id="duty-expiry">.*?</tr>', text).group()
    assert '<a id="finding-1" href="/#duties-title">' in text


def test_dead_letters_are_counted_on_the_page(viewer: Client) -> None:
    DeadLetter.objects.create(queue="echo", cause="error", fingerprint="f", created_at=timezone.now())
    text = page(viewer)
    assert "1 open dead letter" in text
    assert "1 in the last hour" in text


@pytest.fixture
def dead_redis(settings: object, redis_url: str, broker: Broker) -> None:
    """The same address on a closed port."""
    settings.REDIS_URL = redis_url.replace(str(urlsplit(redis_url).port), "1")  # type: ignore[attr-defined]


def test_without_redis_the_page_says_what_is_not_known(viewer: Client, dead_redis: None) -> None:
    text = page(viewer)
    assert "Redis does not answer: what is waiting and running is not known." in text
    assert text.count("Not known: Redis does not answer.") == 2  # lanes, nodes


def test_without_redis_it_says_how_many_tasks_wait_in_postgres(
    viewer: Client, broker: Broker, steps: Steps, settings: Any, redis_url: str
) -> None:
    settings.DALSTON_WINDOW = 1
    for _ in range(4):
        make.single("echo")
    steps.poll()
    settings.REDIS_URL = redis_url.replace(str(urlsplit(redis_url).port), "1")
    assert "3 tasks ready in Postgres." in page(viewer)


def test_waiting_is_one_number_with_its_two_parts(viewer: Client, broker: Broker, steps: Steps, settings: Any) -> None:
    settings.DALSTON_WINDOW = 2
    for _ in range(5):
        make.single("echo")
    steps.poll()
    shown = page(viewer)
    assert '<td class="num a-waiting" title="3 in Postgres, 2 in the window">5</td>' in shown
    assert "echo: 5 waiting, and no ready engine serves it." in shown
    broker.reset_queue("echo")
    assert '<td class="num a-waiting" title="3 in Postgres, 0 in the window">3</td>' in page(viewer)


def test_without_postgres_waiting_is_what_redis_has_and_the_page_says_so(broker: Broker) -> None:
    broker.append([message(f"t{number}") for number in range(2)])
    [lane] = read(broker).lanes
    assert (lane.waiting, lane.ready) == (2, None)
    assert '<span class="unknown">≥ </span>2' in lane_row(lane, ()).html
    assert "what waits in Postgres is not known" in lane_row(lane, ()).html


def test_what_comes_in_is_counted_when_it_waits_in_postgres(broker: Broker, steps: Steps, settings: Any) -> None:
    settings.DALSTON_WINDOW = 4
    make.single("echo")
    steps.poll()
    before = read_lanes(broker)
    for _ in range(9):
        make.single("echo")
    steps.poll()
    wait_until(lambda: broker.home.now_ms() > before.at_ms, what="the clock to move")
    after = read_lanes(broker)
    [queue, *_] = after.queues
    assert (queue.waiting, queue.ready) == (10, 6)
    seconds = (after.at_ms - before.at_ms) / 1000
    found = rates(before, after)
    assert round(found["echo"].in_per_s * seconds) == 9
    [lane] = [lane for lane in queue.lanes if lane.waiting]
    assert round(found[lane.name].in_per_s * seconds) == 9
