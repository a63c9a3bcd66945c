"""An engine process's environment: defaults, empty values, and clear errors for wrong ones."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dalston_queue.broker.engine.stale import StaleRules
from engines.sdk import BrokenConfigError
from engines.sdk.process.identity import identify

NUMBERS = (
    "DALSTON_HEARTBEAT_S",
    "DALSTON_BREAKER_FAILURES",
    "DALSTON_BREAKER_OPEN_S",
    "DALSTON_MAX_RESULT_BYTES",
    "DALSTON_STALE_THRESHOLD_MS",
    "DALSTON_MAX_DELIVERIES",
    "DALSTON_MAX_DELIVERIES_NODE_LOST",
)
DEMO = Path(__file__).resolve().parents[2] / "engines" / "demo" / "engine.py"


@pytest.mark.parametrize("name", [*NUMBERS, "DALSTON_SUPERVISOR_PID"])
@pytest.mark.parametrize("value", ["abc", "-1", "nan"])
def test_a_wrong_number_is_refused_by_name(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(BrokenConfigError, match=f"^{name} is '{value}'. Expected a "):
        identify("t")


def test_the_rules_of_the_stale_claim_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DALSTON_STALE_THRESHOLD_MS", "7000")
    monkeypatch.setenv("DALSTON_MAX_DELIVERIES", "2")
    monkeypatch.setenv("DALSTON_MAX_DELIVERIES_NODE_LOST", "4")
    assert identify("t").stale == StaleRules(threshold_ms=7000, max_deliveries=2, max_losses=4)


def test_an_empty_value_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = ("REDIS_URL", "DALSTON_REDIS_PREFIX", "DALSTON_ARTIFACTS_URL", "DALSTON_SCRATCH_DIR")
    for name in (*NUMBERS, *addresses, "DALSTON_ENGINE_ID", "DALSTON_SUPERVISOR_PID"):
        monkeypatch.setenv(name, "")
    identity = identify("t")
    assert (identity.supervised, identity.supervisor_pid, identity.heartbeat_s) == (False, None, 5.0)
    assert (identity.redis_url, identity.prefix) == ("redis://127.0.0.1:6379/0", "dalston")
    assert (identity.artifacts_url, identity.scratch, identity.stale) == ("", "", StaleRules())


def test_a_host_name_with_a_dot_gives_the_node_id_that_the_supervisor_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DALSTON_NODE_ID", raising=False)
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu.01")
    assert identify("t").node_id == "gpu.01"


@pytest.mark.parametrize(
    ("name", "value", "reported"),
    [
        ("DALSTON_HEARTBEAT_S", "abc", "abc"),
        ("REDIS_URL", "http://nowhere", "http://nowhere"),
        ("DALSTON_ARTIFACTS_URL", "/srv/artifacts", "DALSTON_ARTIFACTS_URL: the artifact store is neither"),
    ],
)
def test_an_engine_with_a_wrong_setting_exits_with_78_and_a_sentence(name: str, value: str, reported: str) -> None:
    env = {**os.environ, name: value}
    done = subprocess.run([sys.executable, str(DEMO)], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 78, done.stderr
    assert reported in done.stderr and "Traceback" not in done.stderr
