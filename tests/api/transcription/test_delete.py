"""DELETE cancels what runs and deletes what is over, with an audit row each; files go when no job needs them."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from dalston_queue.models import Job, JobArtifact, OperatorAction
from tests.api.transcription.conftest import URL, Fleet

pytestmark = pytest.mark.django_db(transaction=True)
Upload = Callable[..., httpx.Response]


def test_a_waiting_one_is_cancelled(upload: Upload, client: httpx.Client) -> None:
    made = upload().json()
    answer = client.delete(f"{URL}/{made['id']}", params={"reason": "a mistake"})
    assert (answer.status_code, answer.json()) == (200, {"id": made["id"], "status": "cancelled"})
    assert client.get(f"{URL}/{made['id']}").json()["status"] == "cancelled"
    action = OperatorAction.objects.get()
    assert (action.action, action.target, action.reason) == ("job.cancel", made["id"], "a mistake")


def test_a_running_one_is_cancelled_by_its_engine(upload: Upload, client: httpx.Client, fleet: Fleet) -> None:
    made = upload().json()
    fleet.claim()
    assert client.delete(f"{URL}/{made['id']}").json()["status"] == "cancelling"


def test_one_that_is_over_is_deleted_with_its_history(upload: Upload, client: httpx.Client, fleet: Fleet) -> None:
    made = upload().json()
    fleet.finish()
    answer = client.delete(f"{URL}/{made['id']}")
    assert (answer.status_code, answer.json()["status"]) == (200, "deleted")
    assert client.get(f"{URL}/{made['id']}").status_code == 404
    assert client.delete(f"{URL}/{made['id']}").status_code == 404
    assert not Job.objects.exists()
    assert set(JobArtifact.objects.values_list("job_id", flat=True)) == {None}  # for housekeeping
    action = OperatorAction.objects.get()
    assert (action.action, action.after) == ("transcription.delete", {"deleted": True})
    assert action.before == {"status": "completed", "filename": "cities.wav"}
