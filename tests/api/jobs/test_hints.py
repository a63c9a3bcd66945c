"""A web process tells the orchestrators of what it stored, behind its answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from dalston_queue.broker import connect
from tests.support import wait_until
from tests.web import Web


@pytest.mark.django_db(transaction=True)
def test_every_job_of_a_busy_moment_is_told(web: Web, token_for: Callable[..., str]) -> None:
    with web.client(token_for("submit")) as client, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.post("/api/v1/tasks", json={"task_type": "echo"}), range(40)))
    stored = {answer.json()["job_id"] for answer in answers}
    broker = connect(os.environ["REDIS_URL"], prefix=web.prefix)
    home = broker.home

    def told() -> str:
        return str(home.command("XRANGE", home.keys.events("_jobs"), "-", "+"))

    try:
        wait_until(lambda: all(job in told() for job in stored), what="every job is told")
    finally:
        broker.close()
    assert len(stored) == 40
