"""Fixtures of the dashboard's tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pytest
from django.test import Client

from dalston_queue.accounts.roles import Role
from dalston_queue.broker import Broker
from dalston_queue.dashboard.dead_letters.read import recent_patterns
from dalston_queue.dashboard.nodes import read as nodes_read
from dalston_queue.dashboard.overview.read import latest
from tests.dashboard.people import logged_in
from tests.dashboard.running import Running
from tests.jobs import make
from tests.orchestrator.support import Steps, engine


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request reads anew: otherwise it would show what the test before left within half a second."""
    monkeypatch.setattr(nodes_read, "FRESH_S", -1.0)
    monkeypatch.setattr(latest, "fresh_s", -1.0)
    monkeypatch.setattr(recent_patterns, "fresh_s", -1.0)
    monkeypatch.setattr(latest, "_past", deque())


@pytest.fixture
def viewer(db: None) -> Client:
    return logged_in("vera", Role.VIEWER)


@pytest.fixture
def operator(db: None) -> Client:
    return logged_in("olga", Role.OPERATOR)


@pytest.fixture
def steps(broker: Broker) -> Steps:
    return Steps(broker)


@pytest.fixture
def running(broker: Broker, steps: Steps) -> Iterator[Running]:
    task = make.single("echo", timeout_seconds=600)
    steps.poll()
    with engine(broker, name="gpu-01.demo.0.boot") as consumer:
        [claimed] = consumer.claim()
        steps.drain()
        yield task, claimed, consumer
