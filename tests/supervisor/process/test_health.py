"""Circuit breaker and health check: an unhealthy engine claims nothing until it is healthy again."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dalston_queue.broker.nodes.health import ask_health
from dalston_queue.broker.protocol.types import EngineState, EventKind, NodeState
from tests.supervisor.node import Node
from tests.support import WAIT_TIMEOUT_S, wait_until


def test_five_failures_open_the_breaker_and_good_trials_close_it(make_node: Callable[..., Node]) -> None:
    node = make_node(DALSTON_BREAKER_OPEN_S="4")
    node.engine()
    node.start()
    node.ready()
    for task in [node.submit("fail") for _ in range(5)]:
        node.wait_event(task, EventKind.TASK_FAILED)
    [engine] = node.wait_state(EngineState.UNHEALTHY)
    assert engine.info["why"] == "5 tasks failed in a row: no work for 4 s, then 3 trial tasks"
    assert engine.info["breaker"] == "open"
    assert node.result(node.waiting_task())
    wait_until(lambda: node.engines()[0].info["breaker"] == "half_open", what="a heartbeat with its state")
    [engine] = node.engines()
    assert engine.state is EngineState.UNHEALTHY, "two trials to go"
    assert engine.info["why"] == "5 tasks failed in a row: half-open, it may run 3 trial tasks"
    for task in [node.submit("ready") for _ in range(2)]:
        assert node.result(task)
    node.ready()


@pytest.mark.slow
def test_a_node_on_which_every_engine_crash_loops_cordons_itself_with_the_reason(node: Node) -> None:
    node.engine(env={"FIXTURE_LOAD": "crash"})
    node.start()
    node.wait_state(EngineState.CRASHLOOP, timeout=40)
    [info] = wait_until(lambda: [n for n in node.broker.registry.nodes() if n.state is NodeState.CORDONED])
    assert info.info["why"] == "every engine crash-loops: 5 failures of 1 engine; the last: exit code 3"


def test_a_failing_probe_pauses_the_engine_until_it_succeeds(node: Node, tmp_path: Path) -> None:
    well = tmp_path / "well"
    well.touch()
    node.engine(probe={"command": ["test", "-e", str(well)], "every": 0.2, "timeout": 2})
    node.start()
    node.ready()
    well.unlink()
    [engine] = node.wait_state(EngineState.UNHEALTHY)
    assert "its probe ended with 1" in engine.info["why"]
    task = node.waiting_task()
    well.touch()
    assert node.result(task)
    node.ready()


def test_an_engine_answers_the_probe_of_the_sdk_and_a_stopped_one_is_unhealthy(node: Node) -> None:
    node.engine(probe={"every": 0.3, "timeout": 0.5})
    node.start()
    [engine] = node.ready()

    def health() -> dict[str, Any]:
        [each] = node.engines()
        return each.info.get("health") or {}

    found = wait_until(health, what="the first answer")
    assert found["memory_mib"] > 1 and found["threads"] > 1 and found["connected"]
    os.kill(node.pid_of(engine.engine_id), signal.SIGSTOP)
    try:
        [engine] = node.wait_state(EngineState.UNHEALTHY)
        assert "it does not answer its probe" in engine.info["why"]
        assert engine.info["probe_failures"] >= 2
    finally:
        os.kill(node.pid_of(engine.engine_id), signal.SIGCONT)
    node.ready()


def test_the_probe_of_the_sdk_can_be_switched_off(node: Node) -> None:
    node.engine(probe=None)
    node.start()
    [engine] = node.ready()
    task = node.submit("ready")
    assert node.result(task)
    assert engine.info["health"] is None
    with pytest.raises(ConnectionRefusedError):
        ask_health(engine.engine_id, node.pid_of(engine.engine_id), 1)


@pytest.fixture
def health_page() -> Iterator[HTTPServer]:
    """Answers with the `status` that it has; 0 is no answer within the probe's timeout, 1 is no HTTP."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = self.server.status  # type: ignore[attr-defined]
            if status == 0:
                over.wait(WAIT_TIMEOUT_S)
            elif status == 1:
                self.wfile.write(b"rubbish\r\n")
            else:
                self.send_response(status)
                self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    over = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.status = 200  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    over.set()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(("status", "why"), [(500, "HTTP Error 500"), (0, "timed out"), (1, "rubbish")])
def test_a_failing_probe_url_pauses_the_engine_until_it_answers(
    node: Node, health_page: HTTPServer, status: int, why: str
) -> None:
    url = f"http://127.0.0.1:{health_page.server_address[1]}/health"
    node.engine(probe={"url": url, "every": 0.2, "timeout": 10 if status else 0.5})
    node.start()
    node.ready()
    health_page.status = status  # type: ignore[attr-defined]
    [engine] = node.wait_state(EngineState.UNHEALTHY)
    assert f"its probe {url} failed: " in engine.info["why"]
    assert why in engine.info["why"]
    task = node.waiting_task()
    health_page.status = 200  # type: ignore[attr-defined]
    assert node.result(task)
    node.ready()
