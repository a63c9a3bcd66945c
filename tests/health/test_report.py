"""Checks run within a deadline, one at a time, and say little."""

from __future__ import annotations

import json
import math
import secrets
import socket
import threading
import time

import pytest

from dalston_queue.health import report, watchdog
from dalston_queue.health.loops import Loop
from dalston_queue.health.report import OK, Finding, Findings, Grade, Health, Probe, failed, standing_still
from tests.support import keeps_time, wait_until


def read(answer: tuple[int, bytes]) -> tuple[int, dict[str, object]]:
    return answer[0], json.loads(answer[1])


def test_the_worst_check_decides() -> None:
    found: dict[str, Finding] = {"a": OK}
    health = Health("web", ready=[Probe(("a",), lambda: found)])
    assert read(health.readyz()) == (200, {"status": "ok", "process": "web", "checks": {"a": {"status": "ok"}}})
    for finding, code in ((Finding(Grade.DEGRADED, "late"), 200), (failed("gone"), 503)):
        found["a"] = finding
        health._known_at = float("-inf")
        answered, document = read(health.readyz())
        assert (answered, document["status"]) == (code, finding.status)


def test_a_check_that_hangs_costs_one_thread_and_the_deadline() -> None:
    release, asked = threading.Event(), []

    def hang() -> Findings:
        asked.append(1)
        release.wait(60)
        return {"slow": OK}

    health = Health("web", ready=[Probe(("slow",), hang), Probe(("quick",), lambda: {"quick": OK})])

    def took() -> float:
        began = time.monotonic()
        code, document = read(health.readyz())
        assert code == 503
        assert "has not answered for" in str(document["checks"])
        assert document["checks"]["quick"] == {"status": "ok"}
        return time.monotonic() - began

    try:
        keeps_time(report.TIMEOUT_S + 1, took)
        askers = [threading.Thread(target=health.readyz) for _ in range(20)]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
        assert len(asked) == 1
    finally:
        release.set()
    wait_until(lambda: health.readyz()[0] == 200, what="the check answers again")


def test_the_text_of_an_error_is_not_in_the_answer() -> None:
    def fail() -> Findings:
        raise RuntimeError("postgres://dalston:hunter2@10.0.0.7/dalston")

    _, body = Health("web", ready=[Probe(("postgres",), fail)]).readyz()
    assert b"hunter2" not in body
    assert b"10.0.0.7" not in body


def test_a_loop_that_announced_its_rest_does_not_stand_still() -> None:
    loop = Loop("loop")
    loop.mark(rest_s=100)
    assert loop.idle_s() == 0
    assert standing_still({"loop": 100.0, "other": 5.0}, 60) == {
        "loop": failed("stands still for 100 s"),
        "other": OK,
    }


def test_the_watchdog_is_fed_only_while_the_process_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        address = f"\0watchdog-{secrets.token_hex(6)}"
        systemd.bind(address)
        systemd.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{address[1:]}")
        monkeypatch.setenv("WATCHDOG_USEC", "90000")
        found = {"loop": OK}
        watchdog.start(Health("orchestrator", alive=lambda: found))
        assert systemd.recv(100) == b"WATCHDOG=1"
        found["loop"] = failed("stands still for 61 s")
        systemd.settimeout(0.3)
        wait_until(lambda: _is_silent(systemd), what="no more pings")


def _is_silent(systemd: socket.socket) -> bool:
    """For three times the interval."""
    try:
        systemd.recv(100)
    except TimeoutError:
        return True
    return False


def test_without_a_watchdog_none_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    assert watchdog.interval_s() == math.inf
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    assert watchdog.interval_s() == 10
    monkeypatch.setenv("WATCHDOG_PID", "1")
    assert watchdog.interval_s() == math.inf
