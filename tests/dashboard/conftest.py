"""Fixtures of the dashboard's tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dalston_queue.broker import Broker
from tests.support import Spawned
from tests.web import Web


@pytest.fixture
def web(spawn: Callable[..., Spawned], process_env: dict[str, str], database_url: str, broker: Broker) -> Web:
    return Web(spawn, {**process_env, "DATABASE_URL": database_url})
