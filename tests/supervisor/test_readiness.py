"""/healthz and /readyz of a node, which has no database: Redis, engines, and whether the node takes work."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from dalston_queue.broker import connect
from dalston_queue.broker.nodes.commands import Command
from dalston_queue.broker.protocol.types import EngineState
from dalston_site.embedded.server import Server
from supervisor.redis_link import MAIN_LOOP_TIMEOUT_S
from tests.health.ask import ask, becomes, reason
from tests.supervisor.node import Node
from tests.support import Spawned, reserve_port, wait_until


def serving(node: Node) -> int:
    port = reserve_port()
    node.config["http"] = f"127.0.0.1:{port}"
    return port


def test_a_node_is_ready_with_its_engines_and_not_while_it_drains(make_node: Callable[..., Node]) -> None:
    node = make_node()
    port = serving(node)
    node.engine("fix", stop_grace=30)
    node.start()
    node.ready()
    becomes(port, "/readyz", 200)
    assert ask(port, "/readyz", host="10.0.0.1")[1] == {
        "status": "ok",
        "process": "supervisor",
        "checks": {"main loop": {"status": "ok"}, "redis": {"status": "ok"}, "engines": {"status": "ok"}},
    }
    node.broker.node(node.name).send(Command(name="drain"))
    becomes(port, "/readyz", 503)
    assert reason(port, "/readyz", "stopping") == "the node drains"
    assert ask(port, "/healthz")[0] == 200
    node.wait_state(EngineState.STOPPED)
    wait_until(lambda: reason(port, "/readyz", "engines") == "none of 1 is ready", what="no engine is ready")
    node.broker.node(node.name).send(Command(name="resume"))
    becomes(port, "/readyz", 200)


def test_a_redis_that_hangs_and_a_signal_are_seen(
    valkey_server: Callable[..., Server], spawn: Callable[..., Spawned], process_env: dict[str, str], tmp_path: Path
) -> None:
    server = valkey_server()
    env = {**process_env, "REDIS_URL": server.url, "DALSTON_HEARTBEAT_S": "0.2"}
    node = Node(connect(server.url, prefix=env["DALSTON_REDIS_PREFIX"]), spawn, env, tmp_path, "node-a")
    port = serving(node)
    node.engine("fix", stop_grace=30)
    process = node.start()
    node.ready()
    becomes(port, "/readyz", 200)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        becomes(port, "/readyz", 503)
        assert "answer" in reason(port, "/readyz", "redis")
        assert ask(port, "/healthz")[0] == 200
    finally:
        os.kill(server.pid, signal.SIGCONT)
    becomes(port, "/readyz", 200)
    node.started(node.submit("slow", seconds=2))
    process.send(signal.SIGTERM)
    becomes(port, "/readyz", 503)
    assert reason(port, "/readyz", "stopping") == "the node drains"
    assert process.wait() == 0


@pytest.mark.slow
def test_a_main_loop_that_stands_still_fails_the_node_until_it_goes_on(make_node: Callable[..., Node]) -> None:
    """The loop waits in a write: its state file's next version is a pipe that nothing reads."""
    node = make_node()
    port = serving(node)
    node.engine("fix")
    node.start()
    [engine] = node.ready()
    becomes(port, "/readyz", 200)
    pipe = node.state_dir / "engines.new"
    os.mkfifo(pipe)
    os.kill(node.pid_of(engine.engine_id), signal.SIGKILL)
    wait_until(lambda: ask(port, "/healthz")[0] == 503, MAIN_LOOP_TIMEOUT_S + 30, "the loop stands still")
    assert reason(port, "/healthz", "main loop").startswith("stands still for ")
    pipe.read_bytes()
    becomes(port, "/readyz", 200)
