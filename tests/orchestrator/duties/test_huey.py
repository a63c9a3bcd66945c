"""Housekeeping: its periodic task runs on every topology of Redis, and waits for servers that are away."""

import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest
from huey.contrib.djhuey import HUEY
from pytest_django import Settings
from structlog.testing import capture_logs

from dalston_queue import tasks
from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.types import Role
from dalston_queue.models import Duty
from dalston_queue.orchestrator.duties.run import DUTIES
from dalston_site.huey import make_huey
from tests.broker.servers import Nodes, nodes
from tests.orchestrator.support import Steps
from tests.support import Spawned, reserve_port, wait_until

ALL = {"alerts", "notifications", *(spec.name for spec in DUTIES)}


@pytest.fixture
def started() -> Iterator[Nodes]:
    with nodes() as made:
        yield made


def done() -> set[str]:
    return set(Duty.objects.filter(last_error="").values_list("name", flat=True))


def test_housekeeping_is_the_one_periodic_task_and_runs_the_duties(broker: Broker, steps: Steps) -> None:
    periodic = [task.__name__ for task in HUEY._registry._periodic_tasks]
    assert [name for name in periodic if "housekeeping" in name] != []
    with capture_logs() as logged:
        tasks.housekeeping.call_local()
    assert done() == ALL
    assert [entry for entry in logged if (entry["event"], entry["log_level"]) == ("leads", "info")] == []


def behind_sentinel(started: Nodes, folder: Path) -> dict[str, str]:
    primary = started.start(folder / "primary")
    line = f"sentinel monitor dalston 127.0.0.1 {primary.port} 1"
    sentinel = started.start(folder / "sentinel", line, role="sentinel")
    return {"REDIS_URL": f"redis+sentinel://127.0.0.1:{sentinel.port}/dalston/0"}


def in_a_cluster(started: Nodes, folder: Path) -> dict[str, str]:
    flags = ("--cluster-enabled", "yes", "--cluster-port", str(reserve_port()))
    member = started.start(folder / "cluster", *flags)
    member.client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
    wait_until(lambda: member.client.execute_command("CLUSTER INFO")["cluster_state"] == "ok", what="the cluster")
    return {"REDIS_URL": member.url, "DALSTON_REDIS_CLUSTER": "1"}


@pytest.mark.parametrize("topology", [behind_sentinel, in_a_cluster])
def test_housekeeping_needs_no_other_redis(
    started: Nodes,
    tmp_path: Path,
    spawn: Callable[..., Spawned],
    process_env: dict[str, str],
    database_url: str,
    topology: Callable[[Nodes, Path], dict[str, str]],
) -> None:
    env = {**process_env, **topology(started, tmp_path), "DATABASE_URL": database_url}
    housekeeping = spawn("manage.py", "run_huey", env=env)
    wait_until(lambda: done() == ALL, what=lambda: f"only {done()}:\n{housekeeping.output}")
    assert housekeeping.stop() == 0
    assert "Traceback" not in housekeeping.output


def test_an_interval_below_a_minute_is_kept_by_our_timer(
    broker: Broker,
    steps: Steps,
    spawn: Callable[..., Spawned],
    process_env: dict[str, str],
    database_url: str,
) -> None:
    env = {**process_env, "DATABASE_URL": database_url, "DALSTON_SCAN_INTERVAL_S": "1"}
    housekeeping = spawn("manage.py", "run_huey", env=env)

    def last_run() -> datetime | None:
        return Duty.objects.filter(name="scanner").values_list("last_run_at", flat=True).first()

    first = wait_until(last_run, what=lambda: f"a first run:\n{housekeeping.output}")
    wait_until(lambda: last_run() != first, what="a second run, long before the next minute but one")
    second = last_run()
    wait_until(lambda: last_run() != second, what="a third run")
    assert housekeeping.stop() == 0
    assert "Traceback" not in housekeeping.output
    # SIGTERM may come while a duty runs: then the lease runs out by itself
    broker.home.command("DEL", broker.home.keys.leader(Role.HOUSEKEEPING))


def test_the_timer_starts_only_for_intervals_below_a_minute(settings: Settings) -> None:
    threads = threading.active_count()
    tasks.Timer().start()
    assert threading.active_count() == threads
    settings.DALSTON_PROMOTE_INTERVAL_S = 30.0
    timer = tasks.Timer()
    timer.start()
    timer.start()
    assert threading.active_count() == threads + 1
    timer.stop()
    wait_until(lambda: threading.active_count() == threads, what="it stops at once")


def test_it_logs_once_that_redis_is_away_and_goes_on_when_it_is_back(
    transactional_db: None, prefix: str, started: Nodes, tmp_path: Path, settings: Settings
) -> None:
    node = started.start(tmp_path / "server")
    settings.REDIS_URL = node.url
    node.kill()
    with capture_logs() as logged:
        for _ in range(3):
            tasks.housekeeping.call_local()
        wait_until(lambda: logged, what="a thread asked the server, and logged")
        assert [entry["event"] for entry in logged] == ["a server does not answer"]
        assert str(node.port) in logged[0]["error"]
        node.start()
        wait_until(lambda: len(logged) > 1, what="its return is in the log")
    assert [entry["event"] for entry in logged] == ["a server does not answer", "a server answers again"]
    assert {entry["server"] for entry in logged} == {"redis"}
    tasks.housekeeping.call_local()
    assert done() == ALL


def test_a_worker_waits_for_a_duty_and_gets_each_once() -> None:
    storage = make_huey().storage
    assert storage.blocking and storage.dequeue() is None
    storage.enqueue(b"one")
    storage.enqueue(b"two")
    assert [storage.dequeue() for _ in range(3)] == [b"one", b"two", None]
