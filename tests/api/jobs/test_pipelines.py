"""POST /jobs with the name of a pipeline that an installed app registers in its module `pipelines`."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from dalston_queue.models import Job
from tests.api.conftest import Api


@pytest.fixture(autouse=True)
def shop(settings: Settings) -> None:
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "tests.api.jobs.shop"]


def test_a_pipeline_of_an_installed_app_becomes_a_job(api: Api) -> None:
    answer = api.post("/jobs", {"pipeline": "shout", "parameters": {"channels": 2}})
    assert answer.status_code == 201, answer.content
    job = Job.objects.get(id=answer.json()["job_id"])
    assert (job.name, job.parameters) == ("shout", {"channels": 2})
    stages = {task.stage: (task.queue, task.after, task.parameters) for task in job.tasks.all()}
    assert stages == {
        "prepare": ("echo", [], {}),
        "loud_ch0": ("echo", ["prepare"], {"channel": 0}),
        "loud_ch1": ("echo", ["prepare"], {"channel": 1}),
    }


def test_parameters_that_a_pipeline_refuses_are_a_422(api: Api) -> None:
    answer = api.post("/jobs", {"pipeline": "shout", "parameters": {}})
    assert (answer.status_code, answer.json()["detail"]) == (422, "Shout needs a number of channels.")
    assert not Job.objects.exists()
