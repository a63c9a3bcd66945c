"""A steady load over HTTP, whatever is away just now, and an account of what became of each job."""

from __future__ import annotations

import json
import logging
import threading
from types import TracebackType
from typing import Any, Self
from uuid import UUID, uuid4

import httpx
import psycopg

from tests.support import wait_until

FAILS = "fails"
"""The name of the jobs of `fail_one`."""

PACE_S = 0.05
"""Between two jobs: enough to have some in each state at every moment, and little beside what starts the processes."""


class Load:
    """Submits jobs in a thread until the end of its block; each is repeated under its idempotency key until it is
    accepted. Most are one short task; every fourth has a stage that takes half a second, after another one."""

    def __init__(self, url: str, token: str, database_url: str) -> None:
        self.database_url = database_url
        self.urls = [url]
        """Of the web processes: each job goes to the next one. They may change while the load runs."""
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self._error: BaseException | None = None
        self.accepted = 0

    def __enter__(self) -> Self:
        logging.getLogger("httpx").setLevel(logging.WARNING)  # a line per request would hide the reason of a failure
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()

    def go_on(self, count: int, timeout: float = 60) -> None:
        """Waits until so many more jobs are accepted, and are over."""
        self._raise_its_error()
        aim = self.accepted + count
        wait_until(
            lambda: self._error or self.accepted >= aim, timeout, lambda: f"{self.accepted} of {aim} are accepted"
        )
        self._raise_its_error()
        wait_until(
            lambda: self._over() >= aim, timeout, lambda: f"{self._over()} of {aim} jobs are over:\n{self._open()}"
        )

    def fail_one(self, timeout: float = 60) -> str:
        """Submits a job that its engine rejects, beside the others, and returns the error of its dead letter."""
        job = {"name": FAILS, "stages": [{"stage": "fail", "parameters": {"how": "reject"}}]}
        answer = httpx.post(f"{self._next_url()}/api/v1/jobs", json=job, headers=self._headers, timeout=40)
        assert answer.status_code == 201, answer.text
        query = (
            "SELECT d.error FROM dalston_dead_letter d JOIN dalston_task t ON t.id = d.task_id"
            f" WHERE t.job_id = '{UUID(answer.json()['job_id'])}'"
        )
        [(error,)] = wait_until(lambda: self._rows(query), timeout, lambda: f"no dead letter:\n{self._open()}")
        return str(error)

    def nothing_is_lost(self, timeout: float = 60) -> None:
        """After the end of the block: each job completed, each once."""
        assert not self._thread.is_alive()
        self._raise_its_error()
        wait_until(
            lambda: self._over() == self.accepted,
            timeout,
            lambda: f"{self._over()} of {self.accepted}:\n{self._open()}",
        )
        assert self._rows(f"SELECT status, count(*) FROM dalston_job WHERE name <> '{FAILS}' GROUP BY status") == [
            ("completed", self.accepted)
        ]
        # A job's row is there once for its key, and a task's completion counts once.
        twice = (
            "SELECT task_id FROM dalston_task_event WHERE transition = 'complete' GROUP BY task_id HAVING count(*) > 1"
        )
        assert self._rows(twice) == []

    def rerun(self) -> set[str]:
        """The tasks that were handed to an engine more than once."""
        found = self._rows(
            "SELECT id FROM dalston_task WHERE attempt > 1 OR deliveries > 0 OR node_losses > 0"
            " UNION SELECT task_id FROM dalston_task_event WHERE transition IN ('recover', 'rebuild', 'retry')"
        )
        return {str(task) for (task,) in found}

    def _run(self) -> None:
        try:
            with httpx.Client(headers=self._headers, timeout=40) as client:
                number = 0
                while not self._end.wait(PACE_S):
                    number += 1
                    self._submit(client, _job(number))
        except (AssertionError, httpx.HTTPError, ValueError) as error:  # raised by the thread of the test
            self._error = error

    def _submit(self, client: httpx.Client, job: dict[str, Any]) -> None:
        key = uuid4().hex
        while True:
            try:
                answer = client.post(
                    f"{self._next_url()}/api/v1/jobs", content=json.dumps(job), headers={"Idempotency-Key": key}
                )
            except httpx.TransportError:  # the web process is the one that died
                answer = None
            if answer is not None and answer.status_code in (200, 201):
                self.accepted += 1
                return
            # Only a server that is away may refuse it: anything else is a defect.
            assert answer is None or answer.status_code in (429, 500, 502, 503), (answer.status_code, answer.text)
            self._end.wait(PACE_S)

    def _next_url(self) -> str:
        urls = self.urls
        return urls[self.accepted % len(urls)]

    def _over(self) -> int:
        rows = self._rows(f"SELECT count(*) FROM dalston_job WHERE finished_at IS NOT NULL AND name <> '{FAILS}'")
        return int(rows[0][0]) if rows else 0

    def _open(self) -> list[Any]:
        return self._rows(
            "SELECT id, stage, status, attempt, deliveries, assigned_worker_id FROM dalston_task"
            " WHERE finished_at IS NULL ORDER BY id LIMIT 10"
        )

    def _rows(self, query: str) -> list[Any]:
        """Empty while Postgres is away."""
        try:
            with psycopg.connect(self.database_url, connect_timeout=5) as connection:
                return connection.execute(query.encode()).fetchall()
        except psycopg.OperationalError:
            return []

    def _raise_its_error(self) -> None:
        if self._error is not None:
            raise AssertionError("the load ended") from self._error


def _job(number: int) -> dict[str, Any]:
    first = {"stage": "echo", "parameters": {"number": number}}
    if number % 4:
        return {"name": "short", "stages": [first]}
    return {"name": "long", "stages": [first, {"stage": "sleep", "after": ["echo"], "parameters": {"seconds": 0.5}}]}
