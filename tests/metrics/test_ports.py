"""Each process serves its metrics on its own port, in tests as in the units."""

from collections.abc import Callable
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from dalston_queue.metrics.server import parse_address
from tests.conftest import ROOT
from tests.metrics.support import samples
from tests.orchestrator.processes import Orchestrators
from tests.support import Spawned, reserve_port, wait_until


def fetch(port: int, path: str = "/metrics") -> str:
    with urlopen(f"http://127.0.0.1:{port}{path}") as answer:
        return str(answer.read().decode())


@pytest.mark.keeps_keys
def test_an_orchestrator_serves_counters_and_gauges_once(orchestrators: Orchestrators) -> None:
    port = reserve_port()
    process = orchestrators.start("--metrics", f"127.0.0.1:{port}")
    text = fetch(port)
    assert samples(text)["dalston_redis_up"][()] == 1
    assert "dalston_scheduler_scanned_total" in text
    assert text.count("# TYPE dalston_redis_up gauge") == 1
    with pytest.raises(HTTPError, match="404"):
        fetch(port, "/secrets")
    process.stop()


@pytest.mark.keeps_keys
def test_an_orchestrator_without_an_address_serves_none(orchestrators: Orchestrators) -> None:
    assert orchestrators.start().stop() == 0


@pytest.mark.keeps_keys
def test_housekeeping_serves_its_port(orchestrators: Orchestrators) -> None:
    port = reserve_port()
    process = orchestrators.command("run_huey", DALSTON_METRICS_ADDRESS=f"127.0.0.1:{port}")

    def served() -> str:
        try:
            return fetch(port)
        except OSError:
            return ""

    assert "dalston_duty_runs_total" in wait_until(served, what=lambda: process.output)
    process.stop()


@pytest.mark.keeps_keys
def test_a_port_that_is_taken_stops_the_start_with_its_name(
    orchestrators: Orchestrators, spawn: Callable[..., Spawned]
) -> None:
    port = reserve_port()
    orchestrators.start("--metrics", f"127.0.0.1:{port}")
    second = orchestrators.start("--metrics", f"127.0.0.1:{port}", ready=False)
    assert second.wait() == 1
    assert f"can't serve metrics on 127.0.0.1:{port}" in second.output


def test_every_unit_and_manifest_opens_a_port() -> None:
    units = ROOT / "deploy" / "systemd"
    for unit in ("dalston-orchestrator@.service", "dalston-housekeeping.service"):
        assert "Environment=DALSTON_METRICS_ADDRESS=127.0.0.1:94" in (units / unit).read_text()
    assert "http: 127.0.0.1:9201" in (units / "node.yaml.example").read_text()
    assert "http: 0.0.0.0:9201" in (ROOT / "deploy" / "kubernetes" / "base" / "node.yaml").read_text()
    assert "DALSTON_METRICS_TOKEN" in (units / "server.env.example").read_text()


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), (":9433", ("127.0.0.1", 9433)), ("[::1]:9433", ("::1", 9433))],
)
def test_an_address_is_read(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["9433", "host:port", "127.0.0.1:70000", "a/b:1"])
def test_a_bad_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not ADDRESS:PORT"):
        parse_address(text)
