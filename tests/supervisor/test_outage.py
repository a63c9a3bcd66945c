"""Redis goes away and comes back: engines keep running, the same processes, and no result is lost."""

import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dalston_queue.broker import connect
from dalston_queue.broker.protocol.types import EventKind
from dalston_site.embedded.server import Server
from tests.supervisor.node import Node, alive, kill
from tests.support import Spawned, wait_until


@pytest.mark.parametrize(
    "seconds",
    [pytest.param(2, id="short"), pytest.param(60, id="a minute", marks=pytest.mark.slow)],
)
def test_engines_outlive_an_outage_and_settle_what_they_finished_meanwhile(
    valkey_server: Callable[..., Server],
    spawn: Callable[..., Spawned],
    process_env: dict[str, str],
    tmp_path: Path,
    seconds: float,
) -> None:
    server = valkey_server({"appendfsync": "always"}, tmp_path / "valkey")
    env = {**process_env, "REDIS_URL": server.url, "DALSTON_HEARTBEAT_S": "0.5"}
    node = Node(connect(server.url, prefix=env["DALSTON_REDIS_PREFIX"]), spawn, env, tmp_path, "node-a")
    node.engine(replicas=3)
    process = node.start()
    node.ready(3)
    short, long = node.submit("slow", seconds=1), node.submit("slow", seconds=seconds + 1)
    doomed = node.submit("slow", seconds=1)
    pids = {task: node.pid_of(node.started(task).engine_id) for task in (short, long, doomed)}
    server.process.kill()
    server.process.wait()
    gone_at = time.monotonic()
    process.wait_for("redis is away")
    wait_until(lambda: time.monotonic() - gone_at > seconds, timeout=seconds + 1, what="the end of the outage")
    kill(pids[doomed])  # its tasks can't be reclaimed now; they will be
    assert alive(pids[short])
    assert alive(pids[long])
    assert "redis is back" not in process.output
    port = int(urlsplit(server.url).port or 0)
    server._spawn(server.recipe.command(port))
    wait_until(lambda: server.recipe.is_ready(port, server.pid), what="Redis again")
    for task in (short, long):
        assert node.result(task)["pid"] == pids[task]
        assert len(node.events(task, EventKind.TASK_STARTED)) == 1
    assert node.result(doomed)["pid"] != pids[doomed]
    node.ready(3)
    assert [process.output.count(f"redis is {word}") for word in ("away", "back")] == [1, 1]
    node.stop()
