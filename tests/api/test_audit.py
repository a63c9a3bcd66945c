"""GET /audit: operator actions, filtered and by page."""

from __future__ import annotations

from uuid import uuid4

import pytest

from dalston_queue.audit.record import audited
from dalston_queue.models import OperatorAction
from tests.api.conftest import Api

pytestmark = pytest.mark.django_db


def record(target: str) -> OperatorAction:
    with audited("job.cancel", target, actor="user ada", reason="wrong file", before={"status": "running"}) as row:
        row.after = {"status": "cancelled"}
    return row


def test_an_action_is_shown_with_its_links(operator: Api) -> None:
    row = record("job 1")
    [item] = operator.get("/audit").json()["items"]
    assert (item["id"], item["actor"], item["action"], item["reason"]) == (
        row.pk,
        "user ada",
        "job.cancel",
        "wrong file",
    )
    assert (item["before"], item["after"]) == ({"status": "running"}, {"status": "cancelled"})
    assert [link["fact"] for link in item["links"]] == ["begun", "finished"]
    assert item["finished_at"]


def test_it_is_filtered_and_paged(operator: Api) -> None:
    rows = [record(f"job {number}") for number in range(5)]
    assert [item["target"] for item in operator.get("/audit?target=job+3").json()["items"]] == ["job 3"]
    assert operator.get("/audit?actor=bea").json()["items"] == []
    assert operator.get("/audit?unfinished=true").json()["items"] == []
    assert operator.get("/audit?until=2020-01-01T00:00:00Z").json()["items"] == []
    page = operator.get("/audit?limit=3&actor=ada").json()
    assert ([item["id"] for item in page["items"]], page["next_cursor"]) == (
        [row.pk for row in rows[4:1:-1]],
        rows[2].pk,
    )
    rest = operator.get(f"/audit?limit=3&cursor={page['next_cursor']}").json()
    assert ([item["id"] for item in rest["items"]], rest["next_cursor"]) == ([rows[1].pk, rows[0].pk], None)
    assert operator.get("/audit?since=yesterday").status_code == 422
    assert operator.get("/audit?actor=%00").status_code == 422


@pytest.mark.usefixtures("broker")
def test_an_action_on_a_missing_row_is_not_recorded(operator: Api) -> None:
    missing, reason = uuid4(), {"reason": "x"}
    asked = [
        operator.call("DELETE", f"/jobs/{missing}"),
        operator.call("DELETE", f"/tasks/{missing}"),
        operator.post(f"/tasks/{missing}/requeue", reason),
        operator.post(f"/tasks/{missing}/dead_letter", reason),
        operator.post(f"/dead_letters/{missing}/replay", reason),
        operator.call("DELETE", f"/dead_letters/{missing}"),
        operator.call("DELETE", f"/replay_batches/{missing}"),
        operator.post(f"/jobs/{missing}/webhooks/{missing}/send"),
        operator.post("/nodes/nowhere/commands", {"command": "drain"}),
        operator.call("DELETE", "/nodes/nowhere"),
        operator.post("/streams/nothing/pause", reason),
        operator.post("/streams/nothing/resume", reason),
    ]
    assert [answer.status_code for answer in asked] == [404] * len(asked)
    many = operator.post("/dead_letters:replay", {"ids": [str(missing)]}).json()
    assert [item["outcome"] for item in many["items"]] == ["there is no such dead letter"]
    assert not OperatorAction.objects.exists()
