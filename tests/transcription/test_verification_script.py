"""The verification script of the reliable queue (M33), step by step, on the real engines.

What differs: a token and a port, as this API has them; and the engine whose container the script stops runs alone and
gets `kill -9`, so that its entry is seen pending, with a growing idle time, until the judge finds its engine dead.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import redis
from django.db import connection

from dalston_queue.artifacts import open_store
from dalston_queue.broker import Broker
from tests.api.conftest import project, token_for, web_broker
from tests.orchestrator.processes import FAST, Orchestrators
from tests.support import Spawned, need_tool, wait_until
from tests.tools.recordings import moonshine_folder, recording, word_error_rate
from tests.transcription.conftest import TIMEOUT_S, Pipeline
from tests.web import Web

__all__ = ["project", "token_for", "web_broker"]

pytestmark = pytest.mark.django_db(transaction=True)


class Script:
    """The commands of the script."""

    def __init__(self, web: Web, token: str) -> None:
        self.url, self.token, self.prefix = f"{web.url}/v1/audio/transcriptions", token, web.prefix
        self.redis = redis.Redis.from_url(web.env["REDIS_URL"], decode_responses=True)

    def upload_command(self, name: str) -> list[str]:
        file = f"file=@{recording(name)}"
        return [
            need_tool("curl"),
            "-s",
            "-X",
            "POST",
            self.url,
            "-H",
            f"Authorization: Bearer {self.token}",
            "-F",
            file,
        ]

    def upload(self) -> str:
        return str(json.loads(subprocess.check_output(self.upload_command("two_cities.wav")))["id"])

    def get(self, job: str) -> dict[str, Any]:
        found = subprocess.check_output(
            ["curl", "-s", f"{self.url}/{job}", "-H", f"Authorization: Bearer {self.token}"]
        )
        document: dict[str, Any] = json.loads(found)
        return document

    def wait_for(self, job: str, status: str) -> None:
        wait_until(lambda: self.get(job)["status"] == status, TIMEOUT_S, lambda: f"{status}: {self.get(job)}")

    def pending(self) -> int:
        """XPENDING dalston:stream:transcribe engines"""
        try:
            return int(self.redis.xpending(f"{self.prefix}:stream:transcribe", "engines")["pending"])
        except redis.ResponseError:  # nothing was ever appended
            return 0

    def entries(self) -> list[dict[str, Any]]:
        """XPENDING dalston:stream:transcribe engines - + 10"""
        return list(self.redis.xpending_range(f"{self.prefix}:stream:transcribe", "engines", "-", "+", 10))


@pytest.fixture
def script(web: Web, token_for: Callable[..., str], pipeline_of_web: Pipeline) -> Script:
    return Script(web, token_for("submit", "read"))


@pytest.fixture
def of_web(web: Web, database_url: str, spawn: Callable[..., Spawned]) -> Orchestrators:
    return Orchestrators(spawn, web.env, database_url)


@pytest.fixture
def pipeline_of_web(web: Web, web_broker: Broker, spawn: Callable[..., Spawned]) -> Pipeline:
    moonshine_folder()
    return Pipeline(web_broker, open_store(web.env["DALSTON_ARTIFACTS_URL"]), {**web.env, **FAST}, spawn)


def test_an_engine_that_dies_in_the_middle_loses_nothing(
    script: Script, of_web: Orchestrators, pipeline_of_web: Pipeline
) -> None:
    # 1. Start services
    of_web.start(DALSTON_DEAD_AFTER_S="6")
    pipeline_of_web.start("prepare", "transcribe", "merge")
    # 2. Submit a job   3. Wait for the transcribe task to start
    job = script.upload()
    wait_until(lambda: script.pending() == 1, TIMEOUT_S, "one pending entry")  # 4. Check pending tasks in the stream
    assert script.get(job)["status"] == "running"
    # 5. Kill the engine mid-task
    killed = pipeline_of_web.engines["transcribe"]
    pipeline_of_web.kill("transcribe")
    # 6. Check pending: the task stays, its idle time grows
    [before] = script.entries()
    wait_until(
        lambda: script.entries()[0]["time_since_delivered"] > before["time_since_delivered"] + 1500, 5, "it grows"
    )
    [after] = script.entries()
    assert (after["message_id"], after["consumer"]) == (before["message_id"], before["consumer"])
    assert script.get(job)["status"] == "running"
    # 7. Restart the engine: it claims the stale task
    pipeline_of_web.start("transcribe")
    pipeline_of_web.engines["transcribe"].wait_for("claimed_stale_task", TIMEOUT_S)
    # 8. The job completes
    script.wait_for(job, "completed")
    assert word_error_rate(script.get(job)["text"]) <= 0.05
    # 9. The delivery count was incremented
    output = pipeline_of_web.engines["transcribe"].output
    [row] = [row for row in output.splitlines() if "claimed_stale_task" in row]
    assert f"job_id={job} " in row and "delivery_count=2" in row
    assert killed.pid != pipeline_of_web.engines["transcribe"].pid
    assert script.pending() == 0


def test_two_orchestrators_make_no_stage_twice(
    script: Script, of_web: Orchestrators, pipeline_of_web: Pipeline
) -> None:
    # 10. Scale to 2 orchestrators, submit multiple jobs rapidly
    for _ in range(2):
        of_web.start()
    pipeline_of_web.start("prepare", "transcribe", "merge")
    uploads = [subprocess.Popen(script.upload_command("beckett.wav"), stdout=subprocess.PIPE) for _ in range(5)]
    jobs = [json.loads(upload.communicate()[0])["id"] for upload in uploads]
    assert len(set(jobs)) == 5
    for job in jobs:
        script.wait_for(job, "completed")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT job_id, stage, COUNT(*) AS cnt FROM dalston_task GROUP BY job_id, stage HAVING COUNT(*) > 1"
        )
        assert cursor.fetchall() == []
        cursor.execute("SELECT COUNT(*) FROM dalston_task")
        assert cursor.fetchone() == (15,)
